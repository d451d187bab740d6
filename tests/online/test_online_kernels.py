"""The online updates against the printed equations, against integrals, and against each other."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from literal_online import brackets, c1_of, crowd_bt_pass, crowd_bt_update, trueskill_update
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import log_ndtr

from distrank.kernels import online as kernels
from distrank.records import Array

CODES = np.uint32
KAPPA = 1e-4


def codes(*values: int) -> Array:
    return np.array(values, CODES)


def passed(items: Any, annotators: Any, rows: Any, tie: Any = None, size: Any = None, kappa: float = KAPPA) -> Any:
    items, annotators = np.array(items, float), np.array(annotators, float)
    k, i, j = (np.array(column, CODES) for column in zip(*rows, strict=True))
    kernels.crowd_bt_pass(k, i, j, tie, size, kappa, items, annotators)
    return items, annotators


def skilled(items: Any, rows: Any, tie: Any = None, size: Any = None, noise: float = 2.0, drift: float = 0.01) -> Any:
    items = np.array(items, float)
    i, j = (np.array(column, CODES) for column in zip(*rows, strict=True))
    kernels.trueskill_pass(i, j, tie, size, noise, drift, items)
    return items


mean = st.floats(-8.0, 8.0)
variance = st.floats(1e-4, 4.0)
count = st.floats(0.05, 1e4)


@given(mean, mean, variance, variance, count, count)
def test_an_update_is_the_printed_one(mu_i: float, mu_j: float, v_i: float, v_j: float, a: float, b: float) -> None:
    items, annotators = [(mu_i, v_i), (mu_j, v_j)], [(a, b)]
    new_items, new_annotators = passed(items, annotators, [(0, 0, 1)])
    crowd_bt_update(items, annotators, (0, 0, 1), KAPPA)
    np.testing.assert_allclose(new_items, items, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(new_annotators, annotators, rtol=1e-12, atol=0.0)


@given(mean, mean, count, count)
def test_a_small_force_is_as_exact_as_a_large_one(mu_i: float, mu_j: float, a: float, b: float) -> None:
    """Beside a large mean a wrong small move would not be seen."""
    force, bend, _, _ = kernels.crowd_bt_change(math.exp(mu_j - mu_i), a, b, 0.0)
    with localcontext() as context:
        context.prec = 60
        exact_force, exact_bend = brackets(*(Decimal(x) for x in (mu_i, mu_j, a, b)))
    assert force == pytest.approx(float(exact_force), rel=1e-12, abs=1e-50)
    assert bend == pytest.approx(float(exact_bend), rel=1e-12, abs=1e-13)


def test_a_pass_is_the_printed_updates_one_after_the_other() -> None:
    rng = np.random.default_rng(3)
    rows = [(int(rng.integers(4)), *rng.permutation(6)[:2].tolist()) for _ in range(400)]
    items, annotators = [(0.0, 1.0)] * 6, [(10.0, 1.0)] * 4
    new_items, new_annotators = passed(items, annotators, rows)
    crowd_bt_pass(items, annotators, rows)
    np.testing.assert_allclose(new_items, items, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(new_annotators, annotators, rtol=1e-12, atol=0.0)


def exact_moments(mu: tuple[float, float], var: tuple[float, float], alpha: float, beta: float) -> dict[str, float]:
    """C1, and mean and variance of s_i under the posterior, by Gauss-Hermite quadrature in both scores."""
    nodes, weights = hermegauss(80)
    si = mu[0] + math.sqrt(var[0]) * nodes[:, None]
    sj = mu[1] + math.sqrt(var[1]) * nodes[None, :]
    law = weights[:, None] * weights[None, :] / (2.0 * math.pi)
    sigma = 1.0 / (1.0 + np.exp(sj - si))
    likelihood = law * (alpha * sigma + beta * (1.0 - sigma)) / (alpha + beta)
    total = likelihood.sum()
    first = float((likelihood * si).sum() / total)
    second = float((likelihood * si * si).sum() / total)
    return {"c1": float((law * sigma).sum()), "mean": first, "variance": second - first * first}


def test_the_worked_case() -> None:
    """From N(0, 1) and Beta(10, 1) the printed update overshoots; how far is known."""
    (item, _), _ = passed([(0.0, 1.0)] * 2, [(10.0, 1.0)], [(0, 0, 1)])
    exact = exact_moments((0.0, 0.0), (1.0, 1.0), 10.0, 1.0)
    assert item[0] == pytest.approx(0.409, abs=5e-4)
    assert exact["mean"] == pytest.approx(0.297, abs=5e-4)
    assert item[1] == pytest.approx(0.833, abs=5e-4)
    assert exact["variance"] == pytest.approx(0.912, abs=5e-4)


@pytest.mark.parametrize("quality", [(10.0, 1.0), (3.0, 2.0), (1.0, 4.0)])
@pytest.mark.parametrize("mu", [(0.0, 0.0), (0.7, -0.4), (-1.2, 0.9)])
def test_moments_become_exact_as_variances_fall(mu: tuple[float, float], quality: tuple[float, float]) -> None:
    """The error of C1, and of the moves of mean and variance, falls with the square of the variance."""
    errors = []
    for small in (4e-3, 1e-3):
        var = (small, 2.0 * small)
        exact = exact_moments(mu, var, *quality)
        (item, _), _ = passed([(mu[0], var[0]), (mu[1], var[1])], [quality], [(0, 0, 1)])
        c1 = float(c1_of(*(Decimal(x) for x in (*mu, *var))))
        found = np.array([c1 - exact["c1"], item[0] - exact["mean"], item[1] - exact["variance"]])
        assert np.abs(found).max() < 3.0 * small**2
        errors.append(np.abs(found))
    assert (errors[1] <= errors[0] / 10.0 + 1e-12).all()


@pytest.mark.parametrize("eta", [(10.0, 1.0), (2.0, 3.0), (0.3, 0.4)])
@pytest.mark.parametrize("odds", [0.01, 0.6, 1.0, 40.0])
def test_quality_keeps_the_first_two_moments(odds: float, eta: tuple[float, float]) -> None:
    """Mean and mean square of eta under the posterior (9), integrated, are those of the new Beta law."""
    alpha, beta = eta
    _, _, new_alpha, new_beta = kernels.crowd_bt_change(odds, alpha, beta, 0.0)
    c1 = min(max(1.0 / (1.0 + odds), 1e-6), 1.0 - 1e-6)

    def power(n: int, m: int) -> float:  # E(eta^n (1 - eta)^m) under Beta(alpha, beta)
        return math.exp(
            sum(math.lgamma(x) for x in (alpha + n, beta + m, alpha + beta))
            - sum(math.lgamma(x) for x in (alpha, beta, alpha + beta + n + m))
        )

    mass = c1 * power(1, 0) + (1 - c1) * power(0, 1)
    first = (c1 * power(2, 0) + (1 - c1) * power(1, 1)) / mass
    second = (c1 * power(3, 0) + (1 - c1) * power(2, 1)) / mass
    total = new_alpha + new_beta
    assert new_alpha / total == pytest.approx(first, rel=1e-11)
    assert new_alpha * (new_alpha + 1.0) / (total * (total + 1.0)) == pytest.approx(second, rel=1e-11)


@given(mean, mean, variance, variance, count, count, st.floats(0.01, 1.0))
def test_a_tie_does_not_know_a_winner(
    mu_i: float, mu_j: float, v_i: float, v_j: float, a: float, b: float, h: float
) -> None:
    tie, size = np.array([True]), np.array([h])
    items = [(mu_i, v_i), (mu_j, v_j)]
    one, other = (passed(items, [(a, b)], [row], tie, size) for row in ((0, 0, 1), (0, 1, 0)))
    np.testing.assert_allclose(one[0], other[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(one[1], other[1], rtol=1e-12)
    one, other = (skilled(items, [row], tie, size) for row in ((0, 1), (1, 0)))
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_a_tie_is_the_mean_of_both_updates() -> None:
    items, annotators = [(0.4, 0.9), (-0.3, 0.5)], [(6.0, 2.0)]
    ways = [passed(items, annotators, [row]) for row in ((0, 0, 1), (0, 1, 0))]
    tied = passed(items, annotators, [(0, 0, 1)], np.array([True]))
    for place in (0, 1):
        np.testing.assert_allclose(tied[place], 0.5 * (ways[0][place] + ways[1][place]), rtol=1e-14)
    wins = [skilled(items, [row]) for row in ((0, 1), (1, 0))]
    np.testing.assert_allclose(skilled(items, [(0, 1)], np.array([True])), 0.5 * (wins[0] + wins[1]), rtol=1e-14)


def test_an_update_of_a_size_moves_by_that_share() -> None:
    items, annotators, size = [(0.4, 0.9), (-0.3, 0.5)], [(6.0, 2.0)], np.array([0.3])
    whole, part = passed(items, annotators, [(0, 0, 1)]), passed(items, annotators, [(0, 0, 1)], None, size)
    for before, all_of_it, some in zip((items, annotators), whole, part, strict=True):
        np.testing.assert_allclose(some - before, 0.3 * (all_of_it - before), rtol=1e-12)
    start = skilled(items, [(0, 1)], None, np.array([0.0]))  # the drift alone
    np.testing.assert_allclose(
        skilled(items, [(0, 1)], None, size) - start, 0.3 * (skilled(items, [(0, 1)]) - start), rtol=1e-12
    )


@pytest.mark.parametrize("difference", [-1e6, -300.0, 300.0, 1e6])
def test_any_difference_gives_numbers(difference: float) -> None:
    for tie in (None, np.array([True])):
        found = passed([(difference, 1.0), (0.0, 1.0)], [(10.0, 1.0)], [(0, 0, 1)], tie)
        assert all(np.isfinite(array).all() for array in found)
        assert (found[0][:, 1] > 0.0).all()
        assert (found[1] > 0.0).all()
        skills = skilled([(difference, 1.0), (0.0, 1.0)], [(0, 1)], tie)
        assert np.isfinite(skills).all()
        assert (skills[:, 1] > 0.0).all()


def test_the_floor_holds() -> None:
    """From a huge variance the printed factor is negative; kappa takes its place."""
    items, _ = passed([(0.0, 1e3), (0.0, 1e3)], [(10.0, 1.0)], [(0, 0, 1)], kappa=0.01)
    assert items[:, 1].tolist() == [10.0, 10.0]


@pytest.mark.parametrize("t", [-1e5, -300.0, -38.5, -30.0, -10.0, -4.001, -3.999, -1.0, 0.0, 0.5, 3.0, 8.0, 30.0])
def test_v_and_w_hold_in_the_tails(t: float) -> None:
    v, w = kernels.truncated_normal(t)
    log_v = -0.5 * t * t - 0.5 * math.log(2.0 * math.pi) - log_ndtr(t)
    assert v == pytest.approx(math.exp(log_v), rel=1e-12 + 4e-16 * t * t)
    if t < -6.0:  # w = 1 - 1/t^2 + 6/t^4 - 50/t^6 + 518/t^8 - ..., an alternating series: the next term bounds it
        assert w == pytest.approx(1 - t**-2 + 6 * t**-4 - 50 * t**-6, abs=518 * t**-8 + 1e-15)
    else:
        assert w == pytest.approx(v * (v + t), rel=1e-11)
    assert 0.0 <= w < 1.0 or t < -1e4


def test_v_and_w_have_no_step_where_the_fraction_begins() -> None:
    below, above = kernels.truncated_normal(math.nextafter(-4.0, -5.0)), kernels.truncated_normal(-4.0)
    assert below[0] == pytest.approx(above[0], rel=1e-14)
    assert below[1] == pytest.approx(above[1], rel=2e-13)


def test_trueskill_is_the_published_update() -> None:
    rng = np.random.default_rng(5)
    beta, tau = 25.0 / 6.0, 25.0 / 300.0
    literal = [(25.0, 25.0 / 3.0)] * 7
    rows = [tuple(rng.permutation(7)[:2].tolist()) for _ in range(300)]
    found = skilled([(m, s * s) for m, s in literal], rows, noise=2 * beta**2, drift=tau**2)
    for winner, loser in rows:
        trueskill_update(literal, winner, loser, beta, tau)
    np.testing.assert_allclose(found, [(m, s * s) for m, s in literal], rtol=1e-12)


def test_trueskill_is_the_package() -> None:
    package = pytest.importorskip("trueskill")
    world = package.TrueSkill(draw_probability=0.0)
    ratings = [world.create_rating() for _ in range(5)]
    rng = np.random.default_rng(6)
    rows = [tuple(rng.permutation(5)[:2].tolist()) for _ in range(100)]
    found = skilled([(25.0, (25.0 / 3.0) ** 2)] * 5, rows, noise=2 * (25.0 / 6.0) ** 2, drift=(25.0 / 300.0) ** 2)
    for winner, loser in rows:
        ratings[winner], ratings[loser] = package.rate_1vs1(ratings[winner], ratings[loser], env=world)
    np.testing.assert_allclose(found[:, 0], [rating.mu for rating in ratings], rtol=1e-6)
    np.testing.assert_allclose(np.sqrt(found[:, 1]), [rating.sigma for rating in ratings], rtol=1e-6)
