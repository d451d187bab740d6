"""Tuning the weights and relevance values of labels, and the ranker that comes of them, where an engine runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from distrank.engine.base import Engine, MemorySource, Report
from distrank.fit import Fit, fit
from distrank.kernels.lambdarank import dcg
from distrank.records import Array, Record
from distrank.remap.data import Part, Samples, by_hash, info_of, source_shards, target_shards
from distrank.remap.extension import Block, Blocks, extend
from distrank.remap.label_features import LabelFeatures
from distrank.remap.model import SOURCE, TARGET, Method, Remapping, RemapSettings
from distrank.remap.place import placeable
from distrank.tables.feature_shards import FeatureShards

VALIDATION_SHARE = 0.3


@dataclass(frozen=True)
class Trained:
    """The processing step (alpha, beta), and the linear rankers b of the blocks, one after the other."""

    method: str
    alpha: Array
    beta: Array
    ranker: Array
    blocks: tuple[Block, ...]
    validation: float  # DCG on the validation queries, at the step that was kept
    step: int
    fit: Fit

    def score(self, values: Array) -> Array:
        """Scores of items by their features: the mean of the rankers."""
        return average_score(self.blocks, self.ranker, values)


def train(
    samples: Samples,
    y: LabelFeatures,
    target: FeatureShards,
    method: Method,
    settings: RemapSettings,
    engine: Engine,
    report: Report,
    *,
    blocks: Blocks | None = None,
    part: Part | None = None,
    label: Array | None = None,
    start: Array | None = None,
    work: Path | None = None,
) -> Trained:
    """Algorithm 1 on source and target. `blocks` are features with trees, `part` chooses the validation queries;
    `label` fixes the relevance values of the samples, `start` is beta's; `work` is where shards go if the engine
    cannot see this process's memory."""
    blocks = blocks or extend(samples.values, samples.query_hash, np.empty(0), np.empty(0), how="none")
    source = source_shards(samples, blocks, y, label)
    graded = target_shards(target, blocks, part or by_hash(VALIDATION_SHARE))
    model = Remapping(settings, y.start() if start is None else start, method)
    held = placeable(MemorySource({SOURCE: source, TARGET: graded}), engine, work)
    main = partial(fit, model=model, info=info_of(samples, source, graded))
    result = engine.execute(main, held, model, report)
    theta = result.theta
    return Trained(
        method=method,
        alpha=theta["best.alpha"],
        beta=theta["best.beta"],
        ranker=theta["best.ranker"],
        blocks=blocks.blocks,
        validation=float(theta["best.validation"]),
        step=int(theta["best.step"]),
        fit=result,
    )


def average_score(blocks: Sequence[Block], ranker: Array, values: Array) -> Array:
    """The mean of the linear rankers, each on the features of its block."""
    scores = [block(values) @ b for block, b in zip(blocks, ranker.reshape(len(blocks), -1), strict=True)]
    return np.asarray(np.mean(scores, axis=0))


def query_dcg(shards: list[Record], score: Callable[[Array], Array], cut: int) -> Array:
    """DCG of every query of a graded set, its items ranked by a function of their features."""
    found = []
    for shard in shards:
        values = np.empty(len(shard["unit.nodes"]) - 1)
        gain = np.exp2(shard["node.gold"]) - 1.0
        dcg(shard["unit.nodes"], gain, score(shard["node.features"]), cut, values)
        found.append(values)
    return np.concatenate(found)
