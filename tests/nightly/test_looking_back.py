"""`history`, `diff` and `status`: what is known of the nights afterwards, and of one under way."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from nights import Nights

from distrank.changes import Tables, compare_runs
from distrank.cli import main
from distrank.store.progress import progress_file, running


def tables(ranks: dict[tuple[str, str], int], quality: dict[str, float]) -> Tables:
    rankings = pd.DataFrame([(*key, rank, -float(rank)) for key, rank in ranks.items()])
    rankings.columns = ["query", "item", "rank", "score"]
    kinds = ["expert" if value >= 0.85 else "malicious" if value < 0.4 else "average" for value in quality.values()]
    people = {"annotator": list(quality), "judgments": 10, "quality": list(quality.values()), "kind": kinds}
    return Tables(pa.Table.from_pandas(rankings), pa.Table.from_pandas(pd.DataFrame(people)))


def test_what_moved_is_counted_by_hand() -> None:
    before = tables({("q", "a"): 1, ("q", "b"): 2, ("q", "c"): 3, ("q", "gone"): 4}, {"ann": 0.9, "bob": 0.9, "x": 0.9})
    after = tables({("q", "a"): 3, ("q", "b"): 2, ("q", "c"): 1, ("r", "a"): 1}, {"ann": 0.8, "bob": 0.1, "new": 0.2})
    changes = compare_runs(before, after)
    assert changes.items == {"common": 3, "new": 1, "gone": 1}
    assert changes.ranks == {"changed": 2, "mean": pytest.approx(4 / 3), "largest": 2}
    assert [(mover.item, mover.before, mover.after) for mover in changes.movers] == [("a", 1, 3), ("c", 3, 1)]
    assert changes.annotators == {"common": 2, "new": 1, "gone": 1}
    assert changes.quality["largest"] == pytest.approx(0.8)
    assert [drift.annotator for drift in changes.drifts] == ["bob", "ann"]
    assert {drift.annotator: drift.kind_before for drift in changes.new_suspects} == {"bob": "expert", "new": "new"}
    assert changes.suspects == {"new": 2, "cleared": 0}


def test_a_run_differs_from_itself_in_nothing(tmp_path: Path) -> None:
    nights = Nights(tmp_path)
    nights.arrive(0)
    nights.night()
    table = Tables(*(pq.read_table(nights.out / "latest" / f"{name}.parquet") for name in ("rankings", "annotators")))
    changes = compare_runs(table, table)
    assert changes.ranks == {"changed": 0, "mean": 0.0, "largest": 0}
    assert changes.movers == changes.drifts == changes.new_suspects == []


def test_the_commands(tmp_path: Path, capsys: Any) -> None:
    nights = Nights(tmp_path)
    config = tmp_path / "nightly.yaml"
    config.write_text(yaml.safe_dump(nights.content))
    assert main(["nightly", str(config), "--check"]) == 0
    for day in range(2):
        nights.arrive(day)
        assert main(["nightly", str(config), "--quiet"]) == 0
    assert main(["nightly", str(config)]) == 0
    assert "nothing to do" in capsys.readouterr().out
    nights.arrive(2).write_bytes(b"")
    assert main(["nightly", str(config), "--quiet"]) == 1
    error = capsys.readouterr().err
    assert "the file is empty" in error
    assert "recorded in" in error
    assert "Traceback" not in error

    assert main(["history", str(nights.out), "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert [entry["state"] for entry in entries] == ["failed", "published", "published"]
    assert entries[1]["previous"] == entries[1]["start"] == entries[2]["run"]
    assert entries[1]["partitions"] == {"new": 1, "changed": 0, "removed": 0}
    assert main(["history", str(nights.out)]) == 0
    assert "failed" in capsys.readouterr().out

    old = nights.out / "runs" / entries[2]["run"]
    assert main(["diff", str(old), str(nights.out)]) == 0
    assert "48 in both" in capsys.readouterr().out
    assert main(["diff", str(old), str(nights.out), "--json", "--top", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["drifts"]) == 3

    assert main(["status", str(nights.out)]) == 0
    told = capsys.readouterr().out
    assert "nothing is under way" in told
    assert "failed: " in told


def test_status_of_what_is_under_way(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "runs").mkdir()
    with progress_file(tmp_path, lambda _: None, {"method": "crowd-bt"}) as report:
        report({"stage": "read", "state": "end", "seconds": 1.0})
        report({"stage": "fit", "iteration": 7, "objective": np.float64(-3.5)})
        (state,) = running(tmp_path)
        assert state["alive"]
        assert state["stages"]["read"]["seconds"] == 1.0
        assert main(["status", str(tmp_path)]) == 0
        assert "at work" in capsys.readouterr().out
        (path,) = (tmp_path / "progress").glob("run@*")
        os.utime(path, (1.0, 1.0))
        assert not running(tmp_path)[0]["alive"]
    assert running(tmp_path) == []


def test_progress_never_fails_a_run(tmp_path: Path) -> None:
    with progress_file(tmp_path, lambda _: None, {}) as report:
        (tmp_path / "progress").rename(tmp_path / "gone")
        report({"stage": "fit", "state": "begin"})
    assert running(tmp_path) == []


def test_looking_makes_no_folder(tmp_path: Path) -> None:
    for command in ("history", "status"):
        assert main([command, str(tmp_path / "nowhere")]) == 1
    assert not (tmp_path / "nowhere").exists()
