"""The passes over preferences, against the formulas written down literally and against finite differences."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from literal_pairwise import log_probability, log_sigma

from distrank.kernels import lbfgs, virtual
from distrank.kernels.laws import LOGISTIC
from distrank.models._pairwise import prepared
from distrank.models._passes import evaluate, evaluate_quality
from distrank.records import Array, Record

STEP = 1e-5


def shard_with(seed: int, *, items: int = 9, annotators: int = 5, rows: int = 120, weighted: bool = False) -> Record:
    """A shard as a step sees it, of random preferences."""
    rng = np.random.default_rng(seed)
    winner = rng.integers(items, size=rows)
    shard: Record = {
        "unit.rows": np.array([0, rows]),
        "unit.nodes": np.array([0, items]),
        "row.annotator": np.sort(rng.integers(annotators, size=rows)).astype(np.uint32),
        "row.winner": winner.astype(np.uint32),
        "row.loser": ((winner + rng.integers(1, items, size=rows)) % items).astype(np.uint32),
    }
    if weighted:
        shard["row.weight"] = rng.gamma(2.0, 0.7, rows)
    return prepared(shard, ties="half")


def literal(shard: Record, score: Array, eta: Array) -> float:
    """Equation 6, one preference after the other."""
    owner = np.repeat(shard["annotator.code"][shard["pair.owner"]], np.diff(shard["pair.run"]))
    weight = shard.get("pair.weight", np.ones(len(owner)))
    terms = zip(owner, shard["pair.winner"], shard["pair.loser"], weight, strict=True)
    return math.fsum(w * log_probability(float(eta[k]), float(score[i]) - float(score[j])) for k, i, j, w in terms)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("spread", [1.0, 30.0, 1e3])
def test_the_likelihood_is_equation_6(weighted: bool, spread: float) -> None:
    rng = np.random.default_rng(1)
    shard = shard_with(1, weighted=weighted)
    score = rng.normal(scale=spread, size=9)
    for eta in (rng.random(5), np.array([0.0, 1.0, 0.5, 1e-60, 1.0 - 1e-16]), np.ones(5), np.zeros(5)):
        found = evaluate(shard, score, eta, LOGISTIC, curvature=True)
        assert found.objective == pytest.approx(literal(shard, score, eta), rel=1e-13)
        assert np.isfinite(found.gradient).all()
        assert found.curvature is not None
        assert np.isfinite(found.curvature).all()
        assert all(np.isfinite(array).all() for array in found.annotators.values())
    everyone = evaluate(shard, score, None, LOGISTIC, curvature=False)
    assert everyone.objective == pytest.approx(literal(shard, score, np.ones(5)), rel=1e-13)
    assert everyone.annotators == {}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("spread", [1.5, 120.0])
@pytest.mark.parametrize("trusted", [False, True])
def test_the_gradient_is_that_of_the_likelihood(weighted: bool, spread: float, trusted: bool) -> None:
    rng = np.random.default_rng(2)
    shard = shard_with(2, weighted=weighted)
    score, eta = rng.normal(scale=spread, size=9), rng.beta(5, 2, 5)
    found = evaluate(shard, score, None if trusted else eta, LOGISTIC, curvature=False)
    for item in range(9):
        up, down = score.copy(), score.copy()
        up[item] += STEP
        down[item] -= STEP
        quality = np.ones(5) if trusted else eta
        difference = (literal(shard, up, quality) - literal(shard, down, quality)) / (2 * STEP)
        assert found.gradient[item] == pytest.approx(difference, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_derivatives_in_quality_are_those_of_the_likelihood(weighted: bool) -> None:
    rng = np.random.default_rng(3)
    shard = shard_with(3, weighted=weighted)
    score, eta = rng.normal(scale=1.5, size=9), rng.beta(5, 2, 5)
    found, alone = (
        evaluate(shard, score, eta, LOGISTIC, curvature=False).annotators,
        evaluate_quality(shard, score, eta, LOGISTIC),
    )
    for k in range(5):
        up, down = eta.copy(), eta.copy()
        up[k] += STEP
        down[k] -= STEP
        above, here, below = literal(shard, score, up), literal(shard, score, eta), literal(shard, score, down)
        assert found["annotator/first"][k] == pytest.approx((above - below) / (2 * STEP), rel=1e-6)
        assert found["annotator/second"][k] == pytest.approx(-(above - 2 * here + below) / STEP**2, rel=1e-3)
        assert alone["annotator/first"][k] == pytest.approx(found["annotator/first"][k], rel=1e-12)
        assert alone["annotator/second"][k] == pytest.approx(found["annotator/second"][k], rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_curvature_is_the_expected_square_of_the_score_function(weighted: bool) -> None:
    """Fisher information: the mean over both possible reports of the squared derivative of log p."""
    rng = np.random.default_rng(4)
    shard = shard_with(4, weighted=weighted)
    score, eta = rng.normal(scale=1.5, size=9), rng.beta(5, 2, 5)
    expected = np.zeros(9)
    owner = np.repeat(shard["annotator.code"][shard["pair.owner"]], np.diff(shard["pair.run"]))
    for r, k in enumerate(owner):
        i, j = int(shard["pair.winner"][r]), int(shard["pair.loser"][r])
        d, quality = score[i] - score[j], float(eta[k])
        information = 0.0
        for sign in (1.0, -1.0):  # i over j, and j over i
            up, down = log_probability(quality, sign * (d + STEP)), log_probability(quality, sign * (d - STEP))
            information += math.exp(log_probability(quality, sign * d)) * ((up - down) / (2 * STEP)) ** 2
        expected[[i, j]] += information * (shard["pair.weight"][r] if weighted else 1.0)
    found = evaluate(shard, score, eta, LOGISTIC, curvature=True).curvature
    assert found == pytest.approx(expected, rel=1e-7)


def test_tables_and_pairs_of_odds_agree() -> None:
    """One score beyond the table takes every preference of the shard pair by pair: nothing else may change."""
    rng = np.random.default_rng(5)
    shard = shard_with(5)
    shard["unit.nodes"] = np.array([0, 10])  # and an item that nobody compared
    score, eta = np.append(rng.normal(scale=2.0, size=9), 0.0), rng.beta(5, 2, 5)
    table = evaluate(shard, score, eta, LOGISTIC, curvature=True)
    score[9] = 1e6
    pairs = evaluate(shard, score, eta, LOGISTIC, curvature=True)
    assert pairs.objective == pytest.approx(table.objective, rel=1e-14)
    assert pairs.gradient == pytest.approx(table.gradient, rel=1e-11, abs=1e-12)
    assert pairs.curvature == pytest.approx(table.curvature, rel=1e-11)
    for name in ("annotator/first", "annotator/second"):
        assert pairs.annotators[name] == pytest.approx(table.annotators[name], rel=1e-11)
        assert evaluate_quality(shard, score, eta, LOGISTIC)[name] == pytest.approx(table.annotators[name], rel=1e-11)


def test_virtual_games_are_the_regulariser_of_section_3_2() -> None:
    score = np.array([0.0, 1e-9, -0.3, 2.0, -40.0, 99.0, -101.0, 1e5])
    gradient, curvature = np.zeros(8), np.zeros(8)
    value = virtual.virtual_games(score, 0.7, LOGISTIC, gradient)
    virtual.virtual_information(score, 0.7, LOGISTIC, curvature)
    assert value == pytest.approx(0.7 * math.fsum(log_sigma(x) + log_sigma(-x) for x in score.tolist()), rel=1e-14)
    assert gradient == pytest.approx(-0.7 * np.tanh(0.5 * score), rel=1e-12, abs=1e-16)
    for i, x in enumerate(score.tolist()):
        slope = [-0.7 * math.tanh(0.5 * (x + h)) for h in (-STEP, STEP)]
        assert curvature[i] == pytest.approx((slope[0] - slope[1]) / (2 * STEP), rel=1e-6, abs=1e-10)


def test_centred_units_have_nothing_to_gain_from_a_shift() -> None:
    """Every unit on its own, also one without items, one far away and one of two distant halves."""
    rng = np.random.default_rng(7)
    parts = [
        rng.normal(size=5) + 0.3,
        np.zeros(0),
        rng.normal(size=4) - 700.0,
        np.array([-300.0, -299.0, 400.0, 401.0]),
    ]
    unit = np.cumsum([0, *map(len, parts)])
    score = np.concatenate(parts)
    before = score.copy()
    virtual.centre(score, unit, LOGISTIC)
    for begin, end in pairwise(unit.tolist()):
        shift = score[begin:end] - before[begin:end]
        assert shift == pytest.approx(shift[:1].repeat(end - begin), abs=1e-10)
        assert np.tanh(0.5 * score[begin:end]).sum() == pytest.approx(0.0, abs=1e-6)


def test_the_direction_is_that_of_the_dense_update() -> None:
    """The coefficients against the BFGS formula on whole matrices; pairs without positive curvature are left out."""
    rng = np.random.default_rng(6)
    m, n = lbfgs.PAIRS, 37
    steps = rng.normal(size=(m, n))
    changes = steps * rng.uniform(0.5, 3.0, n) + 0.1 * rng.normal(size=(m, n))
    changes[2] = -changes[2]
    gradient, inverse = rng.normal(size=n), rng.uniform(0.5, 2.0, n)
    points = np.vstack([np.zeros(n), np.cumsum(steps, axis=0)])
    gradients = gradient + np.vstack([np.cumsum(changes[::-1], axis=0)[::-1], np.zeros(n)])
    path = (*points, *gradients)
    products = lbfgs.inner_products(path, inverse)
    for usable in range(m + 1):
        matrix = np.diag(inverse)
        pairs = [i for i in range(m - usable, m) if i != 2]
        if pairs:
            s, y = steps[pairs[-1]], changes[pairs[-1]]
            matrix = matrix * (s @ y) / (y @ matrix @ y)
        for i in pairs:
            s, y = steps[i], changes[i]
            left = np.eye(n) - np.outer(s, y) / (s @ y)
            matrix = left @ matrix @ left.T + np.outer(s, s) / (s @ y)
        coefficients, slope = lbfgs.direction(products, usable)
        moved = lbfgs.moved(path, inverse, coefficients, 1e9) - points[-1]
        assert moved == pytest.approx(matrix @ gradient, rel=1e-10, abs=1e-12)
        assert slope == pytest.approx(gradient @ matrix @ gradient, rel=1e-10)


def test_no_entry_moves_too_far() -> None:
    path = (*([np.ones(3)] * (lbfgs.PAIRS + 1)), *([np.array([0.5, -7.0, 9.0])] * (lbfgs.PAIRS + 1)))
    coefficients, _ = lbfgs.direction(lbfgs.inner_products(path, np.ones(3)), 0)
    assert lbfgs.moved(path, np.ones(3), coefficients, 2.0).tolist() == [1.5, -1.0, 3.0]
