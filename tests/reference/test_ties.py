"""Ties as an outcome of their own: Davidson's model written down outcome by outcome."""

from __future__ import annotations

import math
from dataclasses import replace

import literal_variants as literal
import numpy as np
import pytest
from literal_pairwise import Crowd, crowd, log_sigma
from pairwise_fits import fitted

from distrank.errors import UsageError
from distrank.kernels import ties
from distrank.models import make_model
from distrank.records import Array

TIGHT = {"tolerance": 1e-22}
LAMBDA = 0.5


def tied_crowd(seed: int, nu: float, **shape: int) -> Crowd:
    """A crowd whose pairs are tied by Davidson's law."""
    data = crowd(seed, **shape)
    d = data.true_score[data.winner] - data.true_score[data.loser]
    chance = nu / (np.exp(d / 2) + np.exp(-d / 2) + nu)
    return replace(data, tie=np.random.default_rng(seed + 1).random(len(d)) < chance)


SMALL = tied_crowd(3, 1.2, items=6, annotators=4, rows=240)
WEIGHED = replace(SMALL, weight=np.random.default_rng(2).choice([0.0, 0.5, 1.0, 2.5], 240))


def log_outcome(eta: float, d: float, log_nu: float, tied: bool) -> float:
    """Davidson's three outcomes; quality turns the two orders around and leaves ties alone."""
    above, below, even = math.exp(0.5 * d), math.exp(-0.5 * d), math.exp(log_nu)
    return math.log((even if tied else eta * above + (1.0 - eta) * below) / (above + below + even))


def objective(data: Crowd, s: Array, eta: Array, log_nu: float) -> float:
    assert data.tie is not None
    weight = np.ones(len(data.winner)) if data.weight is None else data.weight
    rows = math.fsum(
        float(weight[r])
        * log_outcome(
            float(eta[data.annotator[r]]), float(s[data.winner[r]] - s[data.loser[r]]), log_nu, bool(data.tie[r])
        )
        for r in range(len(weight))
        if weight[r] > 0
    )
    return rows + LAMBDA * math.fsum(log_sigma(float(v)) + log_sigma(-float(v)) for v in [*s, log_nu])


@pytest.mark.parametrize("cut", [250_000, 50], ids=["whole", "split"])
@pytest.mark.parametrize("data", [SMALL, WEIGHED], ids=["plain", "weights"])
@pytest.mark.parametrize("name", ["bradley-terry", "crowd-bt"])
def test_the_optimum_is_that_of_the_literal_objective(name: str, data: Crowd, cut: int) -> None:
    found = fitted(data, name, ties="davidson", rows_per_shard=cut, **TIGHT)
    n, free = data.items, name == "crowd-bt"
    quality = found.annotators["quality"] if free else np.ones(data.annotators)
    log_nu = found.model.diagnosis(found.fit.theta)["log_nu"]

    def value(x: Array) -> float:
        return objective(data, x[:n], quality if not free else x[n:-1], float(x[-1]))

    at = np.concatenate([found.score, quality if free else [], [log_nu]])
    slope = literal.climbs(value, at)
    if free:  # a quality at its bound may still want to go on
        inside = (quality > 1e-9) & (quality < 1.0 - 1e-9)
        assert inside.any()
        slope[n:-1][~inside] = 0.0
    assert found.fit.converged
    assert found.objective == pytest.approx(value(at), rel=1e-13)
    assert slope == pytest.approx(np.zeros(len(at)), abs=2e-6)


def test_the_share_of_ties_is_recovered() -> None:
    data = tied_crowd(5, 0.7, items=30, annotators=40, rows=40_000)
    found = fitted(data, "crowd-bt", ties="davidson")
    assert found.model.diagnosis(found.fit.theta)["log_nu"] == pytest.approx(math.log(0.7), abs=0.05)
    assert np.corrcoef(found.score, data.true_score)[0, 1] > 0.99


def test_ties_say_that_items_are_even() -> None:
    """A pair that is always tied comes out even nearer than by half wins, which know nothing of how often it is."""
    one = Crowd(*(np.zeros(12, np.int64),) * 2, np.array([0] * 4 + [0] * 8), np.array([1] * 4 + [2] * 8), 3, 1)
    data = replace(one, tie=np.array([False, True, True, True] + [False] * 8))
    scores = {kind: fitted(data, "bradley-terry", ties=kind).score for kind in ("half", "drop", "davidson")}
    gaps = {kind: score[0] - score[1] for kind, score in scores.items()}
    assert 0.0 < gaps["half"] < gaps["drop"]
    assert 0.0 < gaps["davidson"] < gaps["drop"]


def test_without_ties_the_scores_are_nearly_those_of_the_plain_model() -> None:
    data = crowd(8)
    plain, with_ties = fitted(data, "crowd-bt"), fitted(data, "crowd-bt", ties="davidson")
    assert with_ties.model.diagnosis(with_ties.fit.theta)["log_nu"] < -4.0
    assert with_ties.score == pytest.approx(plain.score, abs=0.02)


@pytest.mark.parametrize("difference", [-800.0, -3.0, 0.0, 1e-9, 5.0, 800.0])
@pytest.mark.parametrize("log_nu", [-20.0, 0.3, 20.0])
@pytest.mark.parametrize("tied", [False, True])
def test_derivatives_at_scores_of_any_size(difference: float, log_nu: float, tied: bool) -> None:
    one, other = np.zeros(1, np.uint32), np.ones(1, np.uint32)

    def value(x: Array) -> float:
        return float(
            ties.log_likelihood(one, other, None, np.array([x[0], 0.0]), float(x[1]), tied, np.zeros(2), None)[0]
        )

    gradient, diagonal = np.zeros(2), np.zeros(2)
    found = ties.log_likelihood(one, other, None, np.array([difference, 0.0]), log_nu, tied, gradient, diagonal)
    slope = literal.climbs(value, np.array([difference, log_nu]))
    assert np.isfinite(found).all()
    assert [gradient[0], found[1]] == pytest.approx(slope, abs=1e-6)
    assert gradient[1] == -gradient[0]
    assert found[2] >= 0.0
    assert (diagonal >= 0.0).all()


def test_votes_have_no_tie_model() -> None:
    with pytest.raises(UsageError, match="one of half, drop"):
        make_model("majority-bt", {"ties": "davidson"})
