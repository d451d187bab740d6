"""The command line as people use it: what it prints, what it leaves, how it ends."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from distrank import Borda, BradleyTerry, CrowdBT
from distrank.cli import main
from distrank.errors import InputError, UsageError
from distrank.models import MODELS
from distrank.simulate import simulate_crowd_bt

HOSTILE = [
    "<script>alert(1)</script>",
    "\x1b[31mred\x1b[0m",
    "=cmd()",
    "nul\0nul",
    "../../etc",
    "x" * 100_000,
    "üñí ☃",
    "a\nb",
]
TABLES = ("rankings", "annotators", "queries")


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crowd")
    simulate_crowd_bt(queries=5, items=8, annotators=12, pairs=12, annotators_per_pair=4, seed=2).write(folder)
    return folder


def aggregate(crowd: Path, out: Path, *more: str) -> int:
    arguments = ["aggregate", str(crowd / "preferences.parquet"), "--out", str(out), "--quiet", "--engine", "local"]
    return main([*arguments, *more])


def compared(out: Path) -> dict[str, Any]:
    """What must be the same bytes: the tables, and run.json without its execution block."""
    folder = out / "latest"
    facts = json.loads((folder / "run.json").read_text())
    facts.pop("execution")
    return {
        "facts": facts,
        **{n: (folder / f"{n}.parquet").read_bytes() for n in ("rankings", "annotators", "queries")},
    }


def test_a_run_is_complete(crowd: Path, tmp_path: Path) -> None:
    assert aggregate(crowd, tmp_path, "--seed", "3", "--set", "regularization=0.7") == 0
    run = json.loads((tmp_path / "latest" / "run.json").read_text())
    assert run["method"] == "crowd-bt"
    assert run["settings"]["regularization"] == 0.7
    assert run["seed"] == 3
    assert run["input"]["read"] == run["input"]["accepted"] == 5 * 12 * 4
    assert run["convergence"]["converged"] is True
    assert run["convergence"]["projected_gradient_norm"] < 1e-2
    objectives = [entry["objective"] for entry in run["convergence"]["trace"]]
    assert len(objectives) == run["convergence"]["iterations"] + 1
    assert run["versions"]["numpy"]
    assert run["machine"]["cpu_features"]
    execution = run["execution"]
    assert execution["engine"] == "local"
    assert set(execution["seconds"]) >= {"read", "shard", "engine", "fit", "finalize"}
    assert execution["shards"] == {"units": 1, "parts": 0}
    assert execution["files"][0]["sha256"]
    rankings = pd.read_parquet(tmp_path / "latest" / "rankings.parquet")
    bounds = ["score_low", "score_high", "rank_low", "rank_high", "score_sd"]
    assert list(rankings.columns) == ["query", "item", "rank", "score", *bounds]
    annotators = pd.read_parquet(tmp_path / "latest" / "annotators.parquet")
    assert list(annotators.columns)[:4] == ["annotator", "judgments", "quality", "kind"]
    assert annotators["judgments"].sum() == 240


def test_the_same_request_publishes_nothing_new(crowd: Path, tmp_path: Path) -> None:
    assert aggregate(crowd, tmp_path) == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")}
    assert aggregate(crowd, tmp_path) == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*") if path.name != ".committed"} == {
        path: time for path, time in before.items() if path.name != ".committed"
    }
    assert aggregate(crowd, tmp_path, "--method", "borda") == 0
    assert aggregate(crowd, tmp_path) == 0  # and the run that was asked for is the latest again
    assert json.loads((tmp_path / "latest" / "run.json").read_text())["method"] == "crowd-bt"
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_file_splits_formats_and_hash_seeds_do_not_matter(crowd: Path, tmp_path: Path) -> None:
    frame = pd.read_parquet(crowd / "preferences.parquet").sample(frac=1.0, random_state=1)
    folder = tmp_path / "split"
    folder.mkdir()
    frame.iloc[:100].to_parquet(folder / "b.parquet")
    frame.iloc[100:].to_csv(folder / "a.csv.gz", index=False)
    assert aggregate(crowd, tmp_path / "one") == 0
    command = [
        sys.executable,
        "-m",
        "distrank.cli",
        "aggregate",
        str(folder),
        "--out",
        str(tmp_path / "two"),
        "--quiet",
    ]
    subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "123"}, check=True)
    assert compared(tmp_path / "one") == compared(tmp_path / "two")


def test_ended_without_convergence_is_exit_code_3_and_still_published(crowd: Path, tmp_path: Path, capsys: Any) -> None:
    assert aggregate(crowd, tmp_path, "--set", "max_iterations=1") == 3
    assert json.loads((tmp_path / "latest" / "run.json").read_text())["convergence"]["converged"] is False
    assert "without converging" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--method", "crowdbt"], 2, "unknown method 'crowdbt'"),
        (["--set", "lambda=1"], 2, "unknown setting 'lambda'; known here: annotator_quality, duplicates"),
        (["--set", "regularization=-1"], 2, "setting regularization='-1': expected a number, above 0, or auto"),
        (["--set", "regularization"], 2, "expected name=value"),
        (["--settings", "/no/such.yaml"], 2, "No such file"),
        (["--gold", "/no/such.csv"], 1, "no such file"),
        (["--set", "start=gold"], 2, "needs a gold table"),
        (["--columns", "annotator=nobody"], 1, "nobody"),
        (["--engine", "local", "--address", "auto"], 2, "--address belongs to the ray engine"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], code: int, text: str, crowd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert aggregate(crowd, tmp_path, *arguments) == code
    error = capsys.readouterr().err
    assert text in error
    assert "Traceback" not in error
    assert not (tmp_path / "latest").exists()


def test_debug_shows_the_traceback(crowd: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        aggregate(crowd, tmp_path, "--method", "crowdbt", "--debug")


def test_too_many_rejected_rows_fail_the_run_and_leave_latest(crowd: Path, tmp_path: Path, capsys: Any) -> None:
    assert aggregate(crowd, tmp_path / "out") == 0
    before = compared(tmp_path / "out")
    frame = pd.read_parquet(crowd / "preferences.parquet")
    frame.loc[::5, "loser"] = frame.loc[::5, "winner"]
    frame.to_csv(tmp_path / "bad.csv", index=False)
    arguments = ["aggregate", str(tmp_path / "bad.csv"), "--out", str(tmp_path / "out"), "--quiet"]
    assert main(arguments) == 1
    assert "winner and loser are the same item" in capsys.readouterr().err
    assert compared(tmp_path / "out") == before
    assert main([*arguments, "--max-rejected", "0.5"]) == 0
    rejected = pd.read_parquet(tmp_path / "out" / "latest" / "rejected.parquet")
    assert len(rejected) == 48
    assert list(rejected.columns)[:3] == ["source", "row", "reason"]
    assert rejected["row"].tolist()[:3] == [1, 6, 11]


def test_settings_come_from_yaml_and_set_goes_before_it(crowd: Path, tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("regularization: 2\nties: drop\n")
    more = ["--settings", str(tmp_path / "settings.yaml"), "--set", "regularization=3"]
    assert aggregate(crowd, tmp_path / "out", *more) == 0
    settings = json.loads((tmp_path / "out" / "latest" / "run.json").read_text())["settings"]
    assert (settings["regularization"], settings["ties"]) == (3.0, "drop")


def test_show_and_evaluate_read_what_aggregate_wrote(crowd: Path, tmp_path: Path, capsys: Any) -> None:
    assert aggregate(crowd, tmp_path, "--csv") == 0
    assert main(["show", str(tmp_path), "--query", "q3", "--json"]) == 0
    ranking = json.loads(capsys.readouterr().out)["rankings"]
    assert [row["rank"] for row in ranking] == list(range(1, 9))
    assert main(["show", str(tmp_path), "--table", "annotators", "--csv", "--top", "0", "--verify"]) == 0
    assert len(list(csv.DictReader(io.StringIO(capsys.readouterr().out)))) == 12
    assert main(["show", str(tmp_path), "--query", "nobody"]) == 2
    capsys.readouterr()
    gold = str(crowd / "gold.csv")
    csv_file = str(tmp_path / "latest" / "rankings.csv")
    assert main(["evaluate", str(tmp_path), csv_file, "--gold", gold, "--json", "--metrics", "accuracy,ndcg@5"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert runs[0]["metrics"] == runs[1]["metrics"]
    assert runs[0]["metrics"]["accuracy"]["mean"] > 0.7
    assert main(["evaluate", str(tmp_path), "--gold", gold, "--per-query", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["query"] for row in rows] == [f"q{n}" for n in range(5)]
    assert {row["run"] for row in rows} == {"crowd-bt"}


def test_methods_and_validate_speak_json(crowd: Path, capsys: Any) -> None:
    assert main(["methods", "--json"]) == 0
    assert [entry["name"] for entry in json.loads(capsys.readouterr().out)] == list(MODELS)
    assert main(["methods", "crowd-bt", "--json"]) == 0
    assert "duplicates" in [entry["name"] for entry in json.loads(capsys.readouterr().out)["settings"]]
    assert main(["validate", str(crowd / "preferences.parquet"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["form"], facts["accepted"], facts["annotators"]) == ("preferences", 240, 12)


def test_hostile_ids_are_shown_harmlessly(tmp_path: Path, capsys: Any) -> None:
    frame = pd.DataFrame({"query": "q", "annotator": HOSTILE, "winner": HOSTILE, "loser": HOSTILE[1:] + HOSTILE[:1]})
    frame.to_parquet(tmp_path / "hostile.parquet")
    arguments = ["aggregate", str(tmp_path / "hostile.parquet"), "--out", str(tmp_path / "out"), "--csv"]
    assert main(arguments) == 0
    assert main(["show", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr()
    for text in (printed.out, printed.err):
        assert "\x1b[31m" not in text
        assert "\0" not in text
        assert "x" * 1000 not in text
    written = pq.read_table(tmp_path / "out" / "latest" / "rankings.parquet")
    assert sorted(written["item"].to_pylist()) == sorted(HOSTILE)  # and they come back as they went in
    with (tmp_path / "out" / "latest" / "rankings.csv").open(newline="") as file:
        cells = [row["item"] for row in csv.DictReader(line.replace("\0", "") for line in file)]
    assert "'=cmd()" in cells
    assert not any(cell.startswith("=") for cell in cells)


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["aggregate", "--help"], ["simulate", "crowd-bt", "--help"], ["evaluate", "--help"]):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 0
        assert "distrank" in capsys.readouterr().out


@pytest.mark.parametrize("aggregator", [CrowdBT, BradleyTerry, Borda])
def test_python_gives_what_the_command_line_gives(aggregator: Any, crowd: Path, tmp_path: Path) -> None:
    frame = pd.read_parquet(crowd / "preferences.parquet")
    result = aggregator().fit(frame)
    assert aggregate(crowd, tmp_path, "--method", aggregator.method) == 0
    for table in TABLES:
        written = pd.read_parquet(tmp_path / "latest" / f"{table}.parquet")
        pd.testing.assert_frame_equal(getattr(result, table), written, check_exact=True)
    assert result.converged
    assert result.trace[-1]["iteration"] == result.iterations


def test_python_says_what_is_wrong() -> None:
    with pytest.raises(UsageError, match="unknown setting 'lam'"):
        CrowdBT(lam=0.5)
    with pytest.raises(InputError, match="column"):
        CrowdBT().fit(pd.DataFrame({"left": ["a"], "right": ["b"]}))
    same = pd.DataFrame({"annotator": ["a"] * 3, "winner": ["x"] * 3, "loser": ["x"] * 3})
    with pytest.raises(InputError, match="same item"):
        CrowdBT().fit(same)
