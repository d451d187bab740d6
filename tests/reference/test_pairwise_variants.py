"""The variants of Crowd-BT against literal objectives: Beta prior, probit link, majority votes, annotators' scales."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import literal_variants as literal
import numpy as np
import pytest
from literal_pairwise import Crowd, crowd
from pairwise_fits import Fitted, fitted

from distrank.errors import UsageError
from distrank.records import Array

TIGHT = {"tolerance": 1e-22}
SMALL = crowd(3, items=6, annotators=4, rows=240)
WEIGHED = replace(
    SMALL,
    tie=np.random.default_rng(1).random(240) < 0.15,
    weight=np.random.default_rng(2).choice([0.0, 0.5, 1.0, 2.5], 240),
)
# method, settings, law, prior, start of the annotators' parameter and its upper bound
VARIANTS: dict[str, tuple[str, dict[str, Any], literal.Law, literal.Prior, float, float]] = {
    "beta prior": ("crowd-bt", {"quality_prior": "4,2"}, literal.LOGISTIC, literal.beta_prior(4, 2), 0.99, 1.0),
    "probit": ("thurstone", {"quality_prior": (3, 1.5)}, literal.PROBIT, literal.beta_prior(3, 1.5), 0.99, 1.0),
    "scale": ("variance-bt", {"scale_prior": 0.7}, literal.SCALED, literal.gamma_prior(0.7), 1.0, 100.0),
}


def parameter(found: Fitted) -> Array:
    return found.annotators.get("scale", found.annotators["quality"])


@pytest.mark.parametrize("cut", [250_000, 50])
@pytest.mark.parametrize("data", [SMALL, WEIGHED], ids=["plain", "weights and ties"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_optimum_is_that_of_the_literal_objective(variant: str, data: Crowd, cut: int) -> None:
    name, settings, law, prior, start, upper = VARIANTS[variant]
    found = fitted(data, name, rows_per_shard=cut, **settings, **TIGHT)
    at, n = np.append(found.score, parameter(found)), data.items

    def objective(x: Array) -> float:
        return literal.objective(data, x[:n], x[n:], law, 0.5, prior)

    assert found.fit.converged
    assert found.objective == pytest.approx(objective(at), rel=1e-13)
    assert literal.climbs(objective, at) == pytest.approx(np.zeros(len(at)), abs=1e-6)
    if cut > len(data.winner):
        score, x = literal.maximum(data, law, 0.5, prior, start, upper)
        assert found.score == pytest.approx(score, abs=1e-4)
        assert parameter(found) == pytest.approx(x, abs=1e-4)


def test_equal_quality_is_plain_thurstone() -> None:
    found = fitted(SMALL, "thurstone", annotator_quality="equal", **TIGHT)

    def objective(s: Array) -> float:
        return literal.objective(SMALL, s, np.ones(SMALL.annotators), literal.PROBIT, 0.5)

    assert found.objective == pytest.approx(objective(found.score), rel=1e-13)
    assert literal.climbs(objective, found.score) == pytest.approx(np.zeros(SMALL.items), abs=1e-6)


@pytest.mark.parametrize("name", ["crowd-bt", "thurstone"])
def test_the_mirror_image_belongs_to_the_mirrored_prior(name: str) -> None:
    data = crowd(9)
    truth = fitted(data, name, quality_prior="5,2", start="gold", gold=data.true_score, **TIGHT)
    mirror = fitted(data, name, quality_prior="2,5", start="gold", gold=-data.true_score, **TIGHT)
    assert mirror.score == pytest.approx(-truth.score, abs=1e-7)
    assert mirror.annotators["quality"] == pytest.approx(1.0 - truth.annotators["quality"], abs=1e-7)
    assert mirror.objective == pytest.approx(truth.objective, rel=1e-13)


def test_three_judgments_do_not_make_a_perfect_annotator() -> None:
    """Annotator 7 agrees three times with everyone, annotator 8 never judged: the prior speaks for both."""
    data, best = crowd(11, a=9, b=1), int(np.argmax(crowd(11, a=9, b=1).true_score))
    others = [i for i in range(data.items) if i != best][:3]
    added = {"query": [0] * 3, "annotator": [7] * 3, "winner": [best] * 3, "loser": others}
    columns = {column: np.append(getattr(data, column), values) for column, values in added.items()}
    data = replace(data, annotators=9, **columns)
    alone, believed = fitted(data, "crowd-bt"), fitted(data, "crowd-bt", quality_prior="5,2")
    assert alone.annotators["quality"][7:].tolist() == [1.0, 1.0]
    assert 0.8 < believed.annotators["quality"][7] < 0.95
    assert believed.annotators["quality"][8] == pytest.approx(4 / 5, abs=1e-9)


def test_a_flat_prior_changes_nothing_and_a_prior_needs_something_to_estimate() -> None:
    flat, none = fitted(SMALL, "crowd-bt", quality_prior="1,1"), fitted(SMALL, "crowd-bt", quality_prior="none")
    assert flat.score.tobytes() == none.score.tobytes()
    with pytest.raises(UsageError, match="at least 1"):
        fitted(SMALL, "crowd-bt", quality_prior="0.5,2")
    with pytest.raises(UsageError, match="annotator_quality=estimate"):
        fitted(SMALL, "crowd-bt", quality_prior="2,2", annotator_quality="equal")


@pytest.mark.parametrize("name", ["crowd-bt", "thurstone", "variance-bt"])
def test_scores_and_annotators_are_recovered(name: str) -> None:
    data = crowd(12, items=30, annotators=20, rows=12_000)
    found = fitted(data, name)
    assert np.corrcoef(found.score, data.true_score)[0, 1] > 0.95
    assert np.corrcoef(parameter(found), data.true_quality)[0, 1] > (0.8 if name == "variance-bt" else 0.95)


def test_a_scale_cannot_tell_a_liar_from_a_guesser() -> None:
    data, rng = crowd(13, items=10, annotators=8, rows=4000, a=30, b=1), np.random.default_rng(1)
    turned = (data.annotator == 0) | ((data.annotator == 1) & (rng.random(4000) < 0.5))
    winner, loser = np.where(turned, [data.loser, data.winner], [data.winner, data.loser])
    data = replace(data, winner=winner, loser=loser)
    scale, quality = fitted(data, "variance-bt").annotators["scale"], fitted(data, "crowd-bt").annotators["quality"]
    assert scale[:2].max() < 0.25 * scale[2:].min()  # 500 coin flips have a scale of about 0.1 by chance
    assert quality[0] < 0.1
    assert 0.35 < quality[1] < 0.65


@pytest.mark.parametrize("cut", [250_000, 60])
def test_a_majority_is_one_judgment(cut: int) -> None:
    """The votes counted literally, handed to bradley-terry as rows of one annotator."""
    data = crowd(14, queries=3, items=6, rows=200)
    data = replace(data, tie=np.arange(200) % 7 == 0, weight=np.random.default_rng(3).choice([0.0, 0.5, 1.0, 2.5], 200))
    lead: dict[tuple[int, int], float] = {}
    for _, i, j, w in data.wins():
        if w > 0.0:
            lead[min(i, j), max(i, j)] = lead.get((min(i, j), max(i, j)), 0.0) + (w if i < j else -w)
    pairs = np.array([(i, j) if margin >= 0.0 else (j, i) for (i, j), margin in lead.items()])
    even = np.array([margin == 0.0 for margin in lead.values()])
    assert even.any()
    votes = Crowd(pairs[:, 0] // 6, np.zeros(len(pairs), int), pairs[:, 0], pairs[:, 1], data.items, 1, tie=even)
    found, expected = fitted(data, "majority-bt", rows_per_shard=cut, **TIGHT), fitted(votes, "bradley-terry", **TIGHT)
    assert found.score == pytest.approx(expected.score, abs=1e-9)
    assert found.objective == pytest.approx(expected.objective, rel=1e-12)
    agreed, total = np.zeros(data.annotators), np.zeros(data.annotators)
    for k, i, j, w in data.wins():
        agreed[k] += w * (0.5 if abs(found.score[i] - found.score[j]) < 1e-9 else found.score[i] > found.score[j])
        total[k] += w
    assert found.annotators["quality"] == pytest.approx(agreed / total, rel=1e-12)
