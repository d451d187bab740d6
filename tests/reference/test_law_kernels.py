"""Tails of the normal distribution, and passes of the laws beside the logistic one, against literal formulas."""

from __future__ import annotations

import math

import literal_variants as literal
import numpy as np
import pytest
from scipy.special import log_ndtr
from test_preference_kernels import shard_with

from distrank.kernels import laws, normal, virtual
from distrank.models._passes import evaluate, evaluate_quality
from distrank.models._priors import believed, room
from distrank.records import Array, Record

STEP = 1e-5
LAWS = {laws.LOGISTIC: literal.LOGISTIC, laws.PROBIT: literal.PROBIT, laws.SCALED: literal.SCALED}
NAMES = {laws.PROBIT: "probit", laws.SCALED: "scaled"}
each_law = pytest.mark.parametrize("law", NAMES, ids=NAMES.values())


def likelihood(shard: Record, score: Array, x: Array, law: int) -> float:
    owner = np.repeat(shard["annotator.code"][shard["pair.owner"]], np.diff(shard["pair.run"]))
    weight = shard.get("pair.weight", np.ones(len(owner)))
    terms = zip(owner, shard["pair.winner"], shard["pair.loser"], weight, strict=True)
    return math.fsum(w * LAWS[law].log_p(float(x[k]), float(score[i]) - float(score[j])) for k, i, j, w in terms)


def test_the_logarithm_of_phi_is_exact_everywhere() -> None:
    points = np.concatenate([np.linspace(-60, 37, 4001), -np.logspace(-300, 150, 901), np.logspace(-300, 1.5, 601)])
    found = np.array([normal.log_cdf(z) for z in points])
    assert found == pytest.approx(log_ndtr(points), rel=1e-12, abs=0.0)
    edge = np.nextafter(-normal.FAR, [-np.inf, np.inf])  # where the series takes over
    assert normal.log_cdf(edge[0]) == pytest.approx(normal.log_cdf(edge[1]), rel=1e-14)
    assert normal.hazard(edge[0]) == pytest.approx(normal.hazard(edge[1]), rel=1e-13)


def test_the_hazard_is_the_derivative_of_the_logarithm() -> None:
    """phi / Phi from logarithms, as far as their difference has digits; far out, its continued fraction."""
    points = np.linspace(-30.0, 30.0, 601)
    expected = np.exp(-0.5 * points**2 - 0.5 * math.log(2.0 * math.pi) - log_ndtr(points))
    assert np.array([normal.hazard(z) for z in points]) == pytest.approx(expected, rel=3e-13, abs=0.0)
    for t in (25.0, 100.0, 1e8):
        fraction = t
        for n in range(60, 0, -1):
            fraction = t + n / fraction
        assert normal.hazard(-t) == pytest.approx(fraction, rel=1e-15)


@each_law
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("spread", [1.0, 30.0, 1e3])
def test_the_likelihood_is_the_literal_one(law: int, weighted: bool, spread: float) -> None:
    rng = np.random.default_rng(1)
    shard = shard_with(1, weighted=weighted)
    score = rng.normal(scale=spread, size=9)
    for x in (rng.random(5), np.array([0.0, 1.0, 0.5, 1e-60, 1.0 - 1e-16]), np.ones(5), np.zeros(5)):
        found = evaluate(shard, score, x, law, curvature=True)
        assert found.objective == pytest.approx(likelihood(shard, score, x, law), rel=1e-12)
        assert found.curvature is not None
        for array in (found.gradient, found.curvature, *found.annotators.values()):
            assert np.isfinite(array).all()
    everyone = evaluate(shard, score, None, law, curvature=False)
    assert everyone.objective == pytest.approx(likelihood(shard, score, np.ones(5), law), rel=1e-12)
    assert everyone.annotators == {}


@each_law
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("spread", [1.5, 60.0])
@pytest.mark.parametrize("equal", [False, True])
def test_the_gradient_is_that_of_the_likelihood(law: int, weighted: bool, spread: float, equal: bool) -> None:
    rng = np.random.default_rng(2)
    shard = shard_with(2, weighted=weighted)
    score, x = rng.normal(scale=spread, size=9), np.ones(5) if equal else rng.beta(5, 2, 5)
    found = evaluate(shard, score, None if equal else x, law, curvature=False)
    expected = literal.climbs(lambda s: likelihood(shard, s, x, law), score)
    assert found.gradient == pytest.approx(expected, rel=1e-6, abs=1e-5)


@each_law
@pytest.mark.parametrize("weighted", [False, True])
def test_the_derivatives_in_the_parameters_are_those_of_the_likelihood(law: int, weighted: bool) -> None:
    rng = np.random.default_rng(3)
    shard = shard_with(3, weighted=weighted)
    score, x = rng.normal(scale=1.5, size=9), rng.beta(5, 2, 5)
    found = evaluate(shard, score, x, law, curvature=False).annotators
    here = likelihood(shard, score, x, law)
    for k, step in enumerate(STEP * np.eye(5)):
        above, below = likelihood(shard, score, x + step, law), likelihood(shard, score, x - step, law)
        assert found["annotator/first"][k] == pytest.approx((above - below) / (2 * STEP), rel=1e-6)
        assert found["annotator/second"][k] == pytest.approx(-(above - 2 * here + below) / STEP**2, rel=1e-3)
    for name, column in evaluate_quality(shard, score, x, law).items():
        assert column.tobytes() == found[name].tobytes()


@each_law
@pytest.mark.parametrize("weighted", [False, True])
def test_the_curvature_is_the_expected_square_of_the_score_function(law: int, weighted: bool) -> None:
    rng = np.random.default_rng(4)
    shard = shard_with(4, weighted=weighted)
    score, x = rng.normal(scale=1.5, size=9), rng.beta(5, 2, 5)
    expected, log_p = np.zeros(9), LAWS[law].log_p
    owner = np.repeat(shard["annotator.code"][shard["pair.owner"]], np.diff(shard["pair.run"]))
    for r, k in enumerate(owner):
        i, j = int(shard["pair.winner"][r]), int(shard["pair.loser"][r])
        for d in (score[i] - score[j], score[j] - score[i]):  # both possible reports
            slope = (log_p(x[k], d + STEP) - log_p(x[k], d - STEP)) / (2 * STEP)
            expected[[i, j]] += math.exp(log_p(x[k], d)) * slope**2 * (shard["pair.weight"][r] if weighted else 1.0)
    assert evaluate(shard, score, x, law, curvature=True).curvature == pytest.approx(expected, rel=1e-7)


def test_virtual_games_follow_the_link() -> None:
    score = np.array([0.0, 1e-9, -0.3, 2.0, -20.0, 55.0, -1e4])
    gradient, curvature = np.zeros(7), np.zeros(7)
    value = virtual.virtual_games(score, 0.7, laws.PROBIT, gradient)
    virtual.virtual_information(score, 0.7, laws.PROBIT, curvature)

    def games(s: Array) -> float:
        return 0.7 * math.fsum(literal.log_phi(x) + literal.log_phi(-x) for x in s.tolist())

    assert value == pytest.approx(games(score), rel=1e-13)
    for i in range(7):
        step = STEP * max(1.0, abs(score[i]))
        shifts = [np.array([score[i] + h * step]) for h in (-1, 0, 1)]
        below, here, above = (games(x) for x in shifts)
        assert gradient[i] == pytest.approx((above - below) / (2 * step), rel=1e-6, abs=1e-9)
        slopes = [np.zeros(1), np.zeros(1)]
        for x, slope in zip((shifts[0], shifts[2]), slopes, strict=True):
            virtual.virtual_games(x, 0.7, laws.PROBIT, slope)
        assert curvature[i] == pytest.approx(float(slopes[0][0] - slopes[1][0]) / (2 * step), rel=1e-5)
        assert here <= 0.0


def test_units_are_centred_by_the_games_of_the_link() -> None:
    rng = np.random.default_rng(7)
    score = np.concatenate([rng.normal(size=5) + 0.3, rng.normal(size=4) - 700.0, [-30.0, -29.0, 40.0, 42.0]])
    unit = np.array([0, 5, 9, 13])
    virtual.centre(score, unit, laws.PROBIT)
    gradient = np.zeros(13)
    virtual.virtual_games(score, 1.0, laws.PROBIT, gradient)
    assert np.add.reduceat(gradient, unit[:-1]) == pytest.approx([0.0, 0.0, 0.0], abs=1e-6)


@pytest.mark.parametrize(
    ("prior", "term"),
    [((3.0, 0.5, 0.0), literal.beta_prior(4.0, 1.5)), ((2.0, 0.0, 2.0), literal.gamma_prior(2.0))],
    ids=["beta", "gamma"],
)
def test_the_prior_and_its_derivatives(prior: tuple[float, ...], term: literal.Prior) -> None:
    x = np.array([0.02, 0.4, 0.97])
    total, first, second = believed(np.array(prior), x)
    assert total == pytest.approx(math.fsum(term(v) for v in x), rel=1e-13)
    for k, v in enumerate(x.tolist()):
        above, below = believed(np.array(prior), np.array([v + 1e-6])), believed(np.array(prior), np.array([v - 1e-6]))
        assert first[k] == pytest.approx((above.total - below.total) / 2e-6, rel=1e-5)
        assert second[k] == pytest.approx(-(above.first[0] - below.first[0]) / 2e-6, rel=1e-5)


def test_bounds_without_a_prior_against_them_can_be_reached_and_others_cannot() -> None:
    x = np.array([0.0, 0.5, 1.0])
    assert believed(np.zeros(3), x).total == 0.0
    assert [part.tolist() for part in room(None, x, 1.0)] == [[0.0, -0.5, -1.0], [1.0, 0.5, 0.0]]
    down, up = room(np.array([1.0, 1.0, 0.0]), x[1:2], 1.0)
    assert -0.5 < down[0] < up[0] < 0.5
    assert room(np.array([1.0, 0.0, 1.0]), x[1:2], math.inf)[1].tolist() == [math.inf]
