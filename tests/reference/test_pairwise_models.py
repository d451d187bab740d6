"""borda, bradley-terry and crowd-bt against literal references, and the laws of equation 8."""

from __future__ import annotations

import csv
import gzip
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from literal_pairwise import Crowd, crowd, maximum, objective
from pairwise_fits import fitted, shards_of

from distrank.contract import PARTS, UNITS
from distrank.engine import local
from distrank.errors import UsageError
from distrank.models import get_model, make_model
from distrank.records import digest

TIGHT = {"tolerance": 1e-20}
BATCH = ("borda", "bradley-terry", "crowd-bt", "majority-bt", "thurstone", "variance-bt")  # models fitted to all rows
RATHER_SMALL = 60  # rows per shard: queries of the crowds below are split, or spread over many shards


def with_extras(data: Crowd, seed: int) -> Crowd:
    """The crowd with ties and weights, some of them 0."""
    rng = np.random.default_rng(seed)
    weight = rng.choice([0.0, 0.5, 1.0, 2.5], size=len(data.winner))
    return replace(data, tie=rng.random(len(data.winner)) < 0.15, weight=weight)


CROWDS = {
    "one query": crowd(1),
    "weights and ties": with_extras(crowd(2), 3),
    "many queries": crowd(4, queries=5, items=6, annotators=6, rows=900),
    "many queries, weights and ties": with_extras(crowd(5, queries=4, items=6, rows=900), 6),
}


@pytest.mark.parametrize("cut", [250_000, RATHER_SMALL])
@pytest.mark.parametrize("name", ["bradley-terry", "crowd-bt"])
@pytest.mark.parametrize("case", CROWDS)
def test_the_optimum_is_that_of_equation_8(case: str, name: str, cut: int) -> None:
    data = CROWDS[case]
    score, quality = maximum(data, 0.5, quality=name == "crowd-bt")
    found = fitted(data, name, rows_per_shard=cut, **TIGHT)
    assert found.fit.converged
    assert found.score == pytest.approx(score, abs=1e-6)
    assert found.objective == pytest.approx(objective(data, score, quality, 0.5), rel=1e-9)
    if name == "crowd-bt":
        assert found.annotators["quality"] == pytest.approx(quality, abs=1e-6)
        assert found.objective == pytest.approx(
            objective(data, found.score, found.annotators["quality"], 0.5), rel=1e-13
        )


@pytest.mark.parametrize("name", ["bradley-terry", "crowd-bt"])
def test_whole_and_split_queries_have_the_same_optimum(name: str) -> None:
    """Every query whole, every query split, and one split beside five whole ones."""
    many, one = crowd(7, queries=5, items=6, rows=400), crowd(8, items=6, rows=300)
    data = Crowd(
        *(np.append(getattr(many, column), getattr(one, column) + shift) for column, shift in
          {"query": 5, "annotator": 0, "winner": 30, "loser": 30}.items()),
        items=36,
        annotators=7,
    )  # fmt: skip
    cuts = {cut: shards_of(data, rows_per_shard=cut) for cut in (250_000, 150, 20)}
    assert [len(shards.info.split_items) for shards in cuts.values()] == [0, 1, 6]
    assert [len(shards.source.sets[UNITS]) > 0 for shards in cuts.values()] == [True, True, False]
    assert len(cuts[150].source.sets[PARTS]) == 2
    whole, mixed, split = (fitted(shards, name, **TIGHT) for shards in cuts.values())
    for other in (mixed, split):
        assert other.score == pytest.approx(whole.score, abs=1e-7)
        assert other.annotators["quality"] == pytest.approx(whole.annotators["quality"], abs=1e-7)
        assert other.agreement == pytest.approx(whole.agreement, abs=1e-12)
        assert other.objective == pytest.approx(whole.objective, rel=1e-13)


def test_the_default_tolerance_is_near_the_optimum() -> None:
    data = CROWDS["one query"]
    tight, default = fitted(data, "crowd-bt", **TIGHT), fitted(data, "crowd-bt")
    assert default.fit.converged
    assert 0.0 <= tight.objective - default.objective <= 1e-11 * abs(tight.objective)
    assert tight.model.diagnosis(tight.fit.theta)["projected_gradient_norm"] < 1e-7


def test_the_optimum_can_be_had_to_the_last_bit_and_the_objective_never_falls_on_the_way() -> None:
    """Far below the rounding of the objective, steps are judged by their slope."""
    for data in CROWDS.values():
        found = fitted(data, "crowd-bt", tolerance=1e-24)
        trace = [entry["objective"] for entry in found.fit.trace]
        assert found.fit.converged
        assert found.model.diagnosis(found.fit.theta)["projected_gradient_norm"] < 1e-9
        assert all(after >= before for before, after in pairwise(trace))


@pytest.mark.parametrize("name", ["bradley-terry", "crowd-bt"])
def test_the_distance_to_the_optimum_is_what_the_fit_says(name: str) -> None:
    """Many judgments of few items: a direction that only the virtual games curve must not be overlooked."""
    for seed in range(6):
        sharded = shards_of(crowd(20 + seed, items=60, annotators=20, rows=20_000))
        near, at = fitted(sharded, name, tolerance=1e-10), fitted(sharded, name, tolerance=1e-22)
        distance = near.model.diagnosis(near.fit.theta)["distance_to_optimum"]
        assert distance <= 1e-10 * abs(near.objective)
        assert 0.0 <= at.objective - near.objective <= 3.0 * distance + 1e-13 * abs(at.objective)


def test_without_iterations_nothing_has_converged() -> None:
    assert not fitted(crowd(1), "crowd-bt", max_iterations=3).fit.converged


@pytest.mark.parametrize("cut", [250_000, RATHER_SMALL])
def test_equal_quality_is_bradley_terry(cut: int) -> None:
    data = CROWDS["many queries, weights and ties"]
    equal = fitted(data, "crowd-bt", annotator_quality="equal", rows_per_shard=cut)
    plain = fitted(data, "bradley-terry", rows_per_shard=cut)
    assert equal.score.tobytes() == plain.score.tobytes()
    assert equal.annotators["quality"].tolist() == [1.0] * data.annotators


def test_the_mirror_image_has_the_same_objective() -> None:
    """(eta, s) and (1 - eta, -s): from a start at 0, the scores come out reversed."""
    data = crowd(9)
    truth = fitted(data, "crowd-bt", **TIGHT)
    score, quality = truth.score, truth.annotators["quality"]
    assert objective(data, -score, 1.0 - quality, 0.5) == pytest.approx(truth.objective, rel=1e-13)
    reversed_gold = fitted(data, "crowd-bt", start="gold", gold=-data.true_score, **TIGHT)
    assert reversed_gold.score == pytest.approx(-score, abs=1e-7)
    assert reversed_gold.annotators["quality"] == pytest.approx(1.0 - quality, abs=1e-7)


@pytest.mark.parametrize("cut", [250_000, RATHER_SMALL])
def test_gold_turns_a_crowd_of_liars_around(cut: int) -> None:
    """Everyone says the opposite. Alone, the ranking is upside down and warned about; a few graded items turn it."""
    honest = crowd(10, rows=1500, a=9, b=1)
    liars = replace(honest, winner=honest.loser, loser=honest.winner)
    gold = np.where(np.arange(honest.items) < 5, honest.true_score, np.nan)
    alone = fitted(liars, "crowd-bt", rows_per_shard=cut)
    helped = fitted(liars, "crowd-bt", rows_per_shard=cut, start="gold", gold=gold)
    assert np.corrcoef(alone.score, honest.true_score)[0, 1] < -0.9
    assert any("reversed" in text for text in alone.model.warnings(alone.fit.theta, alone.info))
    assert np.corrcoef(helped.score, honest.true_score)[0, 1] > 0.9
    assert (helped.annotators["quality"] < 0.5).all()
    assert helped.model.warnings(helped.fit.theta, helped.info) == []


def test_gold_is_asked_for_where_it_is_needed() -> None:
    with pytest.raises(UsageError, match="gold table"):
        fitted(crowd(1), "crowd-bt", start="gold")


def test_annotators_without_judgments_keep_their_start() -> None:
    """Nobody heard of annotator 7; all that annotator 6 said has weight 0."""
    data = replace(crowd(11), annotators=8)
    data = replace(data, weight=np.where(data.annotator == 6, 0.0, 1.0))
    found = fitted(data, "crowd-bt")
    assert found.annotators["quality"][6:].tolist() == [1.0, 1.0]
    assert found.annotators["agreement"][6:].tolist() == [0.5, 0.5]
    assert (found.annotators["quality"][:6] < 1.0).any()


def test_a_liar_among_honest_annotators_is_found() -> None:
    rows = [(q, k, i, j) for q in range(2) for k in range(6) for i in range(5) for j in range(i + 1, 5)]
    query, annotator, better, worse = np.array(rows).T
    better, worse = better + 5 * query, worse + 5 * query
    lies = annotator == 5
    data = Crowd(query, annotator, np.where(lies, worse, better), np.where(lies, better, worse), 10, 6)
    found = fitted(data, "crowd-bt")
    assert found.fit.converged
    assert found.annotators["quality"][:5].tolist() == [1.0] * 5
    assert found.annotators["quality"][5] == 0.0
    assert found.annotators["agreement"].tolist() == [1.0] * 5 + [0.0]
    assert found.agreement == pytest.approx([5 / 6, 5 / 6])
    assert all(found.score[i] > found.score[i + 1] for q in range(2) for i in range(5 * q, 5 * q + 4))


@pytest.mark.parametrize("case", CROWDS)
@pytest.mark.parametrize("cut", [250_000, RATHER_SMALL])
def test_borda_is_the_share_of_comparisons_won(case: str, cut: int) -> None:
    data = CROWDS[case]
    won, played = [0.0] * data.items, [0.0] * data.items
    for _, i, j, weight in data.wins():
        won[i] += weight
        played[i] += weight
        played[j] += weight
    expected = [w / p if p else 0.5 for w, p in zip(won, played, strict=True)]
    assert fitted(data, "borda", rows_per_shard=cut).score == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", BATCH)
def test_ties_can_be_left_out(name: str) -> None:
    data = CROWDS["weights and ties"]
    assert data.tie is not None
    assert data.weight is not None
    kept = ~data.tie
    columns = {column: getattr(data, column)[kept] for column in ("query", "annotator", "winner", "loser", "weight")}
    dropped = fitted(data, name, ties="drop")
    assert dropped.score == pytest.approx(fitted(replace(data, tie=None, **columns), name).score, rel=1e-9, abs=1e-9)
    if name != "majority-bt":  # a tie weighs the same on both sides: it moves no majority
        assert dropped.score != pytest.approx(fitted(data, name).score, rel=1e-3)


@pytest.mark.parametrize("name", BATCH)
@pytest.mark.parametrize("cut", [250_000, 150, RATHER_SMALL])
def test_the_bytes_do_not_depend_on_workers_or_on_how_shards_are_grouped(
    name: str, cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sharded = shards_of(CROWDS["many queries"], name=name, rows_per_shard=cut)
    digests = set()
    for workers, ranges in ((1, 4), (2, 4), (4, 4), (1, 1), (3, 2)):
        monkeypatch.setattr(local, "RANGES_PER_WORKER", ranges)
        found = fitted(sharded, name, workers=workers)
        digests.add(digest([found.fit.theta, {"score": found.score}]))
    assert len(digests) == 1


@pytest.mark.parametrize("name", ["bradley-terry", "crowd-bt"])
def test_chains_of_neighbours_converge(name: str) -> None:
    """Items compared with their neighbours only, always with the same outcome but one: scores far beyond any table."""
    items, times = 400, 40
    first = np.repeat(np.arange(items - 1), times)
    annotator = np.tile(np.arange(times) % 4, items - 1)
    data = Crowd(np.zeros(len(first), int), annotator, first, first + 1, items, 4)
    data = replace(data, winner=np.append(data.winner, items - 1), loser=np.append(data.loser, 0),
                   query=np.append(data.query, 0), annotator=np.append(annotator, 0))  # fmt: skip
    found = fitted(data, name, regularization=0.1)
    trace = [entry["objective"] for entry in found.fit.trace]
    assert found.fit.converged
    assert all(after >= before for before, after in pairwise(trace))
    assert np.isfinite(found.score).all()
    assert (np.diff(found.score) < 0).all()
    assert found.score[0] > 100.0
    quality = found.annotators["quality"] if name == "crowd-bt" else np.ones(4)
    assert objective(data, found.score, quality, 0.1) == pytest.approx(found.objective, rel=1e-12)


def test_one_item_alone_is_no_comparison() -> None:
    """No rows at all: no item has a score other than 0, and everything is finite."""
    nothing = np.zeros(0, int)
    for name in BATCH:
        found = fitted(Crowd(nothing, nothing, nothing, nothing, 1, 2), name)
        assert found.fit.converged
        assert found.annotators["agreement"].tolist() == [0.5, 0.5]


def test_the_paper_s_table_1_is_reproduced() -> None:
    """Quality Beta(2, 1): 0.800 for Bradley-Terry and 0.869 for Crowd-BT in the paper; 20 seeds here."""
    accuracy: dict[str, list[float]] = {"bradley-terry": [], "crowd-bt": []}
    correlation = []
    for seed in range(20):
        data = table_1(seed)
        truth = data.true_score[:, None] > data.true_score[None, :]
        for name, values in accuracy.items():
            found = fitted(data, name)
            assert found.fit.converged
            values.append(float((found.score[:, None] > found.score[None, :])[truth].mean()))  # equation 20
            if name == "crowd-bt":
                correlation.append(np.corrcoef(found.annotators["quality"], data.true_quality)[0, 1])
    assert 0.79 < np.mean(accuracy["bradley-terry"]) < 0.83
    assert np.mean(accuracy["crowd-bt"]) >= 0.877
    assert np.mean(correlation) >= 0.94


def table_1(seed: int) -> Crowd:
    """Section 5.1: 100 items, 400 distinct pairs, each judged by 10 distinct annotators of 100."""
    rng = np.random.default_rng(seed)
    score, quality = rng.permutation(100) + 1.0, rng.beta(2, 1, 100)
    upper = np.stack(np.triu_indices(100, 1), axis=1)
    pairs = np.repeat(upper[rng.choice(len(upper), 400, replace=False)], 10, axis=0)
    annotator = np.concatenate([rng.choice(100, 10, replace=False) for _ in range(400)])
    order = score[pairs[:, 0]] > score[pairs[:, 1]]
    right = rng.random(4000) < quality[annotator]
    winner, loser = np.where((order == right), pairs.T, pairs.T[::-1])
    return Crowd(np.zeros(4000, int), annotator, winner, loser, 100, 100, true_score=score, true_quality=quality)


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"borda, bradley-terry, .*crowd-bt, .*thurstone, .*variance-bt"):
        get_model("crowdbt")
    with pytest.raises(UsageError, match="above 0"):
        make_model("crowd-bt", {"regularization": "0"})


@pytest.mark.skipif("DISTRANK_DATA" not in os.environ, reason="DISTRANK_DATA names no folder with real data")
@pytest.mark.parametrize("name", ["bradley-terry", "crowd-bt"])
def test_sparse_real_preferences_reach_an_optimum(name: str) -> None:
    """Nine thousand faces, about six comparisons each, four thousand annotators with about seven judgments each."""
    with gzip.open(Path(os.environ["DISTRANK_DATA"]) / "faceage" / "preferences.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    place = {x: i for i, x in enumerate(sorted({row[side] for row in rows for side in ("winner", "loser")}))}
    person = {x: i for i, x in enumerate(sorted({row["annotator"] for row in rows}))}
    data = Crowd(
        np.zeros(len(rows), int),
        np.array([person[row["annotator"]] for row in rows]),
        *(np.array([place[row[side]] for row in rows]) for side in ("winner", "loser")),
        items=len(place),
        annotators=len(person),
    )
    found = fitted(data, name, **TIGHT)
    quality = found.annotators["quality"] if name == "crowd-bt" else np.ones(len(person))
    assert found.fit.converged
    assert found.model.diagnosis(found.fit.theta)["projected_gradient_norm"] < 1e-6
    assert found.objective == pytest.approx(objective(data, found.score, quality, 0.5), rel=1e-12)
