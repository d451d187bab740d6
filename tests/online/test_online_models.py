"""Methods that read judgments in time order: what the order is, what a run is, and how a pass goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from literal_online import crowd_bt_pass, trueskill_update

from distrank.api import Aggregator, CrowdBTOnline, Result, TrueSkill
from distrank.contract import UNITS
from distrank.engine.local import LocalEngine
from distrank.errors import UsageError
from distrank.models import MODELS, _online, get_model, make_model
from distrank.models._online import OnlineModel, continue_online, prepared, renumbered, updates_of
from distrank.records import Record, digest, load_record, save_record
from distrank.runs import InputSettings, Stages, fit_judgments, identity_of
from distrank.store.checkpoints import CheckpointFolder
from distrank.tables.ids import unpack_ids
from distrank.tables.judgments import Judgments
from distrank.tables.read import judgments_from_frame
from distrank.tables.shards import Sharded, build_shards

METHODS = [name for name in sorted(MODELS) if issubclass(get_model(name), OnlineModel)]


FRONT: dict[str, type[Aggregator]] = {"crowd-bt-online": CrowdBTOnline, "trueskill": TrueSkill}


def crowd(seed: int, rows: int = 300, *, items: int = 6, queries: int = 3) -> pd.DataFrame:
    """Preferences in the order in which they were made, with distinct timestamps; queries interleave."""
    rng = np.random.default_rng(seed)
    first = rng.integers(items, size=rows)
    second = (first + rng.integers(1, items, size=rows)) % items
    wins = rng.random(rows) < 1.0 / (1.0 + np.exp(0.8 * (first - second)))
    return pd.DataFrame(
        {
            "query": [f"q{q}" for q in rng.integers(queries, size=rows)],
            "annotator": [f"a{a}" for a in rng.integers(5, size=rows)],
            "winner": [f"i{i}" for i in np.where(wins, first, second)],
            "loser": [f"i{i}" for i in np.where(wins, second, first)],
            "timestamp": np.cumsum(rng.random(rows) + 0.01),
        }
    )


def ordered_shard(frame: pd.DataFrame) -> tuple[Record, Sharded]:
    sharded = build_shards(judgments_from_frame(frame), form="preferences", split="ordered", rows_per_shard=10)
    (shard,) = sharded.source.sets[UNITS]
    return shard, sharded


def rows_in(frame: pd.DataFrame) -> list[tuple[str, ...]]:
    """The rows of the shard with their ids, in its order."""
    shard, sharded = ordered_shard(frame)
    queries = unpack_ids(shard, "unit.id", sharded.query_type).to_pylist()
    items = unpack_ids(shard, "node.id", sharded.item_type).to_pylist()
    annotators = sharded.annotators.to_pylist()
    columns = (shard[f"row.{name}"].tolist() for name in ("unit", "annotator", "winner", "loser"))
    rows = []
    for u, a, w, x in zip(*columns, strict=True):
        assert all(shard["unit.nodes"][u] <= node < shard["unit.nodes"][u + 1] for node in (w, x))
        rows.append((queries[u], annotators[a], items[w], items[x]))
    return rows


def rows_of(frame: pd.DataFrame) -> list[tuple[str, ...]]:
    return list(frame[["query", "annotator", "winner", "loser"]].itertuples(index=False, name=None))


def tables(result: Result) -> list[Any]:
    return [frame.to_dict("list") for frame in (result.rankings, result.annotators, result.queries)]


def test_order_is_a_matter_of_the_split_and_of_the_traits_alike() -> None:
    for name in MODELS:
        assert (get_model(name).split == "ordered") == get_model(name).traits.ordered
    assert METHODS


def test_rows_are_in_time_order() -> None:
    frame = crowd(1)
    assert rows_in(frame.sample(frac=1.0, random_state=2)) == rows_of(frame)


def test_without_timestamps_rows_are_as_read() -> None:
    frame = crowd(1).drop(columns="timestamp").sample(frac=1.0, random_state=3)
    assert rows_in(frame) == rows_of(frame)
    assert any("no timestamps" in warning for warning in ordered_shard(frame)[1].warnings)
    assert ordered_shard(crowd(1))[1].warnings == ()


def test_equal_times_keep_the_order_and_unknown_ones_come_last() -> None:
    frame = crowd(4, rows=60)
    frame["timestamp"] = pd.array([2.0, None, 1.0] * 20, dtype="Float64")
    expected = pd.concat([frame[2::3], frame[0::3], frame[1::3]])
    assert rows_in(frame) == rows_of(expected)
    assert any(
        warning.startswith("20 of 60 judgments have no timestamp") for warning in ordered_shard(frame)[1].warnings
    )


def test_values_stay_with_their_rows() -> None:
    frame = crowd(5).assign(weight=np.arange(300) % 7 / 2.0, tie=np.arange(300) % 3 == 0)
    shard, _ = ordered_shard(frame.sample(frac=1.0, random_state=6))
    assert shard["row.weight"].tolist() == frame["weight"].tolist()
    assert shard["row.tie"].tolist() == frame["tie"].tolist()


def test_units_know_what_they_know_in_canonical_order() -> None:
    """Nodes, ids, counts and components are those of other methods' shards; only the rows differ."""
    judgments = judgments_from_frame(crowd(7))
    (canonical,) = build_shards(judgments, form="preferences", split="never").source.sets[UNITS]
    shard, _ = ordered_shard(crowd(7))
    assert set(canonical) - set(shard) == {"unit.rows"}
    for name in canonical:
        if not name.startswith("row.") and name != "unit.rows":
            np.testing.assert_array_equal(shard[name], canonical[name])


def identity(frame: pd.DataFrame, method: str) -> dict[str, Any]:
    return identity_of(judgments_from_frame(frame), None, make_model(method, {}), InputSettings(), 0)


@pytest.mark.parametrize("method", METHODS)
def test_the_order_is_part_of_a_run_where_it_counts(method: str) -> None:
    timed = crowd(8)
    untimed = timed.drop(columns="timestamp")
    assert identity(timed.iloc[::-1], method) == identity(timed, method)
    assert identity(untimed.iloc[::-1], method) != identity(untimed, method)
    assert identity(untimed.iloc[::-1], method)["content"] == identity(untimed, method)["content"]
    assert identity(untimed.iloc[::-1], "borda") == identity(untimed, "borda")


@pytest.mark.parametrize("method", METHODS)
def test_timestamps_make_the_order_as_read_irrelevant(method: str) -> None:
    frame = crowd(9)
    assert tables(FRONT[method]().fit(frame.iloc[::-1])) == tables(FRONT[method]().fit(frame))


@pytest.mark.parametrize("method", METHODS)
def test_a_fit_is_the_literal_pass(method: str) -> None:
    frame = crowd(10)
    result = FRONT[method]().fit(frame.sample(frac=1.0, random_state=1))
    keys = sorted({(q, i) for q, _, *pair in rows_of(frame) for i in pair})
    names = sorted(set(frame["annotator"]))
    rows = [(names.index(a), keys.index((q, w)), keys.index((q, x))) for q, a, w, x in rows_of(frame)]
    found = result.rankings.set_index(["query", "item"])[["score", "score_sd"]]
    if method == "trueskill":
        items = [(25.0, 25.0 / 3.0)] * len(keys)
        for _, winner, loser in rows:
            trueskill_update(items, winner, loser, 25.0 / 6.0, 25.0 / 300.0)
        expected = np.array(items)
        assert result.annotators["quality"].tolist() == result.annotators["agreement"].tolist()
    else:
        items, annotators = [(0.0, 1.0)] * len(keys), [(10.0, 1.0)] * len(names)
        crowd_bt_pass(items, annotators, rows)
        expected = np.array([(mean, variance**0.5) for mean, variance in items])
        np.testing.assert_allclose(result.annotators[["alpha", "beta"]].to_numpy(), annotators, rtol=1e-12)
        shares = [alpha / (alpha + beta) for alpha, beta in annotators]
        np.testing.assert_allclose(result.annotators["quality"], shares, rtol=1e-12)
    np.testing.assert_allclose(found.loc[keys].to_numpy(), expected, rtol=1e-12, atol=1e-12)
    scores = found["score"].to_dict()
    agreed = [scores[q, w] > scores[q, x] for q, _, w, x in rows_of(frame)]
    for column, ids in (("query", result.queries), ("annotator", result.annotators)):
        by_id = pd.Series(agreed).groupby(frame[column].to_numpy()).mean()
        assert ids.set_index(column)["agreement"].to_dict() == pytest.approx(by_id.to_dict(), rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_a_weight_of_two_is_two_updates_in_a_row(method: str) -> None:
    frame = crowd(11)
    weights = np.arange(len(frame)) % 3
    repeated = frame.loc[np.repeat(frame.index, weights)]
    weighted, rows = FRONT[method]().fit(frame.assign(weight=weights.astype(float))), FRONT[method]().fit(repeated)
    pd.testing.assert_frame_equal(weighted.rankings, rows.rankings, check_exact=True)
    assert weighted.annotators["quality"].tolist() == rows.annotators["quality"].tolist()


def test_a_weight_between_is_updates_of_equal_size() -> None:
    shard, _ = ordered_shard(crowd(12, rows=4).assign(weight=[0.5, 2.5, 1.0, 0.0]))
    updates = updates_of(prepared(shard, ties="half"))
    assert updates.size is not None
    assert updates.size.tolist() == [0.5, 2.5 / 3, 2.5 / 3, 2.5 / 3, 1.0]
    assert updates.winner.tolist() == shard["row.winner"][[0, 1, 1, 1, 2]].tolist()


@pytest.mark.parametrize("method", METHODS)
def test_weights_above_the_largest_are_told(method: str) -> None:
    frame = crowd(13, rows=20)
    many, huge = (FRONT[method]().fit(frame.assign(weight=[w] + [1.0] * 19)) for w in (100.0, 1e9))
    assert many.rankings.equals(huge.rankings)
    assert "1 judgments with a weight above 100 count as that many" in huge.warnings
    assert many.warnings == []


@pytest.mark.parametrize("method", METHODS)
def test_ties_are_left_out_where_asked(method: str) -> None:
    frame = crowd(14).assign(tie=np.arange(300) % 4 == 0)
    dropped = FRONT[method](ties="drop").fit(frame)
    without = FRONT[method]().fit(frame[~frame["tie"]])
    pd.testing.assert_frame_equal(dropped.rankings, without.rankings, check_exact=True)
    assert not FRONT[method]().fit(frame).rankings.equals(dropped.rankings)


@pytest.mark.parametrize("method", METHODS)
def test_ratings_have_no_order_of_pairs(method: str) -> None:
    ratings = pd.DataFrame({"item": ["x", "y"], "annotator": ["a", "a"], "rating": [1, 2]})
    with pytest.raises(UsageError, match="time order takes preferences only"):
        FRONT[method]().fit(ratings)


# Blocks, checkpoints, continuation. ----------------------------------------------------------------------------------


class _KilledError(Exception):
    """Stands for the end of the process."""


class _EndsAfter(CheckpointFolder):
    ends_after = 2

    def save(self, placement: Any, iteration: int, theta: Record, trace: Any) -> Any:
        saved = super().save(placement, iteration, theta, trace)
        if iteration == self.ends_after:
            raise _KilledError
        return saved


def fitted(judgments: Judgments, method: str, checkpoints: Any = None, *, resume: bool = False) -> Any:
    with LocalEngine(2) as engine:
        stages = Stages(lambda _: None)
        model = make_model(method, {})
        _, fit = fit_judgments(judgments, None, model, engine, stages, seed=0, checkpoints=checkpoints, resume=resume)
    (part,) = fit.results
    return fit, {name: part[name].to_pydict() for name in ("rankings", "queries")}


@pytest.mark.parametrize("method", METHODS)
def test_blocks_change_nothing_and_a_killed_pass_goes_on(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judgments = judgments_from_frame(crowd(15))
    whole, expected = fitted(judgments, method)
    assert (whole.iterations, whole.converged) == (1, True)
    monkeypatch.setattr(_online, "BLOCK", 80)
    cut, found = fitted(judgments, method)
    assert [entry["updates"] for entry in cut.trace] == [0, 80, 160, 240, 300]
    assert found == expected
    place = (tmp_path, "run", {"law": "resume"}, 1e9, 1)
    with pytest.raises(_KilledError):
        fitted(judgments, method, _EndsAfter(*place))
    resumed, found = fitted(judgments, method, CheckpointFolder(*place), resume=True)
    assert resumed.facts["resumed_from"] == 2
    assert found == expected
    assert digest([resumed.theta]) == digest([cut.theta])


def codes_among(ids: list[Any], all_ids: list[Any]) -> np.ndarray:
    return np.array([all_ids.index(one) for one in ids], np.int64)


def nodes_of(shard: Record, sharded: Sharded) -> list[tuple[str, str]]:
    queries = unpack_ids(shard, "unit.id", sharded.query_type).to_pylist()
    items = unpack_ids(shard, "node.id", sharded.item_type).to_pylist()
    unit = np.repeat(np.arange(len(queries)), np.diff(shard["unit.nodes"]))
    return [(queries[u], item) for u, item in zip(unit, items, strict=True)]


@pytest.mark.parametrize("method", METHODS)
def test_new_judgments_continue_a_saved_state(method: str, tmp_path: Path) -> None:
    """A pass over A, saved, then one over B with items and annotators that A did not know, is the pass over A and B."""
    model = make_model(method, {})
    assert isinstance(model, OnlineModel)
    frame = crowd(16).assign(tie=np.arange(300) % 9 == 0, weight=np.arange(300) % 4 / 2.0)
    old = frame[:200][(frame["query"][:200] != "q1") & (frame["annotator"][:200] != "a0")]
    new = frame[200:]
    both = pd.concat([old, new])

    shard, sharded = ordered_shard(old)
    state = model.fresh_state(len(nodes_of(shard, sharded)), len(sharded.annotators))
    state = continue_online(model, state, updates_of(model.prepare(shard)))
    save_record(tmp_path / "state.npz", state)

    whole_shard, whole = ordered_shard(both)
    updates = updates_of(model.prepare(whole_shard))
    seen = int(state["updates"])
    nodes, annotators = nodes_of(whole_shard, whole), whole.annotators.to_pylist()
    assert len(nodes) > len(state["item"])
    assert len(annotators) > len(state["annotator"])
    grown = renumbered(
        model,
        load_record(tmp_path / "state.npz"),
        (codes_among(nodes_of(shard, sharded), nodes), len(nodes)),
        (codes_among(sharded.annotators.to_pylist(), annotators), len(annotators)),
    )
    continued = continue_online(model, grown, updates.span(seen, len(updates.winner)))
    fresh = model.fresh_state(len(nodes), len(annotators))
    assert digest([continued]) == digest([continue_online(model, fresh, updates)])
    fit, published = fitted(judgments_from_frame(both), method)
    means = dict(zip(nodes, continued["item"][:, 0].tolist(), strict=True))
    rankings = published["rankings"]
    assert means == dict(zip(zip(rankings["query"], rankings["item"], strict=True), rankings["score"], strict=True))
    assert fit.theta["annotator"].tobytes() == continued["annotator"].tobytes()


def test_a_state_keeps_every_item() -> None:
    model = make_model("trueskill", {})
    assert isinstance(model, OnlineModel)
    with pytest.raises(UsageError, match="the state has 3 items"):
        renumbered(model, model.fresh_state(3, 1), (np.array([0, 1, 1]), 5), (np.array([0]), 1))


# What it is good for. ------------------------------------------------------------------------------------------------


def test_online_crowd_bt_finds_scores_and_liars() -> None:
    rng = np.random.default_rng(17)
    truth, quality = rng.permutation(40), np.where(np.arange(50) % 5 == 0, 0.1, 0.95)
    first = rng.integers(40, size=12_000)
    second = (first + rng.integers(1, 40, size=12_000)) % 40
    annotator = rng.integers(50, size=12_000)
    wins = (truth[first] > truth[second]) == (rng.random(12_000) < quality[annotator])
    frame = pd.DataFrame({"annotator": annotator, "winner": np.where(wins, first, second)})
    frame["loser"] = first + second - frame["winner"]
    results = {name: FRONT[name]().fit(frame) for name in METHODS}

    def accuracy(result: Result) -> float:
        score = result.rankings.set_index("item")["score"].sort_index().to_numpy()
        above = truth[:, None] > truth[None, :]
        return float((score[:, None] > score[None, :])[above].mean())

    assert accuracy(results["crowd-bt-online"]) > 0.96
    assert accuracy(results["crowd-bt-online"]) > accuracy(results["trueskill"])
    found = results["crowd-bt-online"].annotators["quality"].to_numpy()
    assert ((found < 0.5) == (quality < 0.5)).all()
    assert (results["crowd-bt-online"].rankings["score_sd"] < 1.0).all()
