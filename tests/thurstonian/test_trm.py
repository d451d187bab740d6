"""The Thurstonian ranking model: its truncated draws, its M-step, what it finds, and partial rankings."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest, norm, truncnorm

from distrank import TRM, Borda
from distrank.errors import UsageError
from distrank.kernels import ordered
from distrank.kernels.random import round_key


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 2.0), (-math.inf, -3.0), (4.0, math.inf), (5.0, 5.5), (-8.0, -7.9), (-math.inf, math.inf)]
)
def test_draws_between_bounds_follow_the_truncated_law(low: float, high: float) -> None:
    draws = [ordered.between(u, low, high) for u in np.random.default_rng(1).uniform(size=3000)]
    assert min(draws) >= low
    assert max(draws) <= high
    assert kstest(draws, truncnorm(low, high).cdf).pvalue > 1e-3


@pytest.mark.parametrize(("low", "high"), [(35.0, math.inf), (50.0, 50.01), (-math.inf, -40.0)])
def test_draws_far_out_stay_between_their_bounds(low: float, high: float) -> None:
    draws = np.array([ordered.between(u, low, high) for u in np.random.default_rng(1).uniform(size=500)])
    assert np.isfinite(draws).all()
    assert (draws >= low).all()
    assert (draws <= high).all()
    assert np.ptp(draws) > 0.0


def test_a_sweep_samples_the_law_of_a_ranking() -> None:
    """Two items in order: p_1 - p_2 is N(s_1 - s_2, 2) given that it is positive."""
    unit, run, code = np.array([0, 1], np.int64), np.array([0, 2], np.int64), np.array([0], np.int64)
    node, level = np.array([0, 1], np.uint32), np.array([0, 1], np.int64)
    score, perceived = np.array([-0.3, 0.4]), np.array([0.5, -0.5])
    found = []
    for number in range(20_000):
        key = round_key(1, 0, 0, number, "sweep")
        ordered.sweep(np.array([9], np.uint64), key, unit, run, code, node, level, score, perceived)
        found.append(perceived[0] - perceived[1])
    law = truncnorm(0.7 / math.sqrt(2.0), np.inf, loc=-0.7, scale=math.sqrt(2.0))
    assert min(found) >= 0.0
    assert np.mean(found) == pytest.approx(law.mean(), rel=0.05)
    assert np.std(found) == pytest.approx(law.std(), rel=0.06)


def test_items_of_one_place_are_unordered_and_between_their_neighbours() -> None:
    rank = np.array([1.0, 2.0, 2.0, 3.0])
    run, level = np.array([0, 4], np.int64), np.zeros(4, np.int64)
    ordered.levels(run, rank, level)
    assert level.tolist() == [0, 1, 1, 3]
    perceived = np.array([3.0, 1.0, 1.0, -2.0])
    orders = set()
    for number in range(200):
        key = round_key(2, 0, 0, number, "sweep")
        given = np.array([0, 1], np.int64), run, np.array([0], np.int64), np.arange(4, dtype=np.uint32), level
        ordered.sweep(np.array([9], np.uint64), key, *given, np.zeros(4), perceived)
        assert perceived[0] >= max(perceived[1], perceived[2])
        assert min(perceived[1], perceived[2]) >= perceived[3]
        orders.add(bool(perceived[1] > perceived[2]))
    assert orders == {True, False}


def crowd(
    seed: int, *, noise: float, keep: int, queries: int = 20, items: int = 8, annotators: int = 10
) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    rows, truth = [], []
    for q in range(queries):
        score = rng.normal(size=items) * 1.5
        truth += [{"query": f"q{q}", "item": f"i{i}", "relevance": score[i]} for i in range(items)]
        for k in range(annotators):
            shown = rng.permutation(items)[:keep]
            order = shown[np.argsort(-(score[shown] + noise * rng.normal(size=keep)))]
            rows += [
                {"query": f"q{q}", "annotator": f"a{k}", "item": f"i{i}", "rank": place + 1}
                for place, i in enumerate(order)
            ]
    return pd.DataFrame(rows), pd.DataFrame(truth)


def accuracy(rankings: pd.DataFrame, truth: pd.DataFrame) -> float:
    both = truth.merge(rankings, on=["query", "item"])
    found = []
    for _, query in both.groupby("query"):
        a = np.sign(np.subtract.outer(query["relevance"].to_numpy(), query["relevance"].to_numpy()))
        b = np.sign(np.subtract.outer(query["score"].to_numpy(), query["score"].to_numpy()))
        found.append((a * b)[np.triu_indices(len(query), 1)].mean())
    return 0.5 + 0.5 * float(np.mean(found))


@pytest.mark.parametrize("keep", [8, 4])
def test_scores_are_recovered_from_full_and_partial_rankings(keep: int) -> None:
    frame, truth = crowd(1, noise=1.0, keep=keep)
    result = TRM().fit(frame)
    assert result.converged
    assert accuracy(result.rankings, truth) > (0.88 if keep == 8 else 0.83)
    assert accuracy(result.rankings, truth) >= accuracy(Borda().fit(frame).rankings, truth) - 0.02


def test_scores_are_in_units_of_delta_and_intervals_cover() -> None:
    frame, truth = crowd(2, noise=1.0, keep=8, queries=60)
    both = TRM().fit(frame).rankings.merge(truth, on=["query", "item"])
    centred = both["relevance"] - both.groupby("query")["relevance"].transform("mean")
    slope = (both["score"] * centred).sum() / (both["score"] ** 2).sum()
    assert slope == pytest.approx(1.0, abs=0.15)
    inside = (centred >= both["score_low"]) & (centred <= both["score_high"])
    assert 0.82 < inside.mean() < 0.96


def test_difficulty_is_noise_against_the_spread_of_the_scores() -> None:
    easy, hard = (TRM().fit(crowd(3, noise=noise, keep=8)[0]).queries["difficulty"].mean() for noise in (0.5, 2.0))
    assert hard > 4.0 * easy


def test_two_items_have_the_score_that_the_share_of_wins_implies() -> None:
    """With two items P(1 before 2) = Phi(d / sqrt 2): the fit must give back the share, but for the prior."""
    rows = [("q", f"a{k}", "x" if k < 150 else "y", "y" if k < 150 else "x") for k in range(200)]
    frame = pd.DataFrame(
        [
            {"query": query, "annotator": annotator, "item": item, "rank": place + 1}
            for query, annotator, *items in rows
            for place, item in enumerate(items)
        ]
    )
    scores = TRM(burn_in=150, samples=150).fit(frame).rankings.set_index("item")["score"]
    assert norm.cdf((scores["x"] - scores["y"]) / math.sqrt(2.0)) == pytest.approx(0.75, abs=0.02)


def test_other_forms_are_refused_with_a_reason() -> None:
    frame = pd.DataFrame({"query": ["q"], "annotator": ["a"], "winner": ["x"], "loser": ["y"]})
    with pytest.raises(UsageError, match="rankings"):
        TRM().fit(frame)
