"""Nights: what changed is found, what is published passed its gates, what fails leaves the latest run as it was."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from nights import Nights

from distrank.errors import DistrankError, InputError, StoreError
from distrank.nightly.gates import GateError
from distrank.runs import Request, aggregate


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    return Nights(tmp_path)


def scores(folder: Path) -> pd.Series:
    return pd.read_parquet(folder / "rankings.parquet").set_index(["query", "item"])["score"].sort_index()


def test_a_month_in_small(nights: Nights, local_engine: Any, tmp_path: Path) -> None:
    """A file a day; the third is corrupt and repaired a day later; the end is what one cold run gives."""
    iterations = []
    for day in range(6):
        path = nights.arrive(day)
        if day == 2:
            whole = path.read_bytes()
            path.write_bytes(whole[: len(whole) // 2])
            before = nights.out.joinpath("latest").resolve()
            with pytest.raises(InputError, match=r"day-02\.parquet"):
                nights.night()
            assert nights.out.joinpath("latest").resolve() == before
            continue
        if day == 3:
            nights.judgments.joinpath("day-02.parquet").write_bytes(whole)
        night = nights.night()
        assert night.outcome == "published"
        assert len(night.partitions.new) == (2 if day == 3 else 1)
        assert night.published is not None
        assert (night.published.facts["night"]["since"] is None) == (day == 0)
        iterations.append(night.published.facts["convergence"]["iterations"])
    assert len(nights.runs()) == 5
    cold = aggregate(Request(str(nights.judgments), tmp_path / "cold"), local_engine, lambda _: None)
    assert np.abs(scores(nights.out / "latest") - scores(cold.run.folder)).max() < 1e-3
    assert iterations[-1] < cold.facts["convergence"]["iterations"]
    (failure,) = nights.failures()
    record = json.loads(failure.read_text())
    assert record["state"] == "failed"
    assert record["stage"] == "read"
    assert "day-02.parquet" in record["error"]["text"]


def test_a_second_night_does_nothing(nights: Nights) -> None:
    nights.arrive(0)
    first = nights.night()
    files = {
        path: path.stat().st_mtime_ns for path in nights.out.rglob("*") if path.is_file() and "lock" not in path.name
    }
    again = nights.night()
    assert again.outcome == "unchanged"
    assert again.exit_code == 0
    assert again.published is not None
    assert first.published is not None
    assert again.published.run.run_id == first.published.run.run_id
    now = {
        path: path.stat().st_mtime_ns for path in nights.out.rglob("*") if path.is_file() and "lock" not in path.name
    }
    assert now == files


def test_the_same_judgments_in_other_files_are_no_change(nights: Nights) -> None:
    path = nights.arrive(0)
    nights.night()
    table = pd.read_parquet(path)
    table.sample(frac=1.0, random_state=1).to_csv(path.with_suffix(".csv"), index=False)
    path.unlink()
    night = nights.night()
    assert (len(night.partitions.new), len(night.partitions.removed)) == (1, 1)
    assert night.outcome == "unchanged"
    assert len(nights.runs()) == 1


@pytest.mark.parametrize(
    "changed", [{"settings": {"regularization": 1.0}}, {"method": "bradley-terry"}, {"seed": 3}], ids=str
)
def test_other_settings_are_a_change(nights: Nights, changed: dict[str, Any]) -> None:
    nights.arrive(0)
    nights.night()
    assert nights.night(**changed).outcome == "published"
    assert nights.night(**changed).outcome == "unchanged"


def test_changed_and_removed_partitions_are_seen(nights: Nights) -> None:
    paths = [nights.arrive(day) for day in range(3)]
    nights.night()
    paths[0].unlink()
    nights.days[1].head(30).to_parquet(paths[1])
    night = nights.night()
    assert [Path(path).name for path in night.partitions.removed] == ["day-00.parquet"]
    assert [Path(path).name for path in night.partitions.changed] == ["day-01.parquet"]
    assert night.partitions.same == 1
    assert night.published is not None
    assert night.published.facts["input"]["judgments"] == 30 + len(nights.days[2])


def test_the_fit_starts_from_the_last_run(nights: Nights) -> None:
    nights.arrive(0)
    first = nights.night().published
    nights.arrive(1)
    second = nights.night().published
    nights.arrive(2)
    cold = nights.night(warm_start=False).published
    assert first is not None
    assert second is not None
    assert cold is not None
    assert first.facts["settings"]["start"] == "ones"
    assert second.facts["settings"]["start"] == first.run.run_id
    assert cold.facts["settings"]["start"] == "ones"


GATES = {
    "min_judgments=1,000,000": {"min_judgments": 1_000_000},
    "max_rank_change=0": {"max_rank_change": 0},
    "min_gold_agreement=0.5: there is no gold": {"min_gold_agreement": 0.5},
}


@pytest.mark.parametrize(("message", "gates"), GATES.items(), ids=GATES.keys())
def test_a_gate_keeps_a_result_from_being_published(nights: Nights, message: str, gates: dict[str, Any]) -> None:
    nights.arrive(0)
    nights.night()
    before = nights.out.joinpath("latest").resolve()
    nights.arrive(1)
    with pytest.raises(GateError, match=message):
        nights.night(gates=gates)
    assert nights.out.joinpath("latest").resolve() == before
    assert len(nights.runs()) == 1
    assert list(nights.out.joinpath("staging").glob("*@*")) == []
    assert json.loads(nights.failures()[0].read_text())["latest"] == before.name
    assert nights.night().outcome == "published"


def test_a_fit_that_did_not_converge_is_published_only_if_asked(nights: Nights) -> None:
    nights.arrive(0)
    short = {"settings": {"max_iterations": 2}}
    with pytest.raises(GateError, match="require_converged"):
        nights.night(**short)
    night = nights.night(**short, gates={"require_converged": False})
    assert night.exit_code == 3


@pytest.mark.parametrize("method", ["crowd-bt", "borda"])
def test_agreement_with_gold_is_a_gate(nights: Nights, method: str) -> None:
    nights.arrive(0)
    night = nights.night(method=method)
    assert night.published is not None
    ranking = pd.read_parquet(night.published.run.path("rankings.parquet"))
    gold = ranking[["query", "item"]].assign(relevance=-ranking["rank"])
    gold.to_csv(nights.folder / "gold.csv", index=False)
    agreeing = nights.night(method=method, gold="gold.csv", gates={"min_gold_agreement": 0.95})
    assert agreeing.published is not None
    assert agreeing.published.facts["night"]["gold_agreement"] > 0.95  # equal scores of borda count as wrong
    (gold.assign(relevance=ranking["rank"])).to_csv(nights.folder / "gold.csv", index=False)
    with pytest.raises(GateError, match=r"agreement with gold is 0\.[0-4]"):  # crowd-bt would turn around for gold
        nights.night(method="borda", gold="gold.csv", gates={"min_gold_agreement": 0.95})


def test_old_runs_failures_and_checkpoints_go(nights: Nights) -> None:
    abandoned = nights.out / "checkpoints" / "crowd-bt-0" / "000001"
    abandoned.mkdir(parents=True)
    keep = {"runs": 2, "failures": 1, "checkpoint_days": 0}
    for day in range(4):
        nights.arrive(day)
        with pytest.raises(GateError):
            nights.night(gates={"min_judgments": 10**9})
        time.sleep(1.0)  # records are ordered by the second
        night = nights.night(keep=keep)
    assert len(nights.runs()) == 2
    assert nights.out.joinpath("latest").resolve().name in nights.runs()
    assert len(nights.failures()) == 1
    assert not abandoned.exists()
    assert night.removed


def test_the_command_is_told_of_a_failure(nights: Nights) -> None:
    told = nights.folder / "told; touch canary"
    code = "import pathlib, shutil, sys; shutil.copy(sys.argv[2], sys.argv[1])"
    nights.arrive(0).write_bytes(b"PAR1 nothing")
    with pytest.raises(DistrankError) as caught:
        nights.night(on_failure=[sys.executable, "-c", code, str(told)])
    assert json.loads(told.read_text())["error"]["text"] == str(caught.value)
    assert "recorded in" in caught.value.__notes__[0]
    with pytest.raises(InputError):  # a command that does not exist is no reason to hide the failure itself
        nights.night(on_failure=["/no/such/command"])


def test_nights_exclude_each_other(nights: Nights) -> None:
    nights.arrive(0)
    nights.night()
    holder = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'r+'); fcntl.flock(f, fcntl.LOCK_EX); "
        "print(1, flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", holder, str(nights.out / ".nightly.lock")], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        with pytest.raises(StoreError, match="another night is at work"):
            nights.night()
        assert nights.failures() == []
    finally:
        process.kill()
        process.wait()
    assert nights.night().outcome == "unchanged"
