"""Runs that go on: A, then B without A, has the bytes of A followed by B, in files and in memory, on either engine."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from distrank import Borda, CrowdBTOnline, TrueSkill
from distrank.api import Aggregator, Result
from distrank.cli import main
from distrank.engine.base import Engine
from distrank.errors import InputError, StoreError, UsageError
from distrank.models import _online
from distrank.runs import Published, Request, aggregate
from distrank.store.files import sha256_of
from distrank.store.publish import MANIFEST, resolve_run
from distrank.updates import UpdateRequest, update

METHODS: dict[str, type[Aggregator]] = {"crowd-bt-online": CrowdBTOnline, "trueskill": TrueSkill}
COUNTS = ["query", "items", "annotators", "judgments", "components"]


def crowd(seed: int, rows: int = 600) -> pd.DataFrame:
    """Preferences in time order with ties and weights; queries, items and annotators appear little by little."""
    rng = np.random.default_rng(seed)
    known = 3 + 9 * np.arange(rows) // rows  # how many items and annotators there are by then
    first = rng.integers(known)
    second = (first + 1 + rng.integers(known - 1)) % known
    return pd.DataFrame(
        {
            "query": [f"q{q}" for q in rng.integers(known) % 5],
            "annotator": [f"a{a}" for a in rng.integers(known)],
            "winner": [f"i{i}" for i in first],
            "loser": [f"i{i}" for i in second],
            "tie": rng.random(rows) < 0.1,
            "weight": rng.choice([0.0, 0.5, 1.0, 2.5, 200.0], rows, p=[0.1, 0.2, 0.5, 0.15, 0.05]),
            "timestamp": np.cumsum(rng.random(rows) + 0.01),
        }
    )


def write(folder: Path, **frames: pd.DataFrame) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    for name, frame in frames.items():
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), folder / f"{name}.parquet")
    return {name: str(folder / f"{name}.parquet") for name in frames}


def begin(source: str, out: Path, engine: Engine, method: str = "crowd-bt-online", **settings: Any) -> Published:
    return aggregate(Request(source=source, out=out, method=method, settings=settings), engine, lambda _: None)


def go_on(run: Path | str, source: str, engine: Engine, **options: Any) -> Published:
    return update(UpdateRequest(run=str(run), source=source, **options), engine, lambda _: None)


def tables_of(published: Published) -> dict[str, pa.Table]:
    return {
        name: pq.read_table(published.run.path(f"{name}.parquet")) for name in ("rankings", "annotators", "queries")
    }


def beliefs(annotators: pd.DataFrame) -> pd.DataFrame:
    """What an update knows exactly: everything but agreement, which is trueskill's quality as well."""
    shares = ["quality", "kind", "quality_low", "quality_high"]
    return annotators.drop(columns=["agreement", *([] if "alpha" in annotators else shares)])


# The law. ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_an_updated_run_has_the_bytes_of_one_run_over_all(method: str, tmp_path: Path, local_engine: Engine) -> None:
    frame = crowd(1)
    files = write(tmp_path / "in", a=frame[:200], b=frame[200:350], c=frame[350:], all=frame)
    whole = begin(files["all"], tmp_path / "whole", local_engine, method)
    first = begin(files["a"], tmp_path / "out", local_engine, method)
    second = go_on(tmp_path / "out", files["b"], local_engine)
    third = go_on(tmp_path / "out", files["c"], local_engine)
    assert third.run.path("rankings.parquet").read_bytes() == whole.run.path("rankings.parquet").read_bytes()
    ours, expected = tables_of(third), tables_of(whole)
    pd.testing.assert_frame_equal(
        beliefs(ours["annotators"].to_pandas()), beliefs(expected["annotators"].to_pandas()), check_exact=True
    )
    assert ours["queries"].select(COUNTS).equals(expected["queries"].select(COUNTS))
    assert (second.facts["parent"], third.facts["parent"]) == (first.run.run_id, second.run.run_id)
    assert "parent" not in first.facts
    for name in ("queries", "items", "annotators", "judgments"):
        assert third.facts["input"][name] == whole.facts["input"][name]
    assert (third.facts["input"]["new_judgments"], third.facts["input"]["read"]) == (250, 250)
    assert third.facts["convergence"]["updates"] == whole.facts["convergence"]["updates"]
    assert third.facts["warnings"] == whole.facts["warnings"]  # heavy weights and components: of all judgments
    third.run.verify()


@given(cuts=st.lists(st.integers(1, 119), max_size=4, unique=True), seed=st.integers(0, 1000))
@hypothesis_settings(max_examples=15)
def test_any_cuts_in_memory_give_the_same_bytes(cuts: list[int], seed: int) -> None:
    frame = crowd(seed, rows=120)
    edges = [0, *sorted(cuts), 120]
    pieces = [frame[begin:end] for begin, end in pairwise(edges)]
    for front in METHODS.values():
        whole, result = front(ties="drop").fit(frame), front(ties="drop").fit(pieces[0])
        for piece in pieces[1:]:
            result = result.update(piece)
        pd.testing.assert_frame_equal(result.rankings, whole.rankings, check_exact=True)
        pd.testing.assert_frame_equal(beliefs(result.annotators), beliefs(whole.annotators), check_exact=True)
        assert result.queries[COUNTS].equals(whole.queries[COUNTS])


@pytest.mark.ray
def test_ray_gives_the_bytes_of_the_local_engine(tmp_path: Path, ray_engine: Engine, local_engine: Engine) -> None:
    frame = crowd(2)
    files = write(tmp_path / "in", a=frame[:300], b=frame[300:])
    found = []
    for engine, out in ((ray_engine, tmp_path / "ray"), (local_engine, tmp_path / "local")):
        begin(files["a"], out, engine)
        run = go_on(out, files["b"], engine).run
        found.append({name: entry["sha256"] for name, entry in run.manifest["files"].items() if name != "run.json"})
    assert found[0] == found[1]
    assert {"model/parameters.npz", "model/units-00000.npz", "model/units-00000.items.arrow"} <= found[0].keys()


def test_agreement_is_with_the_order_at_the_end_of_the_run_that_read_a_judgment() -> None:
    frame = crowd(3).drop(columns=["tie", "weight"])
    old, new = frame[:400], frame[400:]
    first = TrueSkill().fit(old)
    second = first.update(new)

    def agreed(result: Result, rows: pd.DataFrame) -> pd.Series:
        score = result.rankings.set_index(["query", "item"])["score"].to_dict()
        sides = [[score[key] for key in zip(rows["query"], rows[side], strict=True)] for side in ("winner", "loser")]
        return pd.Series(np.greater(*sides), rows.index)

    both = pd.concat([agreed(first, old), agreed(second, new)])
    for kind, table in (("annotator", second.annotators), ("query", second.queries)):
        expected = both.groupby(frame[kind]).mean()
        assert table.set_index(kind)["agreement"].to_dict() == pytest.approx(expected.to_dict(), rel=1e-12)


def test_one_judgment_is_enough_to_go_on() -> None:
    frame = crowd(4)
    result = CrowdBTOnline().fit(frame)
    later = result.update(frame[-1:].assign(timestamp=frame["timestamp"].max() + 1.0, tie=False, weight=1.0))
    assert len(later.rankings) == len(result.rankings)
    assert later.annotators["judgments"].sum() == len(frame) + 1
    assert later.diagnosis["updates"] == result.diagnosis["updates"] + 1
    assert not any("one annotator only" in warning for warning in later.warnings)


IDS = {
    "whole numbers": pa.array([3, 1, 2], pa.int16()),
    "large text": pa.array(["ö", "z", "a\x00b"], pa.large_string()),
    "bytes": pa.array([b"\xff", b"a", b"\x00"], pa.binary()),
    "times": pa.array([5, 7, 6], pa.timestamp("s", "Europe/Berlin")),
    "dates": pa.array([dt.date(2020, 1, d) for d in (3, 1, 2)]),
    "decimals": pa.array([Decimal("1.10"), Decimal("1.01"), Decimal("-2.00")]),
    "real numbers": pa.array([0.5, -1.5, 2.5], pa.float32()),
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS.keys())
def test_ids_of_any_type_come_back(ids: pa.Array, tmp_path: Path, local_engine: Engine) -> None:
    def judgments(winner: list[int], loser: list[int]) -> pa.Table:
        columns = {"query": ids.take(pa.array([0] * len(winner))), "annotator": ids.take(pa.array(winner))}
        return pa.table({**columns, "winner": ids.take(pa.array(winner)), "loser": ids.take(pa.array(loser))})

    tables = {"a": judgments([0, 1], [1, 0]), "b": judgments([2, 0], [0, 2])}
    tables["all"] = pa.concat_tables(tables.values())
    for name, table in tables.items():
        with pa.ipc.new_file(tmp_path / f"{name}.arrow", table.schema) as writer:
            writer.write_table(table)
    begin(str(tmp_path / "a.arrow"), tmp_path / "out", local_engine)
    updated = tables_of(go_on(tmp_path / "out", str(tmp_path / "b.arrow"), local_engine))
    whole = tables_of(begin(str(tmp_path / "all.arrow"), tmp_path / "whole", local_engine))
    assert updated["rankings"].equals(whole["rankings"])
    assert updated["annotators"].drop(["agreement"]).equals(whole["annotators"].drop(["agreement"]))


# The same update, wrong updates. -------------------------------------------------------------------------------------


def test_the_same_update_again_changes_nothing(tmp_path: Path, local_engine: Engine) -> None:
    frame = crowd(5)
    files = write(tmp_path / "in", a=frame[:300], b=frame[300:450], c=frame[450:])
    out = tmp_path / "out"
    first = begin(files["a"], out, local_engine)
    second = go_on(out, files["b"], local_engine)
    for run in (out, first.run.folder, second.run.folder):  # the latest is the update itself by now
        again = go_on(run, files["b"], local_engine)
        assert (again.reused, again.run.run_id) == (True, second.run.run_id)
    third = go_on(out, files["c"], local_engine)
    assert go_on(first.run.folder, files["b"], local_engine).reused
    assert resolve_run(str(out)).run_id == second.run.run_id
    assert len(list((out / "runs").iterdir())) == 3
    for name in ("a", "b"):
        with pytest.raises(UsageError, match=r"has read these judgments before .* no judgment is read twice"):
            go_on(third.run.folder, files[name], local_engine)
    with pytest.raises(UsageError, match="has read these judgments before"):
        go_on(first.run.folder, files["a"], local_engine)


def test_the_new_run_may_go_elsewhere(tmp_path: Path, local_engine: Engine) -> None:
    frame = crowd(6)
    files = write(tmp_path / "in", a=frame[:300], b=frame[300:])
    first = begin(files["a"], tmp_path / "out", local_engine)
    second = go_on(tmp_path / "out", files["b"], local_engine, out=tmp_path / "other")
    assert second.run.folder.parent.parent == tmp_path / "other"
    assert resolve_run(str(tmp_path / "out")).run_id == first.run.run_id
    first.run.folder.rename(tmp_path / "alone")
    with pytest.raises(UsageError, match="say with --out"):
        go_on(tmp_path / "alone", files["b"], local_engine)


@pytest.mark.parametrize("method", ["crowd-bt", "borda"])
def test_methods_that_look_at_everything_cannot_go_on(method: str, tmp_path: Path, local_engine: Engine) -> None:
    files = write(tmp_path / "in", a=crowd(7, 100))
    begin(files["a"], tmp_path / "out", local_engine, method)
    with pytest.raises(UsageError, match=f"{method} looks at all judgments together"):
        go_on(tmp_path / "out", files["a"], local_engine)
    with pytest.raises(UsageError, match="borda looks at all judgments together"):
        Borda().fit(crowd(7, 100)).update(crowd(8, 100))


def damage(run: Path, name: str, content: bytes, *, hidden: bool) -> None:
    """Change a file of a run; hidden where the manifest is made to agree."""
    (run / name).write_bytes(content)
    if hidden:
        manifest = json.loads((run / MANIFEST).read_text())
        entry = {"bytes": len(content), "sha256": sha256_of(run / name)}
        manifest["files"][name] |= entry
        (run / MANIFEST).write_text(json.dumps(manifest))


def test_a_state_that_is_not_the_published_one_is_refused(tmp_path: Path, local_engine: Engine) -> None:
    frame = crowd(9, 100)
    files = write(tmp_path / "in", a=frame[:50], b=frame[50:])
    run = begin(files["a"], tmp_path / "out", local_engine).run.folder
    other = begin(files["b"], tmp_path / "other", local_engine, variance_floor=0.01).run.folder
    kept = {path.relative_to(run).as_posix(): path.read_bytes() for path in run.rglob("*") if path.is_file()}

    def refused(name: str, content: bytes, error: str, *, hidden: bool) -> None:
        damage(run, name, content, hidden=hidden)
        with pytest.raises(StoreError, match=error):
            go_on(tmp_path / "out", files["b"], local_engine)
        for known, original in kept.items():
            (run / known).write_bytes(original)

    for name in kept:
        if name.startswith("model/") or name == "run.json":
            refused(
                name, kept[name][:-1] + bytes([kept[name][-1] ^ 1]), "is not the file that was published", hidden=False
            )
    shorter = (other / "model" / "units-00000.npz").read_bytes()
    refused("model/units-00000.npz", shorter, "contradicts itself", hidden=True)
    refused("model/units-00000.npz", b"no arrays", "does not hold plain arrays", hidden=True)
    refused("model/units-00000.items.arrow", b"no ids", "does not hold ids", hidden=True)
    facts = (other / "model" / "model.json").read_bytes()
    refused("model/model.json", facts, "the state belongs to another run", hidden=True)
    refused(
        "model/model.json", kept["model/model.json"].replace(b'"schema": 1', b'"schema": 7'), "schema 7", hidden=True
    )
    assert go_on(tmp_path / "out", files["b"], local_engine).facts["parent"] == run.name


def test_a_pickle_in_the_state_is_not_opened(tmp_path: Path, local_engine: Engine) -> None:
    frame = crowd(10, 100)
    files = write(tmp_path / "in", a=frame[:50], b=frame[50:])
    run = begin(files["a"], tmp_path / "out", local_engine).run.folder
    np.savez(tmp_path / "hostile.npz", item=np.array([object()], dtype=object))
    damage(run, "model/units-00000.npz", (tmp_path / "hostile.npz").read_bytes(), hidden=True)
    with pytest.raises(StoreError, match="does not hold plain arrays"):
        go_on(tmp_path / "out", files["b"], local_engine)


def test_other_id_types_are_refused() -> None:
    result = CrowdBTOnline().fit(crowd(11, 50))
    numbers = pd.DataFrame({"query": ["q0"], "annotator": ["a0"], "winner": [1], "loser": [2]})
    with pytest.raises(InputError, match=r"item ids such as 1 \(int64\), but the run that is continued has"):
        result.update(numbers)


def test_what_cannot_be_known_is_told(tmp_path: Path, local_engine: Engine) -> None:
    frame = crowd(12, 100)
    first = CrowdBTOnline().fit(frame[50:])
    late = [warning for warning in first.update(frame[:50]).warnings if "before the last one" in warning]
    assert len(late) == 1
    assert late[0].startswith("50 of 50 new judgments have a timestamp before the last one that the run had read")
    assert not any(
        "before the last" in warning for warning in CrowdBTOnline().fit(frame[:50]).update(frame[50:]).warnings
    )
    files = write(tmp_path / "in", a=frame[:50], b=frame[50:])
    begin(files["a"], tmp_path / "out", local_engine, duplicates="drop")
    warnings = go_on(tmp_path / "out", files["b"], local_engine).facts["warnings"]
    assert any(warning.startswith("duplicates were dropped among the new judgments only") for warning in warnings)


def test_the_command_says_what_is_new_and_what_is_wrong(
    tmp_path: Path, local_engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = crowd(14, 100)
    files = write(tmp_path / "in", a=frame[:60], b=frame[60:])
    out = str(tmp_path / "out")
    parent = begin(files["a"], tmp_path / "out", local_engine).run.run_id
    assert main(["update", out, files["b"], "--engine", "local"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "crowd-bt-online: 100 judgments" in told
    assert f"40 of them are new since {parent}" in told
    assert main(["update", out, files["b"], "--engine", "local", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reused"] is True
    assert main(["update", out, files["a"], "--engine", "local"]) == 2
    assert "has read these judgments before" in capsys.readouterr().err
    assert main(["update", str(tmp_path / "nowhere"), files["b"]]) == 1
    assert "neither an output folder, nor a run folder" in capsys.readouterr().err


# Killed in the middle. -----------------------------------------------------------------------------------------------


@pytest.mark.faults
@pytest.mark.parametrize("point", ["fit:checkpoint:2", "publish:before-manifest", "publish:renamed", "publish:link"])
def test_a_killed_update_leaves_the_latest_run_and_can_be_resumed(
    point: str, tmp_path: Path, local_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = crowd(13)
    files = write(tmp_path / "in", a=frame[:200], b=frame[200:])
    monkeypatch.setattr(_online, "BLOCK", 100)
    for out in ("calm", "killed"):
        parent = begin(files["a"], tmp_path / out, local_engine).run.run_id
    calm = go_on(tmp_path / "calm", files["b"], local_engine)
    small_blocks = "import sys; from distrank import cli; from distrank.models import _online; _online.BLOCK = 100; "
    program = [sys.executable, "-c", small_blocks + "sys.exit(cli.main(sys.argv[1:]))"]
    command = [*program, "update", str(tmp_path / "killed"), files["b"], "--quiet", "--engine", "local"]
    command += ["--checkpoint-iterations", "1"]
    environment = {**os.environ, "DISTRANK_FAULT": point}
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    assert resolve_run(str(tmp_path / "killed")).run_id == parent
    subprocess.run([*command, "--resume"], check=True, capture_output=True)
    run = resolve_run(str(tmp_path / "killed"))
    assert run.run_id == calm.run.run_id
    files_of = [{name: entry["sha256"] for name, entry in found.manifest["files"].items()} for found in (run, calm.run)]
    assert {**files_of[0], "run.json": ""} == {**files_of[1], "run.json": ""}
    resumed = run.facts()["execution"]["resumed_from"]
    assert resumed is not None if point == "fit:checkpoint:2" else True
