"""Consensus of ratings beside crowd-kit."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common import fit_once, median_seconds


def bench_labels(rows: int) -> dict[str, Any]:
    """dawid-skene and glad on binary labels, 3 per item, 1,000 annotators, beside crowd-kit's at its tolerance (1e-5).

    crowd-kit's Dawid-Skene runs as it is; its GLAD is left out: one of its iterations takes minutes.
    """
    from distrank.engine.local import LocalEngine
    from distrank.tables.judgments import judgments_from_codes
    from distrank.tables.shards import build_shards

    codes = _labels(rows)
    found: dict[str, Any] = {"rows": rows}
    begin = time.perf_counter()
    sharded = build_shards(judgments_from_codes("ratings", **codes), form="ratings", unit="item", graded=True)
    found["columns to shards, s"] = time.perf_counter() - begin
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        "dawid-skene at crowd-kit's tolerance": ("dawid-skene", {"tolerance": 1e-5, "quality_prior": None}),
        "dawid-skene": ("dawid-skene", {}),
        "glad": ("glad", {}),
    }
    with LocalEngine() as engine:
        for case, (name, settings) in cases.items():
            wall, cpu, result = median_seconds(partial(fit_once, engine, name, sharded, **settings), 3)
            found |= {f"{case}, s": wall, f"{case}, CPU s": cpu, f"{case}, rounds": result.facts["rounds"]}
            found[f"{case}, log-likelihood"] = float(result.theta["log_likelihood"])
    if rows <= 1_000_000:
        import pandas as pd
        from crowdkit.aggregation import DawidSkene

        columns = {"task": codes["item"], "worker": codes["annotator"], "label": codes["rating"]}
        peer = DawidSkene(n_iter=100, tol=1e-5)
        _, cpu, _ = median_seconds(lambda: peer.fit(pd.DataFrame(columns)), 1, warm=False)
        found |= {"crowd-kit Dawid-Skene, CPU s": cpu, "crowd-kit, iterations": len(peer.loss_history_)}
        ours = found["dawid-skene at crowd-kit's tolerance, CPU s"]
        found["crowd-kit / dawid-skene at its tolerance, CPU s"] = cpu / ours
    return found


def _labels(rows: int, annotators: int = 1000) -> dict[str, Any]:
    """Columns of binary labels; annotators differ in how well they know either grade."""
    import pyarrow as pa

    rng = np.random.default_rng(1)
    items = rows // 3
    truth, right = rng.random(items) < 0.4, rng.beta(8, 2, (2, annotators))
    item, annotator = np.repeat(np.arange(items), 3), rng.integers(annotators, size=3 * items)
    true = truth[item]
    label = np.where(rng.random(3 * items) < right[true.astype(int), annotator], true, ~true)
    ids = {"items": pa.array(np.arange(items)), "annotators": pa.array(np.arange(annotators))}
    rated = {"item": item, "annotator": annotator, "rating": label.astype(float)}
    return {"queries": pa.array(["all"]), **ids, "query": np.zeros(3 * items, np.uint32), **rated}
