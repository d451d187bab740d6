"""The kernels behind intervals, against the same thing written out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from literal_information import joint_information, probability, slope
from scipy import stats

from distrank.kernels import bounded, covariance, information, ranks
from distrank.kernels.laws import LOGISTIC, PROBIT, SCALED
from distrank.kernels.leave_out import NODES, question_runs
from distrank.kernels.surprise import against

LAWS = {"logistic": LOGISTIC, "probit": PROBIT, "scaled": SCALED}
ITEMS, ANNOTATORS = 6, 4


def some_rows(seed: int, *, weighted: bool) -> tuple[list[tuple[int, int, int, float]], tuple[Any, ...]]:
    """Rows as a list, and as the kernels take them."""
    rng = np.random.default_rng(seed)
    annotator = np.sort(rng.integers(ANNOTATORS, size=40))
    winner = rng.integers(ITEMS, size=40)
    loser = (winner + rng.integers(1, ITEMS, size=40)) % ITEMS
    weight = rng.uniform(0.2, 3.0, 40) if weighted else np.ones(40)
    run = np.searchsorted(annotator, np.arange(ANNOTATORS + 1)).astype(np.int64)
    owner = np.arange(ANNOTATORS, dtype=np.uint32)
    arrays = run, owner, winner.astype(np.uint32), loser.astype(np.uint32), weight if weighted else None
    return list(zip(annotator, winner, loser, weight, strict=True)), arrays


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
@pytest.mark.parametrize(("x", "d"), [(0.8, 1.3), (0.2, -0.7), (0.95, -4.0), (0.55, 0.0)])
def test_slopes_are_derivatives_of_the_probability(law: int, x: float, d: float) -> None:
    alpha, beta = information.slopes(law, x, d)
    p = probability(law, x, d)
    root = math.sqrt(p * (1.0 - p))
    assert alpha == pytest.approx(slope(lambda value: probability(law, x, value), d) / root, rel=1e-6, abs=1e-9)
    assert beta == pytest.approx(slope(lambda value: probability(law, value, d), x) / root, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
def test_products_and_the_schur_complement_are_those_of_the_whole_matrix(law: int, weighted: bool) -> None:
    rows, arrays = some_rows(1, weighted=weighted)
    score, parameter = np.random.default_rng(2).normal(size=ITEMS), np.array([0.9, 0.7, 0.3, 0.6])
    whole = joint_information(rows, score, parameter, law)
    vectors = np.random.default_rng(3).normal(size=(len(whole), 3))
    result = np.zeros_like(vectors)
    information.product(*arrays, score, parameter, law, 0, ANNOTATORS, 0, vectors, result)
    np.testing.assert_allclose(result, whole @ vectors, rtol=1e-6, atol=1e-8)

    extra = 0.3 + np.arange(ANNOTATORS)  # what is known of the annotators from elsewhere
    known = np.diag(whole)[ITEMS:] + extra
    own = np.zeros(ANNOTATORS)
    information.annotator_information(*arrays, score, parameter, law, own)
    np.testing.assert_allclose(own, np.diag(whole)[ITEMS:], rtol=1e-6)
    matrix = np.zeros((ITEMS, ITEMS))
    covariance.schur_complement(*arrays, score, parameter, law, 0, ANNOTATORS, 0, known, matrix)
    cross = whole[:ITEMS, ITEMS:]
    np.testing.assert_allclose(matrix, whole[:ITEMS, :ITEMS] - (cross / known) @ cross.T, rtol=1e-6, atol=1e-8)


def test_the_noise_has_the_covariance_of_the_information() -> None:
    rows, arrays = some_rows(4, weighted=True)
    score, parameter = np.random.default_rng(5).normal(size=ITEMS), np.array([0.9, 0.7, 0.3, 0.6])
    whole, size = joint_information(rows, score, parameter, LOGISTIC), ITEMS + ANNOTATORS
    key, draws = np.array([7, 8], np.uint64), 200
    found, diagonal = np.zeros((size, size)), np.zeros(size)
    for stream in range(draws):
        diagonal[:] = 0.0
        noise = np.zeros((size, 64))
        information.noise(
            *arrays, score, parameter, LOGISTIC, 0, ANNOTATORS, 0, key, np.uint64(stream), diagonal, noise
        )
        found += noise @ noise.T / (64 * draws)
    np.testing.assert_allclose(diagonal, np.diag(whole), rtol=1e-6)
    scale = np.sqrt(np.outer(diagonal, diagonal))
    assert np.abs((found - whole) / scale).max() < 5.0 / math.sqrt(64 * draws)  # five standard errors


@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_the_inverse_is_the_inverse(size: int) -> None:
    root = np.random.default_rng(size).normal(size=(size, size))
    matrix, inverse = root @ root.T + np.eye(size), np.empty((size, size))
    covariance.invert(matrix.copy(), inverse)
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-9, atol=1e-11)


def test_leaving_a_judgment_out_is_a_fit_without_it() -> None:
    """Two items, one annotator trusted fully: the score difference without one of the judgments, to first order."""
    wins, losses, strength = 30, 10, 0.5

    def fitted(won: float) -> tuple[float, float]:
        """The difference d of the two scores at its maximum, and its variance."""
        d = 0.0
        for _ in range(100):
            p, q = 1.0 / (1.0 + math.exp(-d)), 1.0 / (1.0 + math.exp(-0.5 * d))  # scores are -/+ d / 2
            first = won * (1.0 - p) - losses * p + strength * (1.0 - 2.0 * q)
            second = (won + losses) * p * (1.0 - p) + strength * q * (1.0 - q)
            d += first / second
        return d, 1.0 / second

    d, v = fitted(wins)
    without, variance = fitted(wins - 1)
    expected = 1.0 / (1.0 + math.exp(-without / math.sqrt(1.0 + math.pi * variance / 8.0)))
    window, answers = np.array([[0.0, 1.0]]), np.zeros((1, NODES))
    one, quality = np.zeros(1, np.uint32), np.ones(1)
    score, halves = np.array([0.5 * d, -0.5 * d]), np.full(2, 0.5 * v)
    row = np.array([0, 1]), one, one, np.ones(1, np.uint32), None
    question_runs(*row, score, quality, LOGISTIC, 0, 1, 0, np.zeros((0, 0)), halves, window, answers)
    assert math.exp(answers[0, -1]) == pytest.approx(expected, abs=2e-3)  # at quality 1
    assert math.exp(answers[0, 0]) == pytest.approx(1.0 - expected, abs=2e-3)  # at quality 0


@pytest.mark.parametrize(("right", "wrong"), [(30, 10), (5, 3), (20, 0), (0, 7), (400, 100)])
def test_the_shortest_interval_of_a_quality(right: int, wrong: int) -> None:
    """Sure judgments, right or wrong, make the law of the quality a Beta law."""
    nodes = np.linspace(0.0, 1.0, 2001)
    with np.errstate(divide="ignore"):
        logs = right * np.log(np.maximum(nodes, 1e-9)) + wrong * np.log(np.maximum(1.0 - nodes, 1e-9))
    mean, low, high = np.empty(1), np.empty(1), np.empty(1)
    bounded.quality_laws(logs[None, :], np.array([[0.0, 1.0]]), np.zeros(2), 0.9, mean, low, high)
    law = stats.beta(right + 1, wrong + 1)
    assert mean[0] == pytest.approx(law.mean(), abs=1e-3)
    assert law.cdf(high[0]) - law.cdf(low[0]) == pytest.approx(0.9, abs=0.01)
    shortest = min(law.ppf(0.9 + tail) - law.ppf(tail) for tail in np.linspace(0.0, 0.0999, 300))
    assert high[0] - low[0] == pytest.approx(shortest, abs=3e-3)


def test_the_mean_of_a_quality_lies_inside_where_the_estimate_is_at_a_bound() -> None:
    mean = np.empty(4)
    x, slopes, curvature = np.array([1.0, 0.0, 0.6, 0.5]), np.array([50.0, -50.0, 0.0, 0.0]), np.array([9.0, 9, 4e4, 0])
    bounded.quality_means(x, slopes, curvature, mean)
    assert mean[0] == pytest.approx(1.0 - 1.0 / 50.0, abs=1e-3)  # an exponential law
    assert mean[1] == pytest.approx(1.0 / 50.0, abs=1e-3)
    assert mean[2] == pytest.approx(0.6, abs=1e-6)
    assert mean[3] == pytest.approx(0.5)  # nothing is known


def test_beta_and_wilson_intervals() -> None:
    alpha, beta = np.array([10.0, 1.0, 0.5, 300.0]), np.array([1.0, 1.0, 0.5, 20.0])
    low, high = np.empty(4), np.empty(4)
    bounded.beta_intervals(alpha, beta, 0.9, low, high)
    np.testing.assert_allclose(low, stats.beta.ppf(0.05, alpha, beta), atol=2e-5)
    np.testing.assert_allclose(high, stats.beta.ppf(0.95, alpha, beta), atol=2e-5)
    share, count = np.array([0.25, 1.0, 0.5]), np.array([40.0, 12.0, 0.0])
    low, high = np.empty(3), np.empty(3)
    bounded.wilson_intervals(share, count, stats.norm.ppf(0.95), low, high)
    expected = stats.binomtest(10, 40).proportion_ci(0.9, method="wilson")
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high))
    assert high[1] == 1.0
    assert (low[2], high[2]) == (0.0, 1.0)


def test_rank_bounds_are_quantiles_of_simulated_ranks() -> None:
    rng = np.random.default_rng(6)
    n, z = 30, stats.norm.ppf(0.95)
    score, deviation = rng.normal(size=n), rng.uniform(0.1, 0.6, n)
    root = rng.normal(size=(n, n)) * 0.1
    joint = np.diag(deviation**2) + root @ root.T
    rank, low, high = (np.empty(n, np.int64) for _ in range(3))
    ranks.ranks(score, rank)
    assert rank.tolist() == stats.rankdata(-score).astype(int).tolist()
    ranks.joint_rank_bounds(score, rank, joint, z, low, high)
    drawn = rng.multivariate_normal(score, joint, size=20_000)
    places = stats.rankdata(-drawn, axis=1)
    ends = np.quantile(places, [0.05, 0.95], axis=0)
    assert np.abs(low - ends[0]).mean() < 0.7
    assert np.abs(high - ends[1]).mean() < 0.7
    covered = ((places >= low) & (places <= high)).mean()
    assert 0.88 < covered < 0.95

    points = stats.norm.ppf((np.arange(ranks.POINTS) + 0.5) / ranks.POINTS)
    ranks.separate_rank_bounds(score, rank, deviation, points, z, low, high)
    drawn = rng.normal(score, deviation, size=(20_000, n))
    places = stats.rankdata(-drawn, axis=1)
    assert 0.88 < ((places >= low) & (places <= high)).mean() < 0.95


def test_the_weight_of_a_judgment_is_a_likelihood_ratio() -> None:
    for law, typical, d in [(LOGISTIC, 0.9, -2.0), (LOGISTIC, 1.0, -3.0), (PROBIT, 0.8, 1.0), (SCALED, 1.7, -1.0)]:
        assert against(law, typical, d) == pytest.approx(math.log(0.5 / probability(law, typical, d)), rel=1e-12)
    assert against(LOGISTIC, 0.9, 0.0) == pytest.approx(0.0, abs=1e-15)
