"""Baselines by their definitions, and a comparison in which every method sees the same queries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from test_remap_training import QUIET, features_of, loaded, simulated_crowd

from distrank.engine.local import LocalEngine
from distrank.remap.baselines import LinearFit, consensus_labels, fit_lambdamart, label_counts
from distrank.remap.compare import TEST, Compared, compare, fold_parts, paired_p
from distrank.remap.consensus import fit_consensus
from distrank.remap.data import by_hash
from distrank.remap.extension import extend
from distrank.remap.model import TRAIN, VALIDATION, RemapSettings
from distrank.remap.train import query_dcg, train
from distrank.trees import TreeShape, predict

SHAPE = TreeShape(leaves=6, least_rows=10)


@pytest.fixture(scope="module")
def crowd() -> Any:
    judgments, samples, target = loaded(simulated_crowd(honeypots=10))
    with LocalEngine(2) as engine:
        consensus = fit_consensus(judgments, None, engine, QUIET)
    return samples, target, consensus, features_of(samples, consensus)


def test_labels_are_those_of_the_samples(crowd: Any) -> None:
    samples, _, consensus, _ = crowd
    labels = consensus_labels(samples, consensus)
    for item in range(0, len(samples.query), 37):
        votes = samples.rating[samples.item == item]
        assert labels["average"][item] == votes.mean()
        assert labels["majority"][item] == np.round(votes.mean())
    assert ((labels["dawid-skene soft"] > 0.5) == labels["dawid-skene"]).all()
    assert label_counts(samples).sum() == len(samples)


def test_the_linear_baseline_is_the_framework_before_its_first_step(crowd: Any) -> None:
    """Weights one half and the labels as values: the same ridge, the same scores."""
    samples, target, consensus, y = crowd
    blocks = extend(samples.values, samples.query_hash, np.empty(0), np.empty(0), how="none")
    label = consensus_labels(samples, consensus)["dawid-skene soft"]
    ranker = LinearFit.of(blocks, samples.values, label_counts(samples))(label, 1e-2)
    with LocalEngine(2) as engine:
        settings = RemapSettings(ridge=1e-2, steps=1)
        begun = train(samples, y, target, "both", settings, engine, QUIET, label=label[samples.item]).fit
    first = begun.trace[0]
    shards = [{**shard, "node.features": blocks.blocks[0](shard["node.features"])} for shard in target.shards]
    every = query_dcg(shards, lambda values: values @ ranker, 10)
    hashes = np.concatenate([shard["unit.hash"] for shard in target.shards])
    held_out = by_hash(0.3)(hashes) == VALIDATION
    assert first["validation"] == pytest.approx(every[held_out].mean(), rel=1e-9)
    assert first["objective"] == pytest.approx(every[~held_out].mean(), rel=1e-9)


def test_deviation_counts_what_is_missed_less(crowd: Any) -> None:
    samples, _, consensus, _ = crowd
    blocks = extend(samples.values, samples.query_hash, np.empty(0), np.empty(0), how="none")
    x, label = blocks.blocks[0](samples.values), consensus_labels(samples, consensus)["average"]
    fitted = LinearFit.of(blocks, samples.values, label_counts(samples))
    plain, weighted = fitted(label, 1e-2), fitted.by_deviation(label, 1e-2, 0.3)

    def robust(ranker: np.ndarray) -> float:
        return float(np.minimum(np.abs(label - x @ ranker), 0.3).mean())

    assert robust(weighted) < robust(plain)


def test_lambdamart_takes_queries_in_order(crowd: Any) -> None:
    samples, _, consensus, _ = crowd
    label = consensus_labels(samples, consensus)["dawid-skene"]
    scores = predict(fit_lambdamart(samples, label, 20, SHAPE), samples.values)
    assert scores[label == 1].mean() > scores[label == 0].mean()


def test_folds_share_no_query() -> None:
    hashes = np.random.default_rng(1).integers(2**63, size=3000).astype(np.uint64)
    parts = np.stack([fold_parts(hashes, fold, 5) for fold in range(5)])
    assert ((parts == TEST).sum(axis=0) == 1).all()
    for part, share in ((TEST, 0.2), (VALIDATION, 0.24), (TRAIN, 0.56)):
        assert (parts == part).mean() == pytest.approx(share, abs=0.03)


def test_a_comparison_is_paired_by_query(crowd: Any) -> None:
    samples, target, consensus, y = crowd
    labels, weight = consensus_labels(samples, consensus), label_counts(samples)
    extended = {
        "linear": extend(samples.values, samples.query_hash, weight, weight, how="none"),
        "trees": extend(samples.values, samples.query_hash, labels["dawid-skene soft"], weight, trees=5, shape=SHAPE),
    }
    with LocalEngine(2) as engine:
        settings = RemapSettings(steps=2)
        found = compare(
            samples, y, consensus, target, settings, engine, QUIET, extended=extended, folds=2, trees=5, shape=SHAPE
        )
    assert {len(values) for values in found.found.values()} == {target.queries}
    rows = {row["method"]: row for row in found.table()}
    assert {"linear, both", "trees, both", "lambdamart, dawid-skene", "lightgbm, average"} <= set(rows)
    assert rows["linear, majority"]["gain_percent"] == 0.0
    assert rows["linear, majority"]["p"] == 1.0


def test_p_is_that_of_paired_differences() -> None:
    rng = np.random.default_rng(2)
    one = rng.normal(size=500)
    other = one + rng.normal(0.05, 0.5, 500)
    z = (one - other).mean() / ((one - other).std(ddof=1) / np.sqrt(500))
    assert paired_p(one, other) == pytest.approx(2 * norm.sf(abs(z)))
    row = Compared(10, {"linear, majority": other, "x": one}).table()[1]
    assert row["gain_percent"] == pytest.approx(100 * (one.mean() / other.mean() - 1))
