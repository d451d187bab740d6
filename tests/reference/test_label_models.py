"""dawid-skene, glad, majority and average against literal versions, peers and simulated truth."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from literal_labels import (
    Labelled,
    dawid_skene_em,
    dawid_skene_likelihood,
    dawid_skene_posterior,
    glad_objective,
    order_quality,
    simulated,
)
from scipy.optimize import minimize

from distrank import Average, DawidSkene, Glad, Majority
from distrank.api import Aggregator, Result
from distrank.errors import InputError, UsageError

FINE = {"tolerance": 1e-15, "max_iterations": 5000}


def fitted(kind: type[Aggregator], data: Labelled, **settings: Any) -> Result:
    return kind(**settings).fit(data.frame(), gold=data.gold() if data.known else None)


def soft_labels(result: Result) -> np.ndarray:
    frame = result.rankings.sort_values("item")
    return frame[[name for name in frame if name.startswith("p_")]].to_numpy()


def matrices(result: Result, grades: int) -> np.ndarray:
    return np.stack(result.annotators["confusion"].to_list()).reshape(-1, grades, grades)


@pytest.mark.parametrize("honeypots", [0, 6])
@pytest.mark.parametrize("grades", [2, 3])
def test_dawid_skene_ends_where_literal_em_ends(grades: int, honeypots: int) -> None:
    data, _, _ = simulated(1, grades=grades, honeypots=honeypots)
    result = fitted(DawidSkene, data, quality_prior="2,1.5", **FINE)
    prior, confusion, posterior = dawid_skene_em(data, 1.0, 0.5, 1.0)
    np.testing.assert_allclose(result.diagnosis["grade_shares"], prior, atol=1e-6)
    np.testing.assert_allclose(matrices(result, grades), confusion, atol=1e-6)
    np.testing.assert_allclose(soft_labels(result), posterior, atol=1e-6)
    literal = dawid_skene_likelihood(data, prior, confusion)
    assert result.diagnosis["log_likelihood"] == pytest.approx(literal, abs=1e-9 * abs(literal))


@pytest.mark.parametrize("grades", [2, 4])
def test_the_posterior_of_dawid_skene_is_bayes_rule(grades: int) -> None:
    data, _, _ = simulated(2, grades=grades, honeypots=3)
    result = fitted(DawidSkene, data)
    prior = np.array(result.diagnosis["grade_shares"])
    expected = dawid_skene_posterior(data, prior, matrices(result, grades))
    np.testing.assert_allclose(soft_labels(result), expected, atol=1e-12)
    score = expected @ np.arange(grades)
    np.testing.assert_allclose(result.rankings.sort_values("item")["score"], score, atol=1e-12)


@pytest.mark.parametrize("grades", [2, 3])
def test_without_a_prior_the_true_log_likelihood_rises_at_every_step(grades: int) -> None:
    data, _, _ = simulated(3, grades=grades, items=80)
    trace = fitted(DawidSkene, data, quality_prior=None, **FINE).trace
    assert len(trace) > 3
    for before, after in pairwise(trace):
        assert after["log_likelihood"] >= before["log_likelihood"]
        assert after["log_likelihood"] == after["objective"]


def test_two_labels_do_not_make_an_extreme_matrix() -> None:
    data, truth, _ = simulated(4, grades=2, items=60)
    few = [(0, 6, truth[0]), (1, 6, truth[1])]
    data = Labelled(data.labels + few, data.items, 7, 2, {})
    matrix = matrices(fitted(DawidSkene, data), 2)[6]
    assert matrix.min() > 0.1
    extreme = matrices(fitted(DawidSkene, data, quality_prior=None, **FINE), 2)[6]
    assert extreme.min() < 0.05


@pytest.mark.filterwarnings("ignore::Warning")
def test_dawid_skene_is_no_worse_than_crowd_kit() -> None:
    """Theirs maximises the same likelihood, but may stop early: ours is at least as high."""
    aggregation = pytest.importorskip("crowdkit.aggregation")
    data, _, _ = simulated(5, items=300, annotators=20, grades=3)
    frame = data.frame().rename(columns={"item": "task", "annotator": "worker", "rating": "label"})
    peer = aggregation.DawidSkene(n_iter=1000, tol=1e-12).fit(frame[["task", "worker", "label"]])
    errors = peer.errors_.reset_index()
    confusion = np.zeros((20, 3, 3))
    for row in errors.to_dict("records"):
        for c in range(3):
            confusion[int(row["worker"][1:]), c, int(row["label"])] = row[float(c)]
    prior = peer.priors_.reindex([0.0, 1.0, 2.0]).to_numpy()
    theirs = dawid_skene_likelihood(data, prior, np.maximum(confusion, 1e-300))
    ours = fitted(DawidSkene, data, quality_prior=None, **FINE).diagnosis["log_likelihood"]
    assert ours >= theirs - 1e-6
    assert ours == pytest.approx(theirs, abs=5.0)


def glad_point(result: Result, data: Labelled) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    easiness = -np.log(result.rankings.sort_values("item")["difficulty"].to_numpy())
    return np.array(result.diagnosis["grade_shares"]), result.annotators["ability"].to_numpy(), easiness


@pytest.mark.parametrize("honeypots", [0, 5])
@pytest.mark.parametrize("grades", [2, 3])
def test_glad_is_at_a_maximum_of_the_literal_objective(grades: int, honeypots: int) -> None:
    """No outside optimiser that starts there finds anything higher, and the objective is the literal one."""
    data, _, _ = simulated(6, grades=grades, items=25, annotators=5, honeypots=honeypots)
    result = fitted(Glad, data, **FINE)
    prior, ability, easiness = glad_point(result, data)
    value = glad_objective(data, prior, ability, easiness)
    assert result.trace[-1]["objective"] == pytest.approx(value, abs=1e-6)

    def loss(x: np.ndarray) -> float:
        logits = np.append(x[: grades - 1], 0.0)
        shares = np.exp(logits) / np.exp(logits).sum()
        rest = x[grades - 1 :]
        return -glad_objective(data, shares, rest[: data.annotators], rest[data.annotators :])

    start = np.concatenate([np.log(prior[:-1] / prior[-1]), ability, easiness])
    best = minimize(loss, start, method="BFGS", options={"gtol": 1e-5, "maxiter": 300})
    assert -best.fun <= value + 1e-6
    slopes = [(loss(start + h) - loss(start - h)) / 2e-5 for h in 1e-5 * np.eye(len(start))]
    assert np.abs(slopes).max() < 1e-3


def test_glad_gives_the_posterior_of_its_own_parameters() -> None:
    data, _, _ = simulated(7, grades=3)
    result = fitted(Glad, data)
    prior, ability, easiness = glad_point(result, data)
    right = 1.0 / (1.0 + np.exp(-ability[None, :] * np.exp(easiness)[:, None]))
    expected = np.tile(prior, (data.items, 1))
    for item, w, k in data.labels:
        factor = np.full(3, (1.0 - right[item, w]) / 2.0)
        factor[k] = right[item, w]
        expected[item] *= factor
    np.testing.assert_allclose(soft_labels(result), expected / expected.sum(axis=1, keepdims=True), atol=1e-12)


def crowd(seed: int, items: int, annotators: int, per_item: int = 5) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Two grades, annotators of very different accuracy."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=items)
    quality = rng.uniform(0.5, 0.98, annotators)
    item = np.repeat(np.arange(items), per_item)
    annotator = np.concatenate([rng.choice(annotators, per_item, replace=False) for _ in range(items)])
    label = np.where(rng.random(len(item)) < quality[annotator], truth[item], 1 - truth[item])
    return pd.DataFrame({"item": item, "annotator": annotator, "rating": label}), truth, quality


def accuracy(result: Result, truth: np.ndarray) -> float:
    return float((result.rankings.sort_values("item")["label"].to_numpy() == truth).mean())


def test_models_of_annotators_beat_the_majority() -> None:
    frame, truth, quality = crowd(8, items=3000, annotators=60)
    simple = accuracy(Majority().fit(frame), truth)
    for kind in (DawidSkene, Glad):
        result = kind().fit(frame)
        assert accuracy(result, truth) > simple + 0.01
        assert np.corrcoef(result.annotators["quality"], quality)[0, 1] > 0.95
        assert result.converged


def test_glad_finds_what_is_difficult() -> None:
    rng = np.random.default_rng(9)
    items, annotators = 600, 40
    easiness, ability = rng.normal(size=items), rng.normal(1.5, 0.5, annotators)
    truth, item = rng.integers(2, size=items), np.repeat(np.arange(items), 15)
    annotator = np.concatenate([rng.choice(annotators, 15, replace=False) for _ in range(items)])
    right = rng.random(len(item)) < 1.0 / (1.0 + np.exp(-ability[annotator] * np.exp(easiness[item])))
    rating = np.where(right, truth[item], 1 - truth[item])
    frame = pd.DataFrame({"item": item, "annotator": annotator, "rating": rating})
    result = Glad().fit(frame)
    found = -np.log(result.rankings.sort_values("item")["difficulty"])
    assert np.corrcoef(found, easiness)[0, 1] > 0.7
    assert np.corrcoef(result.annotators["ability"], ability)[0, 1] > 0.8


@pytest.mark.parametrize("kind", [DawidSkene, Glad])
def test_a_malicious_majority_is_warned_of_and_honeypots_undo_it(kind: type[Aggregator]) -> None:
    frame, truth, quality = crowd(10, items=800, annotators=20)
    liars = frame["annotator"] < 14
    frame.loc[liars, "rating"] = 1 - frame.loc[liars, "rating"]
    honeypots = pd.DataFrame({"item": np.arange(60), "relevance": truth[:60].astype(float)})
    lost = kind().fit(frame)
    assert accuracy(lost, truth) < 0.2
    assert any("Honeypots" in warning for warning in lost.warnings)
    found = kind(start="gold").fit(frame, gold=honeypots)
    assert accuracy(found, truth) > 0.8
    assert not any("Honeypots" in warning for warning in found.warnings)
    malicious = found.annotators.set_index("annotator")["quality"].loc[:13]
    assert (malicious[quality[:14] > 0.6] < 0.5).all()


def test_honeypots_are_reported() -> None:
    data, truth, _ = simulated(11, grades=2, honeypots=10)
    result = fitted(DawidSkene, data)
    asked, right = np.zeros(data.annotators), np.zeros(data.annotators)
    for item, w, k in data.labels:
        if item in data.known:
            asked[w] += 1
            right[w] += k == truth[item]
    np.testing.assert_array_equal(result.annotators["honeypots"], asked)
    np.testing.assert_array_equal(result.annotators["honeypots_right"], right)
    assert result.diagnosis["honeypot_accuracy"] == right.sum() / asked.sum()
    sure = result.rankings.set_index("item")["score"]
    assert all(sure[f"i{item:04d}"] == grade for item, grade in data.known.items())


def test_gold_that_is_no_grade_is_no_honeypot() -> None:
    data, _, _ = simulated(12, grades=2)
    gold = pd.DataFrame({"query": "q", "item": ["i0000", "i0001"], "relevance": [1.0, 4.0]})
    result = DawidSkene().fit(data.frame(), gold=gold)
    assert any("1 gold items have a relevance that is no rating (0, 1)" in warning for warning in result.warnings)
    assert result.annotators["honeypots"].sum() == 4
    with pytest.raises(UsageError, match="honeypots"):
        DawidSkene(start="gold").fit(data.frame())


def test_majority_shares_ties_and_average_is_the_mean() -> None:
    rows = [("x", "a", 0), ("x", "b", 2), ("x", "c", 2), ("y", "a", 0), ("y", "b", 2), ("z", "c", 1)]
    frame = pd.DataFrame(rows, columns=["item", "annotator", "rating"])
    majority = Majority().fit(frame).rankings.set_index("item")
    assert majority["score"].to_dict() == {"x": 2.0, "z": 1.0, "y": 1.0}
    assert majority.loc["y", ["p_0", "p_1", "p_2"]].tolist() == [0.5, 0.0, 0.5]
    assert majority["rank"].to_dict() == {"x": 1, "y": 2, "z": 3}
    average = Average().fit(frame).rankings.set_index("item")
    assert average["score"].to_dict() == pytest.approx({"x": 4 / 3, "y": 1.0, "z": 1.0})
    assert average.loc["x", ["p_0", "p_1", "p_2"]].tolist() == pytest.approx([1 / 3, 0.0, 2 / 3])


def test_annotators_are_compared_with_the_others_alone() -> None:
    """Somebody who guesses has quality one half, although every third vote of the majority is their own."""
    frame, _, _ = crowd(13, items=4000, annotators=30, per_item=3)
    rng = np.random.default_rng(0)
    guess = frame["annotator"] == 0
    frame.loc[guess, "rating"] = rng.integers(2, size=int(guess.sum()))
    for kind in (Majority, Average):
        assert kind().fit(frame).annotators["quality"][0] == pytest.approx(0.5, abs=0.06)


def test_quality_is_the_chance_of_the_right_order() -> None:
    data, _, _ = simulated(14, grades=4)
    result = fitted(DawidSkene, data)
    prior = np.array(result.diagnosis["grade_shares"])
    for matrix, quality in zip(matrices(result, 4), result.annotators["quality"], strict=True):
        assert quality == pytest.approx(order_quality(matrix, prior), abs=1e-12)


def test_many_values_are_cut_into_five_grades() -> None:
    rng = np.random.default_rng(15)
    truth = rng.normal(size=200)
    item = np.repeat(np.arange(200), 4)
    rating = truth[item] + 0.3 * rng.normal(size=800)
    frame = pd.DataFrame({"item": item, "annotator": np.tile(np.arange(4), 200), "rating": rating})
    result = DawidSkene().fit(frame)
    assert any("cut at their quantiles into 5 grades" in warning for warning in result.warnings)
    soft = [name for name in result.rankings if name.startswith("p_")]
    assert soft == [f"p_grade{number}" for number in range(1, 6)]
    scores = result.rankings.sort_values("item")["score"]
    assert np.corrcoef(scores, truth)[0, 1] > 0.9
    assert rating.min() < scores.min() < scores.max() < rating.max()
    means = frame.groupby("item")["rating"].mean()
    averages = Average().fit(frame).rankings.sort_values("item")["score"]
    np.testing.assert_allclose(averages, means, atol=1e-12)
    shuffled = DawidSkene().fit(frame.sample(frac=1.0, random_state=1))
    pd.testing.assert_frame_equal(shuffled.rankings, result.rankings)


def test_fifteen_values_are_grades_and_sixteen_are_cut() -> None:
    def columns(values: int) -> int:
        frame = pd.DataFrame({"item": range(values), "annotator": "a", "rating": np.arange(values) / 2.0})
        return sum(name.startswith("p_") for name in Majority().fit(frame).rankings)

    assert columns(15) == 15
    assert columns(16) == 5


def test_ranks_and_queries_are_made_over_all_shards() -> None:
    data, _, _ = simulated(16, items=50)
    frame = data.frame()
    frame["query"] = "q" + (frame["item"].str[1:].astype(int) % 3).astype(str)
    result = DawidSkene().fit(frame)
    counts = frame.groupby("query").agg(
        items=("item", "nunique"), annotators=("annotator", "nunique"), judgments=("item", "size")
    )
    shown = result.queries.set_index("query")
    pd.testing.assert_frame_equal(shown[["items", "annotators", "judgments"]], counts, check_dtype=False)
    for _, ranking in result.rankings.groupby("query"):
        assert ranking["rank"].tolist() == list(range(1, len(ranking) + 1))
        assert ranking["score"].is_monotonic_decreasing


def test_preferences_are_refused() -> None:
    frame = pd.DataFrame({"annotator": ["a"], "winner": ["x"], "loser": ["y"]})
    with pytest.raises((UsageError, InputError), match="ratings"):
        DawidSkene().fit(frame)
