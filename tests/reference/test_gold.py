"""What gold decides: the start, the sign and, where asked, the strength of the regularisation."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from literal_pairwise import Crowd, crowd
from pairwise_fits import Fitted, fitted, shards_of

from distrank.errors import InputError, UsageError
from distrank.models import make_model
from distrank.models._selection import STRENGTHS
from distrank.records import Array, digest
from distrank.tables.gold import GoldPairs, gold_from_frame
from distrank.tables.gold_lookup import unknown_items
from distrank.tables.shards import build_shards

CUTS = pytest.mark.parametrize("cut", [250_000, 60], ids=["whole", "split"])
HONEST, LYING = crowd(21, queries=2, items=10, annotators=9), crowd(22, queries=2, items=10, annotators=9, a=1, b=4)


def grades(data: Crowd, known: int = 4) -> Array:
    """The true scores of the first items of every query, and nothing about the rest."""
    some = np.arange(data.items) % (data.items // 2) < known
    return np.where(some, data.true_score, np.nan)


def pairs_of(data: Crowd, gold: Array) -> GoldPairs:
    """The same gold, pair by pair."""
    query = np.arange(data.items) // (data.items // 2)
    rows = [
        (int(query[i]), *((i, j) if gold[i] > gold[j] else (j, i)))
        for i, j in combinations(np.flatnonzero(~np.isnan(gold)).tolist(), 2)
        if query[i] == query[j]
    ]
    found = gold_from_frame(pa.table(dict(zip(("query", "winner", "loser"), zip(*rows, strict=True), strict=True))))
    assert isinstance(found, GoldPairs)
    return found


def with_pairs(data: Crowd, name: str, cut: int, **settings: Any) -> Fitted:
    sharded = build_shards(data.judgments(), form="preferences", gold=pairs_of(data, grades(data)), rows_per_shard=cut)
    return fitted(sharded, name, **settings)


def agreeing(score: Array, data: Crowd, gold: Array) -> int:
    query = np.arange(data.items) // (data.items // 2)
    known = np.flatnonzero(~np.isnan(gold))
    return sum(
        (score[i] - score[j]) * (gold[i] - gold[j]) > 0
        for i, j in combinations(known.tolist(), 2)
        if query[i] == query[j]
    )


@CUTS
@pytest.mark.parametrize("data", [HONEST, LYING], ids=["honest", "lying"])
@pytest.mark.parametrize("start", ["ones", "gold"])
def test_pairs_say_the_same_as_the_grades_they_come_from(data: Crowd, start: str, cut: int) -> None:
    by_grade = fitted(data, "crowd-bt", start=start, gold=grades(data), rows_per_shard=cut)
    by_pair = with_pairs(data, "crowd-bt", cut, start=start)
    assert digest([by_grade.fit.theta]) == digest([by_pair.fit.theta])
    assert (by_grade.score == by_pair.score).all()


@CUTS
@pytest.mark.parametrize("name", ["crowd-bt", "thurstone"])
def test_gold_decides_the_sign(name: str, cut: int) -> None:
    """Most annotators lie: without gold the scores come out reversed, with gold they do not, and nothing else moves."""
    blind = fitted(LYING, name, rows_per_shard=cut)
    seeing = fitted(LYING, name, gold=grades(LYING), rows_per_shard=cut)
    assert np.corrcoef(blind.score, LYING.true_score)[0, 1] < -0.8
    assert (seeing.score == -blind.score).all()
    assert (seeing.annotators["quality"] == 1.0 - blind.annotators["quality"]).all()
    assert seeing.objective == blind.objective
    assert seeing.annotators["agreement"] == pytest.approx(1.0 - blind.annotators["agreement"], abs=1e-12)
    said = seeing.model.diagnosis(seeing.fit.theta)["gold"]
    assert said["reversed"]
    assert said["right"] == agreeing(seeing.score, LYING, grades(LYING))
    assert said["right"] + said["wrong"] == said["pairs"] == 12
    assert any(
        "gold turned the rankings around" in text for text in seeing.model.warnings(seeing.fit.theta, seeing.info)
    )
    assert not any("honest" in text for text in seeing.model.warnings(seeing.fit.theta, seeing.info))
    assert any("honest" in text for text in blind.model.warnings(blind.fit.theta, blind.info))


def test_gold_that_agrees_changes_nothing() -> None:
    blind, seeing = fitted(HONEST, "crowd-bt"), fitted(HONEST, "crowd-bt", gold=grades(HONEST))
    assert (seeing.score == blind.score).all()
    assert not seeing.model.diagnosis(seeing.fit.theta)["gold"]["reversed"]


@pytest.mark.parametrize("name", ["bradley-terry", "variance-bt", "majority-bt"])
def test_a_model_without_a_mirror_image_says_that_gold_disagrees(name: str) -> None:
    found = fitted(LYING, name, gold=grades(LYING))
    assert any("in the opposite order" in text for text in found.model.warnings(found.fit.theta, found.info))
    assert np.corrcoef(found.score, LYING.true_score)[0, 1] < 0.0


@pytest.mark.parametrize("prior", ["4,2", "3,3"])
def test_only_a_symmetric_prior_can_be_turned_around(prior: str) -> None:
    model = make_model("crowd-bt", {"quality_prior": prior})
    assert model.mirrors == (prior == "3,3")  # type: ignore[attr-defined]


@CUTS
@pytest.mark.parametrize("name", ["bradley-terry", "crowd-bt", "variance-bt"])
def test_the_chosen_settings_by_themselves_give_the_same_result(name: str, cut: int) -> None:
    gold = grades(LYING, 6)
    automatic = fitted(LYING, name, regularization="auto", gold=gold, rows_per_shard=cut)
    chosen = automatic.model.diagnosis(automatic.fit.theta)["chosen"]
    plain = fitted(LYING, name, **chosen, gold=gold, rows_per_shard=cut)
    assert automatic.fit.converged
    assert (automatic.score == plain.score).all()
    assert (automatic.annotators["quality"] == plain.annotators["quality"]).all()
    starts = ("ones", "gold") if name == "crowd-bt" else (None,)
    best = max(
        agreeing(fit.score, LYING, gold)
        for start in starts
        for strength in STRENGTHS
        for fit in [fitted(LYING, name, regularization=strength, gold=gold, **({"start": start} if start else {}))]
    )
    assert agreeing(automatic.score, LYING, gold) == best


def test_a_sparse_crowd_takes_another_strength_than_the_default() -> None:
    """Among equals the default stays; where gold sees a difference it does not."""
    data = crowd(6, queries=2, items=40, annotators=30, rows=160)
    strengths = {
        known: fitted(data, "bradley-terry", regularization="auto", gold=grades(data, known)).fit.theta["strength"]
        for known in (2, 40)
    }
    assert strengths[2] == 0.5
    assert strengths[40] != 0.5


def test_choosing_needs_gold() -> None:
    with pytest.raises(UsageError, match="regularization='auto' needs a gold table"):
        fitted(HONEST, "bradley-terry", regularization="auto")


def test_the_start_does_not_matter_beyond_the_mirror() -> None:
    """From ones, from the truth and from its opposite: one optimum and its mirror image."""
    data = crowd(23, items=10, annotators=8, rows=900)
    tight = {"tolerance": 1e-20}
    ones = fitted(data, "crowd-bt", **tight)
    for gold, sign in ((data.true_score, 1.0), (-data.true_score, -1.0)):
        other = fitted(data, "crowd-bt", start="gold", gold=gold, **tight)
        assert other.objective == pytest.approx(ones.objective, rel=1e-13)
        assert other.score == pytest.approx(sign * ones.score, abs=1e-6)


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ({"winner": ["a", "b"], "loser": ["b", "a"]}, "the pair 'a' and 'b' in both orders"),
        ({"winner": ["a"], "loser": ["a"]}, "row 1: winner and loser are the same item"),
        ({"winner": ["a", None], "loser": ["b", "c"]}, "row 2: winner is null"),
    ],
)
def test_bad_pairs_are_errors(rows: dict[str, list[str | None]], text: str) -> None:
    with pytest.raises(InputError, match=text):
        gold_from_frame(pa.table(rows))


def test_copies_and_order_of_pairs_do_not_matter() -> None:
    rows = pa.table({"query": ["q", "p", "q"], "winner": ["a", "a", "c"], "loser": ["b", "b", "a"]})
    gold, again = gold_from_frame(rows), gold_from_frame(pa.concat_tables([rows.take([2, 0, 1]), rows]))
    assert len(again) == len(gold) == 3
    assert again.content == gold.content


def test_pairs_of_strangers_are_counted() -> None:
    rows = pa.table({"query": [0, 0, 7], "winner": [0, 1, 0], "loser": [1, 99, 1]})
    gold = gold_from_frame(rows)
    judgments = HONEST.judgments()
    (warning,) = unknown_items(gold, judgments)
    assert build_shards(judgments, form="preferences", gold=gold).warnings == (warning,)
    assert "2 of 3 gold pairs have an item that nobody judged" in warning
    assert "0 / 1 / 99, 7 / 0 / 1" in warning


def test_shards_without_gold_have_no_pairs() -> None:
    assert not any("gold.winner" in shard for shard in shards_of(HONEST).source.sets["units"])
