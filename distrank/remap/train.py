"""Tuning the weights and relevance values of labels, and the ranker that comes of them, where an engine runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from distrank.engine.base import Engine, MemorySource, Report
from distrank.fit import Fit, fit
from distrank.kernels.lambdarank import dcg
from distrank.records import Array, Record
from distrank.remap.data import Samples, Scaling, info_of, sets_of, source_shards, target_shards
from distrank.remap.label_features import LabelFeatures
from distrank.remap.model import Method, Remapping, RemapSettings
from distrank.remap.place import placeable
from distrank.tables.feature_shards import FeatureShards


@dataclass(frozen=True)
class Trained:
    """The processing step (alpha, beta) and the linear ranker b on standardised features, the constant last."""

    method: str
    alpha: Array
    beta: Array
    ranker: Array
    scaling: Scaling
    validation: float  # DCG on the validation queries, at the step that was kept
    step: int
    fit: Fit

    def score(self, values: Array) -> Array:
        """Scores of items by their features."""
        return self.scaling(values) @ self.ranker


def train(
    samples: Samples,
    y: LabelFeatures,
    target: FeatureShards,
    method: Method,
    settings: RemapSettings,
    engine: Engine,
    report: Report,
    *,
    label: Array | None = None,
    start: Array | None = None,
    work: Path | None = None,
) -> Trained:
    """Algorithm 1 on source and target; `label` fixes the relevance values of the samples, `start` is beta's.

    `work` is where shards go if the engine cannot see this process's memory.
    """
    scaling = Scaling.of(samples.values)
    source = source_shards(samples, scaling(samples.values), y, label)
    graded = target_shards(target, scaling)
    model = Remapping(settings, y.start() if start is None else start, method)
    info = info_of(samples, source, graded, ())
    held = placeable(MemorySource(sets_of(source, graded)), engine, work)
    result = engine.execute(partial(fit, model=model, info=info), held, model, report)
    theta = result.theta
    return Trained(
        method=method,
        alpha=theta["best.alpha"],
        beta=theta["best.beta"],
        ranker=theta["best.ranker"],
        scaling=scaling,
        validation=float(theta["best.validation"]),
        step=int(theta["best.step"]),
        fit=result,
    )


def query_dcg(shards: list[Record], trained: Trained, cut: int) -> Array:
    """DCG of every query of a graded set."""
    found = []
    for shard in shards:
        values = np.empty(len(shard["unit.nodes"]) - 1)
        gain = np.exp2(shard["node.gold"]) - 1.0
        dcg(shard["unit.nodes"], gain, trained.score(shard["node.features"]), cut, values)
        found.append(values)
    return np.concatenate(found)
