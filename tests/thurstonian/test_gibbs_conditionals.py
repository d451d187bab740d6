"""The conditionals of the sampler against numerical integration, on two items, two annotators and two domains."""

from __future__ import annotations

import math

import numpy as np
import pytest
from literal_tpp import two_item_domain_posterior
from scipy import integrate
from scipy.stats import kstest, norm, truncnorm

from distrank.kernels import gibbs
from distrank.kernels.normal_table import log_cdf_table
from distrank.kernels.random import round_key
from distrank.records import Array

TABLE = log_cdf_table()
TAU = np.array([[1.5, -0.7], [0.4, 2.0]])
SHARE = np.array([0.4, 0.6])
SCORE, HARDNESS = np.array([0.8, -0.1]), np.array([math.log(0.5)])
# annotator 0 says 1 > 2, 1 > 2, 2 > 1; annotator 1 says 1 > 2
UNIT, RUN, OWNER = np.array([0, 2], np.int64), np.array([0, 3, 4], np.int64), np.array([0, 1], np.uint32)
WINNER, LOSER = np.array([0, 0, 1, 0], np.uint32), np.array([1, 1, 0, 1], np.uint32)
COUNTS = np.array([[2, 1], [1, 0]])
HASH, CODES = np.array([12345], np.uint64), np.array([0, 1], np.int64)
SLOT, NODE, FIRST, SECOND = gibbs.slots_of(RUN, WINNER, LOSER, 2)
EDGES, EDGE = gibbs.edges_of(FIRST, SECOND, len(NODE))
PERCEIVED = np.array([1.1, 0.2, -0.4, 0.3])
DIFFERENCE = np.array([0.5, 1.2, 0.3, 0.9])


def test_slots_are_the_items_of_every_annotator() -> None:
    assert SLOT.tolist() == [0, 2, 4]
    assert NODE.tolist() == [0, 1, 0, 1]
    assert FIRST.tolist() == [0, 0, 1, 2]
    assert SECOND.tolist() == [1, 1, 0, 3]
    assert [sorted(EDGE[EDGES[i] : EDGES[i + 1]].tolist()) for i in range(4)] == [[0, 1, 2], [0, 1, 2], [3], [3]]


def keys(count: int) -> list[Array]:
    return [round_key(7, 0, 0, number, "test") for number in range(count)]


@pytest.mark.parametrize("y", [-45.0, -31.0, -29.0, -5.0, -0.3, 0.0, 1.0, 6.0, 40.0])
def test_truncated_draws_follow_the_truncated_normal_law(y: float) -> None:
    draws = [gibbs.truncated(u, y, TABLE) for u in np.random.default_rng(3).uniform(size=2000)]
    assert min(draws) >= 0.0
    if y > -30.0:
        assert kstest(draws, truncnorm(-y, np.inf, loc=y).cdf).pvalue > 1e-3
    else:
        assert np.mean(draws) == pytest.approx(-1.0 / y, rel=0.1)


@pytest.mark.parametrize("collapsed", [False, True])
def test_the_weights_of_domains_are_those_of_equations_8_and_6(collapsed: bool) -> None:
    found = np.zeros((1, 2))
    slots = FIRST, SECOND
    gibbs.domain_weights(UNIT, RUN, OWNER, None, *slots, TAU, PERCEIVED, DIFFERENCE, collapsed, TABLE, found)
    expected = np.zeros(2)
    for m in range(2):
        for r, (i, j) in enumerate(zip(FIRST, SECOND, strict=True)):
            tau, d = TAU[0 if r < 3 else 1, m], PERCEIVED[i] - PERCEIVED[j]
            mean, deviation = math.copysign(d, tau * d) if d else 0.0, math.sqrt(2.0) / abs(tau)
            if collapsed:  # the noisy difference integrated out, numerically
                tail = integrate.quad(lambda v, a=mean, b=deviation: norm.pdf(v, a, b), 0.0, mean + 15 * deviation)[0]
                expected[m] += math.log(tail)
            else:
                expected[m] += norm.logpdf(DIFFERENCE[r], mean, deviation)
    # domains differ by as much: constants are left out
    assert found[0, 0] - found[0, 1] == pytest.approx(expected[0] - expected[1], abs=1e-7)


def test_domains_are_drawn_in_proportion_to_their_weights() -> None:
    weights, domain = np.array([[-1.0, -2.0]]), np.zeros(1, np.int64)
    draws = []
    for key in keys(4000):
        gibbs.draw_domains(HASH, key, weights, np.log(SHARE), domain)
        draws.append(domain[0])
    chance = SHARE * np.exp(weights[0])
    assert np.mean(draws) == pytest.approx(chance[1] / chance.sum(), abs=4.0 * 0.5 / math.sqrt(4000))


@pytest.mark.parametrize("domain", [0, 1])
def test_perceived_scores_are_drawn_from_the_joint_law(domain: int) -> None:
    """The first slot given all else: mean and variance by integrating equation 5 over a grid."""
    m = np.array([domain], np.int64)
    first = []
    for key in keys(4000):
        perceived = PERCEIVED.copy()
        gibbs.draw_perceived(
            HASH, CODES, key, UNIT, OWNER, None, SLOT, NODE, FIRST, SECOND, EDGES, EDGE, TAU, m, SCORE, HARDNESS,
            DIFFERENCE, perceived,
        )  # fmt: skip
        first.append(perceived[0])
    grid = np.linspace(-8.0, 8.0, 20001)
    log = norm.logpdf(grid, SCORE[0], math.sqrt(0.5))
    tau = TAU[0, domain]
    for r in range(3):
        other = PERCEIVED[1]
        d = grid - other if FIRST[r] == 0 else other - grid
        log = log + norm.logpdf(DIFFERENCE[r], np.sign(tau) * d, math.sqrt(2.0) / abs(tau))
    density = np.exp(log - log.max())
    density /= density.sum()
    mean = float(density @ grid)
    deviation = math.sqrt(float(density @ (grid - mean) ** 2))
    assert np.mean(first) == pytest.approx(mean, abs=4.0 * deviation / math.sqrt(4000))
    assert np.std(first) == pytest.approx(deviation, rel=0.05)


def test_later_slots_see_the_new_values_of_earlier_ones() -> None:
    """Given p_1, p_2 is drawn from its conditional: the residual from the conditional mean is uncorrelated with p_1."""
    m, easy, trust = np.array([0], np.int64), 2.0, 0.5 * TAU[0, 0] ** 2
    pairs = []
    for key in keys(3000):
        perceived = PERCEIVED.copy()
        gibbs.draw_perceived(
            HASH, CODES, key, UNIT, OWNER, None, SLOT, NODE, FIRST, SECOND, EDGES, EDGE, TAU, m, SCORE, HARDNESS,
            DIFFERENCE, perceived,
        )  # fmt: skip
        pairs.append(perceived[:2])
    one, two = np.array(pairs).T
    total = (one - DIFFERENCE[0]) + (one - DIFFERENCE[1]) + (one + DIFFERENCE[2])
    residual = two - (easy * SCORE[1] + trust * total) / (easy + 3 * trust)
    assert abs(np.corrcoef(one, residual)[0, 1]) < 4.0 / math.sqrt(3000)
    assert residual.std() == pytest.approx((easy + 3 * trust) ** -0.5, rel=0.05)


def chain(collapsed: bool, sweeps: int) -> Array:
    """The domain after every sweep, with all parameters fixed."""
    perceived, difference, domain = PERCEIVED.copy(), DIFFERENCE.copy(), np.zeros(1, np.int64)
    seen = np.zeros(sweeps)
    for number in range(sweeps):
        key = round_key(11, 0, 0, number, "chain")
        weights = np.zeros((1, 2))
        gibbs.domain_weights(
            UNIT, RUN, OWNER, None, FIRST, SECOND, TAU, perceived, difference, collapsed, TABLE, weights
        )
        gibbs.draw_domains(HASH, key, weights, np.log(SHARE), domain)
        gibbs.draw_differences(
            HASH, CODES, key, UNIT, RUN, OWNER, None, FIRST, SECOND, TAU, domain, perceived, TABLE, difference
        )
        gibbs.draw_perceived(
            HASH, CODES, key, UNIT, OWNER, None, SLOT, NODE, FIRST, SECOND, EDGES, EDGE, TAU, domain, SCORE, HARDNESS,
            difference, perceived,
        )  # fmt: skip
        seen[number] = domain[0]
    return seen


def test_both_samplers_have_the_exact_posterior_of_the_domain_and_one_mixes_better() -> None:
    exact = two_item_domain_posterior(COUNTS, TAU, SHARE, SCORE[0] - SCORE[1], 0.5)
    sweeps = 20_000
    memory = {}
    for collapsed in (False, True):
        seen = chain(collapsed, sweeps)
        lag = float(np.corrcoef(seen[:-1], seen[1:])[0, 1])
        error = math.sqrt(exact[0] * exact[1] / sweeps * (1.0 + lag) / (1.0 - lag))
        assert seen.mean() == pytest.approx(exact[1], abs=4.0 * error)
        memory[collapsed] = lag
    assert memory[True] < 0.5 * memory[False]


def test_derivatives_in_tau_are_those_of_equations_21_and_22() -> None:
    m, step = np.array([1], np.int64), 1e-5

    def value(tau: Array) -> tuple[float, Array, Array]:
        sums = np.zeros(2), np.zeros(2), np.zeros((2, 2)), np.zeros((2, 2))
        given = SLOT, NODE, FIRST, SECOND, tau, m, SCORE, HARDNESS, PERCEIVED, TABLE
        return gibbs.collect(UNIT, RUN, OWNER, None, *given, *sums), sums[2], sums[3]

    _, slope, curvature = value(TAU)
    for place in np.ndindex(2, 2):
        up, down = TAU.copy(), TAU.copy()
        up[place] += step
        down[place] -= step
        high, low = value(up), value(down)
        assert slope[place] == pytest.approx((high[0] - low[0]) / (2 * step), abs=1e-7)
        assert -curvature[place] == pytest.approx((high[1][place] - low[1][place]) / (2 * step), abs=1e-6)
