"""The whole way from noisy labels to a ranker: consensus, label features, trees, tuning; or all of it but the tuning.

What is chosen on the validation queries of the target: the ridge and the number of trees, both with soft labels before
any step, and then the step size and the number of steps.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from distrank.engine.base import Engine, Report
from distrank.kernels.remapping import values_of
from distrank.records import Array
from distrank.remap.baselines import RIDGES, LinearFit, consensus_labels, label_counts
from distrank.remap.consensus import Consensus, fit_consensus
from distrank.remap.data import Samples, by_hash, own_columns, samples_of
from distrank.remap.extension import Block, Blocks, extend
from distrank.remap.label_features import LabelFeatures, label_features
from distrank.remap.model import VALIDATION, Method, RemapSettings
from distrank.remap.train import query_dcg, train
from distrank.settings import setting
from distrank.tables.feature_shards import FeatureShards
from distrank.tables.features import Features, LabelColumns
from distrank.tables.gold import Gold
from distrank.tables.judgments import Judgments

Stage: TypeAlias = Callable[[str], AbstractContextManager[Any]]  # what is begun, for progress and seconds
STEP_SIZES = (0.1, 0.3, 1.0)


def unnamed(name: str) -> AbstractContextManager[Any]:  # noqa: ARG001 (nobody looks)
    """A stage of which nobody keeps account."""
    return nullcontext()


@dataclass(frozen=True)
class PipelineSettings:
    """Settings of `distrank remap`."""

    measure_at: int = setting(10, "k of the DCG@k that is optimised", low=1)
    scale_free: bool = setting(True, "leave out what only spreads the scores, which DCG does not see")
    steps: int = setting(50, "steps of gradient ascent at most", low=1)
    step_size: float | None = setting(None, "length of the first step; none: 0.1, 0.3 or 1, by validation", above=0.0)
    patience: int = setting(10, "stop after this many steps without a gain on the validation queries", low=1)
    ridge: float | None = setting(None, "L2 regularization per unit of weight; none: by validation", above=0.0)
    trees: int = setting(300, "trees at most, each one more feature; how many is chosen by validation", low=0)
    folds: int = setting(2, "rankers whose trees were grown on the queries of the others, averaged", low=2)
    extension: str = setting(
        "cross",
        "trees from the other folds, from the other half of the queries, or none",
        choices=("cross", "disjoint", "none"),
    )
    soft: bool = setting(True, "start from dawid-skene's soft labels, and give their log-odds as label features")
    validation: float = setting(0.3, "share of the target's queries for validation", above=0.0, high=0.9)


@dataclass(frozen=True)
class Processing:
    """The processing step and what it needs, all that is used on new data: tuned once, used nightly."""

    method: Method
    alpha: Array
    beta: Array
    label_names: tuple[str, ...]
    label_scale: Array
    ridge: float
    trees: int
    soft: bool


@dataclass(frozen=True)
class Ranker:
    """Linear rankers on features and trees, averaged, and how they came about."""

    processing: Processing
    blocks: tuple[Block, ...]
    weights: Array
    samples: Samples
    consensus: Consensus
    y: LabelFeatures
    facts: dict[str, Any] = field(default_factory=dict)
    trace: list[dict[str, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Crowd:
    """What is read: judgments with features, honeypots and numbers of the user's own where there are some."""

    judgments: Judgments
    features: Features
    honeypots: Gold | None = None
    own: LabelColumns | None = None


def tune(
    crowd: Crowd,
    target: FeatureShards,
    method: Method,
    settings: PipelineSettings,
    engine: Engine,
    report: Report,
    work: Path | None = None,
    stage: Stage = unnamed,
) -> Ranker:
    """Tune the processing of labels on the target, and train the ranker that comes of it."""
    with stage("label features"):
        samples, consensus, y = prepare(crowd, engine, report, soft=settings.soft, work=work)
    label, weight = consensus_labels(samples, consensus)["dawid-skene soft"], label_counts(samples)
    how: Any = settings.extension
    with stage("trees"):
        grown = extend(
            samples.values, samples.query_hash, label, weight, how=how, folds=settings.folds, trees=settings.trees
        )
    part = by_hash(settings.validation)
    with stage("choose"):
        blocks, ridge, by_trees = _chosen(samples, label, weight, grown, target, part, settings)
    tries = []
    with stage("tune"):
        for size in STEP_SIZES if settings.step_size is None else (settings.step_size,):
            own = RemapSettings(
                ridge, settings.measure_at, settings.scale_free, settings.steps, size, settings.patience
            )
            folder = None if work is None else work / f"step-{size:g}"
            tries.append(
                (size, train(samples, y, target, method, own, engine, report, blocks=blocks, part=part, work=folder))
            )
    size, best = max(tries, key=lambda entry: entry[1].validation)
    count = blocks.blocks[0].count
    processing = Processing(method, best.alpha, best.beta, y.names, y.scale, ridge, count, settings.soft)
    facts = {
        "ridge": ridge,
        "trees": count,
        "step_size": size,
        "step": best.step,
        "validation_dcg": best.validation,
        "validation_dcg_at_start": best.fit.trace[0]["validation"],
        "validation_dcg_by_trees": by_trees,
    }
    return Ranker(processing, best.blocks, best.ranker, samples, consensus, y, facts, best.fit.trace)


def apply(
    crowd: Crowd,
    processing: Processing,
    settings: PipelineSettings,
    engine: Engine,
    report: Report,
    work: Path | None = None,
    stage: Stage = unnamed,
) -> Ranker:
    """Train a ranker on new judgments with a processing step that was tuned before: no graded truth is needed."""
    with stage("label features"):
        samples, consensus, y = prepare(
            crowd, engine, report, soft=processing.soft, scale=processing.label_scale, work=work
        )
    soft = consensus_labels(samples, consensus)["dawid-skene soft"]
    how: Any = settings.extension if processing.trees else "none"
    with stage("trees"):
        blocks = extend(
            samples.values, samples.query_hash, soft, label_counts(samples), how=how, folds=settings.folds,
            trees=processing.trees,
        )  # fmt: skip
    weight, value = values_of(y.values, processing.alpha, processing.beta)
    total = np.bincount(samples.item, weight, minlength=len(samples.query))
    label = np.bincount(samples.item, weight * value, minlength=len(samples.query)) / np.maximum(total, 1e-300)
    used = blocks.block >= 0  # LinearFit counts labels of weight one half; mu is per label, as in the tuning
    ridge = processing.ridge * label_counts(samples)[used].sum() / max(2.0 * float(total[used].sum()), 1e-300)
    weights = LinearFit.of(blocks, samples.values, 2.0 * total)(label, float(ridge))
    return Ranker(processing, blocks.blocks, weights, samples, consensus, y, {"trees": processing.trees})


def prepare(
    crowd: Crowd, engine: Engine, report: Report, *, soft: bool, scale: Array | None = None, work: Path | None = None
) -> tuple[Samples, Consensus, LabelFeatures]:
    """Samples, consensus and label features."""
    samples = samples_of(crowd.judgments, crowd.features, crowd.honeypots)
    folder = None if work is None else work / "consensus"
    consensus = fit_consensus(crowd.judgments, crowd.honeypots, engine, report, folder)
    more = None
    if crowd.own is not None:
        more = (crowd.own.names, own_columns(samples, crowd.judgments, crowd.own))
    label = (samples.rating == consensus.grades[1]).astype(np.int64)
    number = samples.number[samples.item]
    return (
        samples,
        consensus,
        label_features(consensus, samples.annotator, number, label, soft=soft, more=more, scale=scale),
    )


def _plain(samples: Samples) -> Blocks:
    """One ranker on the features alone: without trees there is nothing to keep apart."""
    return extend(samples.values, samples.query_hash, np.empty(0), np.empty(0), how="none")


def _chosen(
    samples: Samples,
    label: Array,
    weight: Array,
    grown: Blocks,
    target: FeatureShards,
    part: Any,
    settings: PipelineSettings,
) -> tuple[Blocks, float, dict[str, float]]:
    """The number of trees and the ridge with the best DCG on the validation queries, and that DCG by trees."""
    most = grown.blocks[0].count
    held_out = np.concatenate([part(shard["unit.hash"]) for shard in target.shards]) == VALIDATION
    found: dict[int, tuple[float, float, Blocks]] = {}
    for count in sorted({0, most // 3, 2 * most // 3, most}):
        blocks = grown.with_trees(count, samples.values) if count else _plain(samples)
        fitted = LinearFit.of(blocks, samples.values, weight)
        shards = [
            {**shard, "node.features": np.hstack([block(shard["node.features"]) for block in blocks.blocks])}
            for shard in target.shards
        ]
        for ridge in RIDGES if settings.ridge is None else (settings.ridge,):
            b = fitted(label, ridge)
            score = query_dcg(shards, lambda values, b=b: values @ b, settings.measure_at)[held_out].mean()  # type: ignore[misc]
            if count not in found or score > found[count][0]:
                found[count] = (float(score), ridge, blocks)
    best = max(found, key=lambda count: found[count][0])
    return found[best][2], found[best][1], {str(count): entry[0] for count, entry in found.items()}
