"""The kernels of tpp against literal loops, finite differences, quadrature and dense linear algebra."""

from __future__ import annotations

import math

import numpy as np
import pytest
from literal_tpp import Toy, domain_log_likelihood, expected, pair_probability, random_toy
from scipy.special import log_ndtr, ndtri
from scipy.stats import norm
from toys import columns, laid_out

from distrank.kernels import clusters, expertise
from distrank.kernels.normal_table import (
    information_of,
    log_cdf_and_slope,
    log_cdf_of,
    log_cdf_table,
    quantile,
)
from distrank.records import Array

TABLE = log_cdf_table()
STEP = 1e-5


class Case:
    """A toy with parameters."""

    def __init__(self, seed: int, *, domains: int = 3, annotators: int = 3) -> None:
        rng = np.random.default_rng(seed)
        self.toy: Toy = random_toy(seed, annotators=annotators)
        self.layout = laid_out(self.toy)
        self.score = 2.0 * rng.normal(size=len(self.toy.unit_of_item))
        self.hardness = rng.normal(size=self.toy.units)
        self.tau = rng.normal(0.5, 1.5, (annotators, domains))
        self.posterior = rng.dirichlet(np.ones(domains), self.toy.units)

    def derivatives(self) -> tuple[float, Array, Array, Array]:
        slopes = np.zeros(len(self.score)), np.zeros(len(self.hardness)), np.zeros(self.tau.shape)
        given = self.score, self.hardness, self.tau, self.posterior, TABLE
        return expertise.expected_likelihood(*columns(self.layout), *given, *slopes), *slopes


@pytest.mark.parametrize("z", [-60.0, -40.0, -39.999, -12.3, -1.0, -1e-9, 0.0, 0.3, 5.5, 8.999, 9.0, 30.0])
def test_the_table_has_the_digits_that_it_promises(z: float) -> None:
    value, slope = log_cdf_and_slope(TABLE, z)
    assert value == log_cdf_of(TABLE, z)
    assert value == pytest.approx(log_ndtr(z), abs=2e-12, rel=1e-15)
    assert slope == pytest.approx(math.exp(norm.logpdf(z) - log_ndtr(z)), abs=1e-9, rel=1e-9)


def test_the_table_is_accurate_between_its_nodes() -> None:
    places = np.random.default_rng(0).uniform(-40.0, 9.0, 20_000)
    found = np.array([log_cdf_and_slope(TABLE, z) for z in places])
    assert np.abs(found[:, 0] - log_ndtr(places)).max() < 2e-12
    assert np.abs(found[:, 1] - np.exp(norm.logpdf(places) - log_ndtr(places))).max() < 1e-9


@pytest.mark.parametrize("p", [1e-300, 1e-20, 1e-5, 0.0749, 0.0751, 0.3, 0.5, 0.7, 0.9999, 1.0 - 1e-12])
def test_quantiles_are_exact(p: float) -> None:
    assert quantile(p) == pytest.approx(ndtri(p), rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("tau", [-3.0, -0.1, 0.7, 2.5])
@pytest.mark.parametrize("gap", [-2.0, 0.1, 4.0])
@pytest.mark.parametrize("variance", [0.01, 1.0, 5.0])
def test_the_closed_form_of_a_pair_is_the_integral_over_perceived_scores(
    tau: float, gap: float, variance: float
) -> None:
    c, _, _ = expertise.certainty(tau, variance)
    assert norm.cdf(c * gap) == pytest.approx(pair_probability(tau, gap, 0.0, variance), abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_likelihoods_agree_with_literal_loops(seed: int) -> None:
    case = Case(seed)
    total = np.zeros((case.toy.units, case.tau.shape[1]))
    expertise.domain_likelihood(*columns(case.layout), case.score, case.hardness, case.tau, TABLE, total)
    np.testing.assert_allclose(
        total, domain_log_likelihood(case.toy, case.score, case.hardness, case.tau), rtol=1e-11, atol=1e-10
    )
    value = case.derivatives()[0]
    assert value == pytest.approx(expected(case.toy, case.score, case.hardness, case.tau, case.posterior), rel=1e-11)


@pytest.mark.parametrize("name", ["score", "hardness", "tau"])
@pytest.mark.parametrize("seed", range(3))
def test_gradients_agree_with_finite_differences_of_the_literal_likelihood(name: str, seed: int) -> None:
    case = Case(seed)
    slope = dict(zip(("score", "hardness", "tau"), case.derivatives()[1:], strict=True))[name]
    point = getattr(case, name)
    numeric = np.zeros(point.shape)
    for place in np.ndindex(point.shape):
        ends = []
        for side in (STEP, -STEP):
            moved = point.copy()
            moved[place] += side
            given = {"score": case.score, "hardness": case.hardness, "tau": case.tau, name: moved}
            ends.append(expected(case.toy, given["score"], given["hardness"], given["tau"], case.posterior))
        numeric[place] = (ends[0] - ends[1]) / (2.0 * STEP)
    np.testing.assert_allclose(slope, numeric, rtol=1e-6, atol=1e-6)


def test_information_is_the_expected_square_of_the_derivative() -> None:
    for z in (-3.0, -0.2, 0.0, 1.7, 8.0):
        up, down = log_cdf_and_slope(TABLE, z)[1], log_cdf_and_slope(TABLE, -z)[1]
        assert information_of(TABLE, z) == pytest.approx(norm.cdf(z) * up**2 + norm.cdf(-z) * down**2, rel=1e-6)


def test_the_diagonal_of_the_information_is_that_of_the_dense_one() -> None:
    case = Case(5)
    found = np.zeros(len(case.score)), np.zeros(len(case.hardness)), np.zeros(case.tau.shape)
    given = case.score, case.hardness, case.tau, case.posterior, TABLE
    expertise.expected_information(*columns(case.layout), *given, *found)
    for unit in range(case.toy.units):
        bread = dense_bread(case, unit)
        here = slice(4 * unit, 4 * unit + 4)
        np.testing.assert_allclose(np.diag(bread)[:-1], found[0][here], rtol=1e-12)
        assert bread[-1, -1] == pytest.approx(found[1][unit], rel=1e-12)


def test_a_hot_posterior_is_flat_and_a_cold_one_is_bayes() -> None:
    likelihood, share = np.array([[-3.0, -1.0, -700.0]]), np.array([0.2, 0.3, 0.5])
    posterior = np.empty((1, 3))
    total = expertise.posterior_of(likelihood, np.log(share), 1.0, posterior)
    weights = share * np.exp(likelihood[0])
    np.testing.assert_allclose(posterior[0], weights / weights.sum(), atol=1e-300)
    assert total == pytest.approx(math.log(weights.sum()))
    expertise.posterior_of(likelihood, np.log(share), 1e9, posterior)
    np.testing.assert_allclose(posterior[0], 1.0 / 3.0, atol=1e-6)


# Intervals. ----------------------------------------------------------------------------------------------------------


def runs_of(case: Case, unit: int) -> tuple[int, int]:
    return int(case.layout["unit"][unit]), int(case.layout["unit"][unit + 1])


def dense_bread(case: Case, unit: int) -> Array:
    bread = np.zeros((5, 5))
    given = case.score, float(case.hardness[unit]), case.tau, case.posterior[unit], TABLE
    clusters.add_bread(*runs_of(case, unit), 4 * unit, *columns(case.layout)[1:], *given, bread)
    return bread


def literal_run(case: Case, unit: int, run: int) -> tuple[Array, Array]:
    """Gradient and information of one annotator in one query, literally."""
    gradient, information = np.zeros(5), np.zeros((5, 5))
    for r in range(case.layout["run"][run], case.layout["run"][run + 1]):
        i, j = int(case.layout["winner"][r]), int(case.layout["loser"][r])
        for m in range(case.tau.shape[1]):
            tau = case.tau[case.layout["owner"][run], m]
            c, _, by_hardness = expertise.certainty(tau, math.exp(case.hardness[unit]))
            d = case.score[i] - case.score[j]
            row = np.zeros(5)
            row[i - 4 * unit], row[j - 4 * unit], row[4] = c, -c, d * by_hardness
            counted = case.posterior[unit, m] * case.layout["weight"][r]
            gradient += counted * math.exp(norm.logpdf(c * d) - log_ndtr(c * d)) * row
            phi = norm.pdf(c * d) ** 2 / (norm.cdf(c * d) * norm.cdf(-c * d))
            information += counted * phi * np.outer(row, row)
    return gradient, information


@pytest.mark.parametrize("annotators", [2, 12])  # long runs are left out by a dense inverse, short ones by a small one
def test_the_sandwich_leaves_every_annotator_out_of_its_own_gradient(annotators: int) -> None:
    case, precision = Case(7, annotators=annotators), np.array([0.3, 0.3, 0.3, 0.3, 1.0])
    for unit in range(case.toy.units):
        whole, inverse = clusters.believed(dense_bread(case, unit), precision)
        meat = np.zeros((5, 5))
        given = case.score, float(case.hardness[unit]), case.tau, case.posterior[unit], TABLE
        where = (*runs_of(case, unit), 4 * unit)
        clusters.add_meat(*where, *columns(case.layout)[1:], *given, whole, inverse, meat)
        runs = [literal_run(case, unit, run) for run in range(*runs_of(case, unit))]
        total = sum((information for _, information in runs), np.diag(precision))
        np.testing.assert_allclose(whole, total, rtol=1e-6, atol=1e-9)
        corrected = [
            np.linalg.solve(np.eye(5) - information @ np.linalg.inv(total), gradient) for gradient, information in runs
        ]
        expected_meat = sum((np.outer(g, g) for g in corrected), np.zeros((5, 5)))
        np.testing.assert_allclose(meat, expected_meat, rtol=1e-5, atol=1e-8)
        found = clusters.sandwich(inverse, meat, precision)
        bread = np.linalg.inv(total)
        np.testing.assert_allclose(found, bread @ (expected_meat + np.diag(precision)) @ bread, rtol=1e-5, atol=1e-8)


def test_very_large_queries_have_the_diagonals_without_corrections() -> None:
    case = Case(8)
    bread, meat = np.zeros(4), np.zeros(4)
    given = case.score, float(case.hardness[1]), case.tau, case.posterior[1], TABLE
    clusters.diagonals(*runs_of(case, 1), 4, *columns(case.layout)[1:], *given, bread, meat)
    runs = [literal_run(case, 1, run) for run in range(*runs_of(case, 1))]
    np.testing.assert_allclose(bread, sum(np.diag(information)[:4] for _, information in runs), rtol=1e-6)
    np.testing.assert_allclose(meat, sum(gradient[:4] ** 2 for gradient, _ in runs), rtol=1e-6)


def test_the_inverse_of_a_positive_matrix() -> None:
    root = np.random.default_rng(1).normal(size=(7, 7))
    matrix = root @ root.T + 0.1 * np.eye(7)
    inverse = matrix.copy()
    clusters.invert(inverse)
    np.testing.assert_allclose(inverse @ matrix, np.eye(7), atol=1e-9)


def test_implied_accuracy_counts_pairs_in_the_order_of_the_scores() -> None:
    case = Case(9)
    judged, right, lift = (np.zeros(case.tau.shape) for _ in range(3))
    given = case.score, case.hardness, case.tau, case.posterior, TABLE
    clusters.implied_accuracy(*columns(case.layout), *given, judged, right, lift)
    expected_right = np.zeros(case.tau.shape)
    for (unit, k, i, j), weight in zip(case.toy.rows, case.toy.weight, strict=True):
        for m in range(case.tau.shape[1]):
            c, _, _ = expertise.certainty(case.tau[k, m], math.exp(case.hardness[unit]))
            chance = norm.cdf(c * abs(case.score[i] - case.score[j]))
            expected_right[k, m] += weight * case.posterior[unit, m] * chance
    np.testing.assert_allclose(right, expected_right, rtol=1e-9)
    np.testing.assert_allclose(judged.sum(), sum(case.toy.weight), rtol=1e-12)
