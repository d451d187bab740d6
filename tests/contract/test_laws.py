"""The laws that every model obeys, in every place. A new model inherits all of them by being registered.

Traits decide which laws apply; a law that a model opts out of is listed, with the reason, by the last test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from crowds import crowd
from harness import (
    ALL,
    Outcome,
    degenerate_for,
    judgments_for,
    model_of,
    models_under,
    models_with,
    run_model,
    shards_for,
)

from distrank.contract import EVIDENCE, Step
from distrank.engine.base import Engine
from distrank.engine.local import LocalEngine, LocalPlacement
from distrank.models import MODELS, get_model
from distrank.records import Array, Record, digest
from distrank.store.checkpoints import CheckpointFolder

DETERMINISTIC = models_with(sampled=False)
UNORDERED = models_with(ordered=False)
WITH_INTERVALS = [name for name in ALL if "interval" in {field.name for field in fields(model_of(name).Settings)}]
# Few iterations where every one of them is interrupted.
SHORT: dict[str, Any] = {"trm": {"burn_in": 3, "samples": 4}}
CLOSE = 1e-9
# Cuts of the 600 rows: one shard; several shards; queries split into parts; both at once.
CUTS = {"one shard": 250_000, "many shards": 150, "split queries": 40}


def bounded(name: str) -> dict[str, Any]:
    """Settings for data on which some methods never converge: finite numbers are asked for at any iteration."""
    return {"max_iterations": 40} if hasattr(model_of(name).Settings(), "max_iterations") else {}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())
@pytest.mark.parametrize("name", ALL)
def test_the_result_does_not_depend_on_the_number_of_workers(name: str, cut: int) -> None:
    frame = judgments_for(name, 1)
    digests = set()
    for workers in (1, 2, 5):
        with LocalEngine(workers) as engine:
            digests.add(run_model(name, frame, engine=engine, rows_per_shard=cut).bytes())
    assert len(digests) == 1


@pytest.mark.ray
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())
@pytest.mark.parametrize("name", ALL)
def test_ray_gives_the_bytes_of_the_local_engine(
    name: str, cut: int, ray_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = judgments_for(name, 2)
    expected = run_model(name, frame, rows_per_shard=cut).bytes()
    for workers in (1, 2, 4) if cut == CUTS["many shards"] else (2,):  # calls per round
        monkeypatch.setattr(ray_engine, "workers", workers)
        on_ray = run_model(name, frame, rows_per_shard=cut, engine=ray_engine, work=tmp_path / "work")
        assert on_ray.bytes() == expected


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())
@pytest.mark.parametrize("name", UNORDERED)
def test_the_order_of_the_rows_does_not_matter(name: str, cut: int) -> None:
    frame = judgments_for(name, 3)
    shuffled = frame.sample(frac=1.0, random_state=4)
    assert run_model(name, shuffled, rows_per_shard=cut).bytes() == run_model(name, frame, rows_per_shard=cut).bytes()


@pytest.mark.parametrize("name", [name for name in models_under("relabelling") if name in DETERMINISTIC])
def test_names_do_not_matter(name: str) -> None:
    """Other ids in another order (and so other codes, shards and sums) give the same scores under the new names."""
    frame = judgments_for(name, 5)
    renamed = frame.copy()
    names: dict[str, dict[str, str]] = {}
    kinds = {"query": ["query"], "annotator": ["annotator"], "item": ["winner", "loser", "item"]}
    for kind, possible in kinds.items():
        columns = [column for column in possible if column in frame]
        ids = sorted(set(frame[columns].to_numpy().ravel()))
        names[kind] = dict(zip(ids, [f"{len(ids) - k:03d}-{kind}" for k in range(len(ids))], strict=True))
        for column in columns:
            renamed[column] = frame[column].map(names[kind])
    before, after = run_model(name, frame), run_model(name, renamed)
    for (query, item), score in before.scores().items():
        assert after.scores()[names["query"][query], names["item"][item]] == pytest.approx(score, rel=CLOSE, abs=CLOSE)
    for annotator, quality in before.qualities().items():
        assert after.qualities()[names["annotator"][annotator]] == pytest.approx(quality, rel=CLOSE, abs=CLOSE)
    _same_intervals(before, after, lambda kind, name: names[kind][name])


@pytest.mark.parametrize("name", [name for name in models_with(weighted=True) if name in DETERMINISTIC])
def test_a_weight_of_two_is_two_rows(name: str) -> None:
    frame = judgments_for(name, 6)
    twice = np.arange(len(frame)) % 3 == 0
    weighted = run_model(name, frame.assign(weight=np.where(twice, 2.0, 1.0)))
    repeated = run_model(name, pd.concat([frame, frame[twice]]))
    for key, score in repeated.scores().items():
        assert weighted.scores()[key] == pytest.approx(score, rel=CLOSE, abs=CLOSE)
    for key, quality in repeated.qualities().items():
        assert weighted.qualities()[key] == pytest.approx(quality, rel=CLOSE, abs=CLOSE)
    _same_intervals(weighted, repeated, lambda _, name: name)


@pytest.mark.parametrize("name", [name for name in models_under("splitting") if name in DETERMINISTIC])
def test_a_split_query_has_the_scores_of_a_whole_one(name: str) -> None:
    frame = judgments_for(name, 7, queries=2, rows=400)
    whole, split = run_model(name, frame), run_model(name, frame, rows_per_shard=60)
    assert split.fit.facts["rounds"] > 0
    for key, score in whole.scores().items():
        assert split.scores()[key] == pytest.approx(score, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("name", models_with(monotone=True, iterative=True))
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())
def test_the_objective_never_falls(name: str, cut: int) -> None:
    trace = [entry["objective"] for entry in run_model(name, judgments_for(name, 8), rows_per_shard=cut).fit.trace]
    assert len(trace) > 1
    for before, after in pairwise(trace):
        assert after >= before


@pytest.mark.parametrize(("name", "case"), [(name, case) for name in ALL for case in degenerate_for(name)])
def test_degenerate_data_gives_finite_numbers(name: str, case: str) -> None:
    outcome = run_model(name, degenerate_for(name)[case], settings=bounded(name))
    for frame in (outcome.rankings, outcome.annotators, outcome.queries):
        numbers = frame.select_dtypes("number")
        assert np.isfinite(numbers.to_numpy(dtype=float)).all(), numbers
    assert ((outcome.annotators["quality"] >= 0) & (outcome.annotators["quality"] <= 1)).all()
    for _, ranking in outcome.rankings.groupby("query"):
        assert sorted(ranking["rank"]) == list(range(1, len(ranking) + 1))
        assert ranking.sort_values("rank")["score"].is_monotonic_decreasing


@pytest.mark.parametrize(
    ("name", "case"), [(name, case) for name in WITH_INTERVALS for case in ("a crowd", *degenerate_for(name))]
)
def test_intervals_contain_what_they_are_of(name: str, case: str) -> None:
    frame = judgments_for(name, 13) if case == "a crowd" else degenerate_for(name)[case]
    outcome = run_model(name, frame, settings=bounded(name))
    rankings, annotators = outcome.rankings, outcome.annotators
    assert (rankings["score_low"] <= rankings["score"]).all()
    assert (rankings["score"] <= rankings["score_high"]).all()
    assert (rankings["rank_low"] <= rankings["rank"]).all()
    assert (rankings["rank"] <= rankings["rank_high"]).all()
    assert (rankings["rank_low"] >= 1).all()
    assert (rankings["rank_high"] <= rankings.groupby("query")["item"].transform("size")).all()
    if "quality_low" in annotators:  # not where quality is equal by decree
        assert (annotators["quality_low"] <= annotators["quality"]).all()
        assert (annotators["quality"] <= annotators["quality_high"]).all()
        assert annotators["quality_low"].min() >= 0.0
        assert annotators["quality_high"].max() <= 1.0


@pytest.mark.parametrize("name", WITH_INTERVALS)
def test_a_higher_level_gives_wider_intervals_and_none_gives_none(name: str) -> None:
    frame = judgments_for(name, 14)
    narrow, wide = (run_model(name, frame, settings={"interval": level}) for level in (0.5, 0.95))
    assert (wide.rankings["score_low"] < narrow.rankings["score_low"]).all()
    assert (wide.rankings["rank_high"] >= narrow.rankings["rank_high"]).all()
    if "quality_low" in wide.annotators:
        assert (wide.annotators["quality_low"] <= narrow.annotators["quality_low"]).all()
    without = run_model(name, frame, settings={"interval": None})
    assert not {"score_low", "rank_low"} & set(without.rankings)
    assert not {"quality_low", "quality_high"} & set(without.annotators)
    assert without.scores() == wide.scores()
    assert without.qualities() == wide.qualities()


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())
@pytest.mark.parametrize("name", [name for name in ALL if model_of(name).gives_evidence and "=equal" not in name])
def test_evidence_is_made_of_judgments_of_the_suspects(name: str, cut: int) -> None:
    frame = crowd(15, rows=6000)
    annotators = run_model(name, frame, rows_per_shard=10 * cut).annotators
    suspicious = annotators["kind"].isin(["spammer", "malicious"])
    assert suspicious.any()
    assert (annotators.loc[~suspicious, "evidence"].map(len) == 0).all()
    made = set(frame[["annotator", "query", "winner", "loser"]].itertuples(index=False, name=None))
    for annotator, evidence in annotators.loc[suspicious, ["annotator", "evidence"]].itertuples(index=False):
        assert 1 <= len(evidence) <= EVIDENCE
        weights = [entry["weight"] for entry in evidence]
        assert weights == sorted(weights, reverse=True)
        assert weights[-1] > 0.0
        assert {(annotator, entry["query"], entry["winner"], entry["loser"]) for entry in evidence} <= made


@pytest.mark.parametrize("name", ALL)
def test_nothing_that_was_given_is_changed(name: str) -> None:
    frame = judgments_for(name, 9)
    before = frame.copy(deep=True)
    sharded = shards_for(model_of(name), frame, rows_per_shard=150)
    shards = [shard for kind in sharded.source.sets.values() for shard in kind]
    digest_before = digest(shards)
    run_model(name, frame, rows_per_shard=150)
    pd.testing.assert_frame_equal(frame, before)
    assert digest(shards) == digest_before
    for shard in shards:
        assert not any(array.flags.writeable for array in shard.values())


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())
@pytest.mark.parametrize("name", models_with(iterative=True))
def test_a_resumed_run_ends_like_an_undisturbed_one(name: str, cut: int, tmp_path: Path) -> None:
    frame = judgments_for(name, 10)
    settings = SHORT.get(name)
    undisturbed = run_model(name, frame, settings=settings, rows_per_shard=cut)
    last = undisturbed.fit.iterations - 1
    for stop_at in sorted({1, (last + 1) // 2, last} & set(range(1, last + 1))):
        folder = CheckpointFolder(tmp_path / f"{stop_at}", "run", {"law": "resume"}, seconds=1e9, iterations=1)
        with pytest.raises(_KilledError):
            run_model(name, frame, settings=settings, rows_per_shard=cut, checkpoints=_EndsAfter(folder, stop_at))
        resumed = run_model(name, frame, settings=settings, rows_per_shard=cut, checkpoints=folder, resume=True)
        assert resumed.fit.facts["resumed_from"] == stop_at
        assert resumed.bytes() == undisturbed.bytes()


@pytest.mark.parametrize("name", ALL)
def test_steps_that_run_twice_change_nothing(name: str) -> None:
    """A retried task is harmless: an engine that repeats a third of all rounds gives the same bytes."""
    frame = judgments_for(name, 11)
    assert (
        run_model(name, frame, engine=_Repeating(2), rows_per_shard=150).bytes()
        == run_model(name, frame, rows_per_shard=150).bytes()
    )


@pytest.mark.parametrize("name", models_with(iterative=True))
def test_a_run_that_was_not_given_time_does_not_claim_convergence(name: str) -> None:
    outcome = run_model(name, judgments_for(name, 12), settings={"max_iterations": 1})
    assert outcome.fit.iterations == 1
    assert not outcome.fit.converged


def test_every_model_says_what_it_opted_out_of_and_why() -> None:
    opted_out = {name: get_model(name).traits.opted_out for name in sorted(MODELS)}
    assert opted_out == {
        "average": {"objective": "a count has no objective"},
        "borda": {"objective": "a count has no objective"},
        "bradley-terry": {},
        "condorcet": {
            "objective": "the order comes from sorting, not from an objective",
            "relabelling": "items that the votes do not tell apart are ordered by id",
        },
        "greedy-order": {
            "objective": "the order comes from sorting, not from an objective",
            "relabelling": "items that the votes do not tell apart are ordered by id",
        },
        "em-elo": {"weights": "a weight of two is two matches in a row, which is not a second row at the end"},
        "plackett-luce": {},
        "mallows": {},
        "mpm": {},
        "svp": {},
        "median-rank": {"objective": "a median has no objective"},
        "crowd-agg": {
            "objective": "the quality update (17) counts agreement, it does not maximise the expected measure"
        },
        "crowd-bt": {},
        "crowd-bt-online": {
            "objective": "one pass updates beliefs and maximises nothing",
            "weights": "a weight of two is two updates in a row, which is not a second row at the end",
        },
        "dawid-skene": {},
        "glad": {},
        "majority": {"objective": "a count has no objective"},
        "listmle": {
            "weights": "the ranker learns from gold, which has no weights",
            "splitting": "the ranking of a query is learned as a whole",
            "relabelling": "items of equal relevance are put in an order that is drawn from their places",
        },
        "lregma": {
            "weights": "a ranking is one judgment of all its items; rows of it cannot count more than others",
            "splitting": "places in the list of a query are counted in the whole list",
        },
        "ltrma": {
            "weights": "a ranking is one judgment of all its items; rows of it cannot count more than others",
            "relabelling": "rankings that are exactly as probable are decided by the order of the items' ids",
            "splitting": "the ranking of a query is estimated as a whole",
            "objective": "the paper's step for w maximises the best ranking's probability; expectation is monotone",
        },
        "ltrma-d": {
            "weights": "a ranking is one judgment of all its items; rows of it cannot count more than others",
            "relabelling": "rankings that are exactly as probable are decided by the order of the items' ids",
            "splitting": "the ranking of a query is estimated as a whole",
            "objective": "the paper's step for w maximises the best ranking's probability; expectation is monotone",
        },
        "majority-bt": {},
        "thurstone": {},
        "tpp": {},
        "trm": {"objective": "stochastic EM: the log-likelihood of a sample rises in expectation only"},
        "variance-bt": {},
        "trueskill": {
            "objective": "one pass updates beliefs and maximises nothing",
            "weights": "a weight of two is two updates in a row, which is not a second row at the end",
        },
    }


def _same_intervals(before: Outcome, after: Outcome, renamed: Callable[[str, str], str]) -> None:
    """The columns of intervals are the same, under the new names; bounds of ranks exactly."""
    tables = (
        (before.rankings, after.rankings, ["query", "item"], ["score_low", "score_high", "score_sd"]),
        (before.annotators, after.annotators, ["annotator"], ["quality_low", "quality_high"]),
    )
    for old, new, keys, columns in tables:
        found = new.set_index(keys)
        for column in [name for name in (*columns, "rank_low", "rank_high") if name in old]:
            exact = column.startswith("rank")
            for row in old.itertuples(index=False):
                key = tuple(renamed(kind, getattr(row, kind)) for kind in keys)
                expected = pytest.approx(getattr(row, column), rel=0 if exact else 1e-7, abs=0 if exact else 1e-7)
                assert found.loc[key, column].item() == expected


class _KilledError(Exception):
    """Stands for the end of the process."""


class _EndsAfter:
    """A checkpoint store whose process ends right after the checkpoint of one iteration."""

    def __init__(self, folder: CheckpointFolder, iteration: int) -> None:
        self.folder, self.iteration = folder, iteration

    def due(self, iteration: int) -> bool:
        return self.folder.due(iteration)

    def save(self, placement: Any, iteration: int, theta: Record, trace: Any) -> Any:
        saved = self.folder.save(placement, iteration, theta, trace)
        if iteration == self.iteration:
            raise _KilledError
        return saved

    def newest(self) -> Any:
        return self.folder.newest()


class _Repeating(LocalEngine):
    """A local engine whose placement runs every third round twice and keeps the second result."""

    def execute(self, main: Any, source: Any, model: Any, report: Any) -> Any:
        return main(_RepeatingPlacement(self.pool, self.workers, source, model), report)


class _RepeatingPlacement(LocalPlacement):
    def round(self, step: Step, theta: Record, key: Array, *, on: str, keep: bool) -> Record:
        if self.rounds % 3 == 0:
            super().round(step, theta, key, on=on, keep=False)
        return super().round(step, theta, key, on=on, keep=keep)
