"""Reweighting and remapping at the size of the paper."""

from __future__ import annotations

import resource
import statistics
import time
from typing import Any

import numpy as np

from benchmarks.common import pa_text


def bench_remap(rows: int) -> dict[str, Any]:
    """Steps of `both` at the size of the paper's data: 3 labels per item, 300 features, 29 label features, a target of
    90,000 items in 6,600 queries; with 300 trees (two rankers on 600 columns each) beside it. Local, all threads."""
    from distrank.engine.local import LocalEngine
    from distrank.remap.data import Samples
    from distrank.remap.extension import Block, Blocks, Scaling
    from distrank.remap.label_features import LabelFeatures
    from distrank.remap.model import RemapSettings
    from distrank.remap.train import train
    from distrank.tables.feature_shards import build_feature_shards
    from distrank.tables.features import Features

    rng = np.random.default_rng(1)
    items, queries, target_items, target_queries, columns = rows // 3, rows // 55, rows * 90 // 396, rows // 60, 300
    query, item = np.sort(rng.integers(queries, size=items)), np.repeat(np.arange(items), 3)
    hashes = rng.integers(2**63, size=queries).astype(np.uint64) * np.uint64(2)
    found: dict[str, Any] = {"rows": rows}
    for case, width, blocks in (("300 features", columns, 1), ("300 features and 300 trees", 2 * columns, 2)):
        who, said = rng.integers(1720, size=rows).astype(np.uint32), rng.integers(2, size=rows).astype(float)
        x, number = rng.normal(size=(items, width)), np.arange(items)
        samples = Samples(query, hashes[query], x, item, who, said, number, number)
        y = LabelFeatures(tuple(f"y{k}" for k in range(29)), rng.random((rows, 29)), np.ones(29))
        ids = (
            pa_text("q", np.sort(rng.integers(target_queries, size=target_items))),
            pa_text("i", np.arange(target_items)),
        )
        described = Features(*ids, (), rng.normal(size=(target_items, width)), rng.integers(5, size=target_items) + 0.0)
        plain = tuple(Block(Scaling(np.zeros(width), np.ones(width)), None, 0) for _ in range(blocks))
        beats: list[float] = []
        with LocalEngine() as engine:
            trained = train(
                samples, y, build_feature_shards(described), "both", RemapSettings(steps=6), engine,
                lambda _, beats=beats: beats.append(time.perf_counter()), blocks=Blocks(plain, query % blocks),
                start=np.zeros(29),
            )  # fmt: skip
        found[f"{case}: a step, s"] = statistics.median(np.diff(beats).tolist())
        found[f"{case}: rounds"] = trained.fit.facts["rounds"]
        found[f"{case}: peak memory so far, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found
