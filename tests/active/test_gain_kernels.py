"""The expected gain against equation 10 as printed, against integrals, and its bounds against itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from literal_gain import beta_divergence, expected_gain
from numpy.polynomial.hermite_e import hermegauss
from scipy.integrate import quad
from scipy.stats import beta as beta_law

from distrank.kernels import gain as kernels
from distrank.kernels.gain_bounds import LEAST_COUNT, Box, score_bound

KAPPA = 1e-4
mean = st.floats(-6.0, 6.0)
variance = st.floats(1e-3, 6.0)
count = st.floats(LEAST_COUNT, 300.0)
weight = st.sampled_from([0.0, 1.0, 5.0, 30.0])
share = st.floats(0.0, 1.0)


@given(mean, mean, variance, variance, count, count, weight)
def test_the_gain_is_equation_10(
    mu_i: float, mu_j: float, v_i: float, v_j: float, a: float, b: float, gamma: float
) -> None:
    literal = expected_gain((mu_i, v_i), (mu_j, v_j), (a, b), gamma)
    found = kernels.expected_gain(mu_i, v_i, mu_j, v_j, a, b, gamma, KAPPA)
    assert found == pytest.approx(literal, rel=1e-7, abs=1e-10 * (1.0 + gamma))


@given(mean, mean, variance, variance, count, count, weight)
def test_the_gain_knows_no_left_and_right(
    mu_i: float, mu_j: float, v_i: float, v_j: float, a: float, b: float, gamma: float
) -> None:
    there = kernels.expected_gain(mu_i, v_i, mu_j, v_j, a, b, gamma, KAPPA)
    assert kernels.expected_gain(mu_j, v_j, mu_i, v_i, a, b, gamma, KAPPA) == pytest.approx(there, rel=1e-9, abs=1e-13)


@given(mean, mean, variance, variance, count, count)
def test_a_liar_tells_as_much_about_items_as_an_honest_one(
    mu_i: float, mu_j: float, v_i: float, v_j: float, a: float, b: float
) -> None:
    honest = kernels.expected_gain(mu_i, v_i, mu_j, v_j, a, b, 0.0, KAPPA)
    assert kernels.expected_gain(mu_i, v_i, mu_j, v_j, b, a, 0.0, KAPPA) == pytest.approx(honest, rel=1e-8, abs=1e-14)


@pytest.mark.parametrize("new", [(11.0, 1.0), (10.1, 1.9), (1.4, 1.3), (150.0, 40.0)])
@pytest.mark.parametrize("old", [(10.0, 1.0), (0.5, 0.5), (149.0, 40.5)])
def test_the_divergence_of_beta_laws_is_its_integral(new: tuple[float, float], old: tuple[float, float]) -> None:
    def density(x: float) -> float:
        ratio = beta_law.logpdf(x, *new) - beta_law.logpdf(x, *old)
        return float(beta_law.pdf(x, *new) * ratio)

    points = (1e-6, 0.01, 0.5, 0.99, 1.0 - 1e-6)
    integral, _ = quad(density, 0.0, 1.0, points=points, limit=400)
    assert kernels.beta_divergence(*new, *old) == pytest.approx(integral, rel=1e-5, abs=1e-8)
    assert kernels.beta_divergence(*new, *old) == pytest.approx(beta_divergence(*new, *old), rel=1e-9, abs=1e-12)


def test_a_small_divergence_is_as_exact_as_a_large_one() -> None:
    """To second order it is half the Fisher information, which the printed form loses in rounding at large counts."""
    a, b, step = 40_000.0, 9_000.0, 1e-2
    second = sum(math.fsum(1.0 / (x + n) ** 2 for n in range(200_000)) + 1.0 / (x + 200_000 - 0.5) for x in (a,))
    whole = sum(math.fsum(1.0 / (x + n) ** 2 for n in range(200_000)) + 1.0 / (x + 200_000 - 0.5) for x in (a + b,))
    assert kernels.beta_divergence(a + step, b, a, b) == pytest.approx(0.5 * step**2 * (second - whole), rel=1e-4)


@pytest.mark.parametrize("quality", [(10.0, 1.0), (3.0, 2.0), (1.0, 4.0)])
@pytest.mark.parametrize("apart", [0.0, 0.8, 2.0])
def test_the_gain_becomes_the_exact_one_as_variances_fall(apart: float, quality: tuple[float, float]) -> None:
    """The expected KL of the exact posterior's moments, by quadrature; the closed form is off by its expansion."""
    errors = []
    for small in (0.02, 0.005):
        exact = exact_score_gain(apart, small, *quality)
        found = kernels.expected_gain(apart, small, 0.0, small, *quality, 0.0, KAPPA)
        errors.append(abs(found / exact - 1.0))
    assert errors[0] < 0.1
    assert errors[1] < errors[0] / 3.0


def exact_score_gain(apart: float, small: float, alpha: float, beta: float) -> float:
    nodes, weights = hermegauss(60)
    s_i, s_j = apart + math.sqrt(small) * nodes[:, None], math.sqrt(small) * nodes[None, :]
    law = weights[:, None] * weights[None, :] / (2.0 * math.pi)
    sigma, total = 1.0 / (1.0 + np.exp(s_j - s_i)), 0.0
    for order in (sigma, 1.0 - sigma):
        posterior = law * (alpha * order + beta * (1.0 - order)) / (alpha + beta)
        chance = posterior.sum()
        for score, prior in ((s_i, apart), (s_j, 0.0)):
            first = (posterior * score).sum() / chance
            ratio = ((posterior * score * score).sum() / chance - first * first) / small
            total += chance * 0.5 * (ratio - 1.0 - math.log(ratio) + (first - prior) ** 2 / small)
    return float(total)


@given(st.lists(share, min_size=8, max_size=8), st.lists(share, min_size=4, max_size=4), st.floats(0.0, 8.0))
def test_a_bound_holds_in_all_of_its_box(ends: list[float], inside: list[float], far: float) -> None:
    ranges = [(0.0, far), (1e-3, 5.0), (1e-3, 5.0), (0.0, 0.999)]
    box, point = [], []
    for (low, high), first, second, at in zip(ranges, ends[::2], ends[1::2], inside, strict=True):
        begin, end = sorted((low + (high - low) * first, low + (high - low) * second))
        box += [begin, end]
        point.append(begin + (end - begin) * at)
    bound, z = score_bound(Box(*box), KAPPA)
    apart, v_i, v_j, u = point
    gain, c1, c2 = kernels.score_gain(math.exp(-apart), v_i, v_j, 5.0 * (1.0 + u), 5.0 * (1.0 - u), KAPPA)
    assert gain <= bound * (1.0 + 1e-9) + 1e-15
    assert abs(c1 - c2) <= z + 1e-12


@given(st.floats(0.0, 20.0), variance, variance, st.floats(0.01, 0.999))
def test_the_bound_of_a_point_is_the_gain(apart: float, v_i: float, v_j: float, u: float) -> None:
    bound, z = score_bound(Box(apart, apart, v_i, v_i, v_j, v_j, u, u), KAPPA)
    gain, c1, c2 = kernels.score_gain(math.exp(-apart), v_i, v_j, 5.0 * (1.0 + u), 5.0 * (1.0 - u), KAPPA)
    assert bound == pytest.approx(gain, rel=1e-9 if apart < 12.0 else 1e-3)
    assert z == pytest.approx(abs(c1 - c2), abs=1e-12)


@given(count, count, share, share, st.floats(1.0, 20.0))
def test_annotators_teach_more_about_themselves_on_clear_pairs_and_less_when_known(
    a: float, b: float, x: float, y: float, more: float
) -> None:
    """What the search relies on."""
    low, high = (min(max(z, 2e-6), 1.0 - 2e-6) for z in sorted((x, y)))
    assume(high > low)

    def lesson(alpha: float, beta: float, z: float) -> float:
        return float(kernels.quality_gain(alpha, beta, 0.5 * (1.0 + z), 0.5 * (1.0 - z)))

    assert lesson(a, b, low) <= lesson(a, b, high) * (1.0 + 1e-6) + 1e-13
    assert lesson(more * a, more * b, high) <= lesson(a, b, high) * (1.0 + 1e-6) + 1e-13


@given(mean, mean, variance, variance, count, count)
def test_what_is_expected_of_an_answer_leaves_less_to_ask(
    mu_i: float, mu_j: float, v_i: float, v_j: float, a: float, b: float
) -> None:
    odds = kernels.pair_odds(mu_i, mu_j)
    _, c1, c2 = kernels.score_gain(odds, v_i, v_j, a, b, KAPPA)
    new_i, new_j = kernels.asked_items(odds, v_i, v_j, a, b, KAPPA)
    new_a, new_b = kernels.asked_annotator(a, b, c1, c2)
    assert 0.0 < new_i <= v_i
    assert 0.0 < new_j <= v_j
    assert new_a + new_b >= a + b
    assert new_a / (new_a + new_b) == pytest.approx(a / (a + b), rel=1e-12)
