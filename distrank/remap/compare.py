"""The paper's Table 4 on one's own data: baselines and the framework, by cross-validation over the target's queries.

Every fold's queries are the test part once; of the others, a share is for validation (ridge, trees, steps) and the
rest is what the framework is tuned on. All methods see the same parts, features and trees. Differences are paired by
query.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from distrank.engine.base import Engine, Report
from distrank.records import Array, Record
from distrank.remap.baselines import (
    LABELS,
    RIDGES,
    LinearFit,
    consensus_labels,
    fit_lambdamart,
    fit_regression,
    label_counts,
)
from distrank.remap.consensus import Consensus
from distrank.remap.data import Samples, fractions
from distrank.remap.extension import Blocks
from distrank.remap.label_features import LabelFeatures
from distrank.remap.model import TRAIN, VALIDATION, Method, RemapSettings
from distrank.remap.train import query_dcg, train
from distrank.tables.feature_shards import FeatureShards
from distrank.trees import TreeShape, predict

DELTA = 0.3
METHODS: tuple[Method, ...] = ("reweight", "remap", "both")
TEST = 2


@dataclass(frozen=True)
class Compared:
    """DCG of every test query under every method."""

    cut: int
    found: dict[str, Array]

    def table(self, base: str = "linear, majority") -> list[dict[str, Any]]:
        """Mean, gain over a base in percent, and the chance of such a difference if there were none."""
        reference = self.found[base]
        return [
            {
                "method": name,
                "dcg": float(values.mean()),
                "gain_percent": 100.0 * float(values.mean() / reference.mean() - 1.0),
                "p": paired_p(values, reference),
            }
            for name, values in self.found.items()
        ]


def paired_p(one: Array, other: Array) -> float:
    """Two-sided, by the normal law of the mean of the differences query by query."""
    difference = one - other
    error = float(difference.std(ddof=1)) / math.sqrt(len(difference)) if len(difference) > 1 else 0.0
    return math.erfc(abs(float(difference.mean())) / error / math.sqrt(2.0)) if error > 0.0 else 1.0


def compare(
    samples: Samples,
    y: LabelFeatures,
    consensus: Consensus,
    target: FeatureShards,
    settings: RemapSettings,
    engine: Engine,
    report: Report,
    *,
    extended: dict[str, Blocks],
    folds: int = 5,
    trees: int = 300,
    shape: TreeShape | None = None,
    boosted: bool = True,
) -> Compared:
    """`extended` gives the features that linear rankers are compared on, by name: without trees, and with some."""
    shape = shape or TreeShape()
    labels, weight = consensus_labels(samples, consensus), label_counts(samples)
    rankers: dict[str, Callable[[Array], Array]] = {}
    if boosted:
        for name in LABELS:
            text = fit_regression(samples, labels[name], weight, trees, shape)
            rankers[f"lightgbm, {name}"] = partial(predict, text)
        for name in ("majority", "dawid-skene", "glad"):
            rankers[f"lambdamart, {name}"] = partial(predict, fit_lambdamart(samples, labels[name], trees, shape))
    whole = {name: query_dcg(target.shards, score, settings.measure_at) for name, score in rankers.items()}
    hashes = np.concatenate([shard["unit.hash"] for shard in target.shards])
    fits = {kind: LinearFit.of(blocks, samples.values, weight) for kind, blocks in extended.items()}
    described = {kind: _described(target, blocks) for kind, blocks in extended.items()}
    found: dict[str, list[Array]] = {}
    for fold in range(folds):
        part = partial(fold_parts, fold=fold, folds=folds)
        test = part(hashes) == TEST
        for name, values in whole.items():
            found.setdefault(name, []).append(values[test])
        for kind, blocks in extended.items():
            done, ridge = _linear(fits[kind], labels, described[kind], settings, part)
            for name, values in done.items():
                found.setdefault(f"{kind}, {name}", []).append(values)
            own = dataclasses.replace(settings, ridge=ridge)
            for method in METHODS:
                trained = train(samples, y, target, method, own, engine, report, blocks=blocks, part=part)
                scored = query_dcg(target.shards, trained.score, settings.measure_at)
                found.setdefault(f"{kind}, {method}", []).append(scored[test])
            report({"stage": "compare", "fold": fold + 1, "folds": folds, "features": kind})
    return Compared(settings.measure_at, {name: np.concatenate(values) for name, values in found.items()})


def fold_parts(hashes: Array, fold: int, folds: int) -> Array:
    """Test, validation or training, for every query."""
    share = fractions(hashes) * folds
    place = np.floor(share).astype(np.int64)
    return np.where(place == fold, TEST, np.where(share - place < 0.3, VALIDATION, TRAIN))


def _linear(
    fitted: LinearFit,
    labels: dict[str, Array],
    shards: list[Record],
    settings: RemapSettings,
    part: Callable[[Array], Array],
) -> tuple[dict[str, Array], float]:
    """Test DCG of the linear baselines, each with the ridge that validation chose, and the ridge of soft labels."""
    parts = np.concatenate([part(shard["unit.hash"]) for shard in shards])
    done, ridges = {}, {}
    for name in (*LABELS, "deviation"):
        tries = {}
        for ridge in RIDGES:
            if name == "deviation":
                ranker = fitted.by_deviation(labels["average"], ridge, DELTA)
            else:
                ranker = fitted(labels[name], ridge)
            tries[ridge] = _dcg(shards, ranker, settings.measure_at)
        ridges[name] = max(tries, key=lambda ridge: float(tries[ridge][parts == VALIDATION].mean()))
        done[name] = tries[ridges[name]][parts == TEST]
    return done, ridges["dawid-skene soft"]


def _described(target: FeatureShards, blocks: Blocks) -> list[Record]:
    """The target with the features of all blocks side by side."""
    return [
        {**shard, "node.features": np.hstack([block(shard["node.features"]) for block in blocks.blocks])}
        for shard in target.shards
    ]


def _dcg(shards: list[Record], ranker: Array, cut: int) -> Array:
    return query_dcg(shards, lambda x: x @ ranker, cut)
