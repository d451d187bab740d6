"""Ids are hostile text: they come back as they went in, name no file, and are shown harmlessly everywhere."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from distrank.cli import main

HOSTILE = [
    "<script>alert(1)</script>",
    "\x1b[31mred\x1b[0m\x07",
    "=cmd|' /C calc'!A0",
    "+1", "-1", "@SUM(A1)",
    "../../etc/passwd",
    "/etc/passwd",
    "nul\x00inside",
    "line\nbreak",
    "\u202eevil",
    "'; DROP TABLE items; --",
    "x" * 1_000_000,
]  # fmt: skip


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nights over ids of the worst kind, as query, item and annotator."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "in").mkdir()
    pairs = [(one, other) for one in HOSTILE for other in HOSTILE if one != other]
    rows = [(HOSTILE[place % 3], HOSTILE[place % len(HOSTILE)], *pair) for place, pair in enumerate(pairs)]
    frame = pd.DataFrame(rows, columns=["query", "annotator", "winner", "loser"])
    frame.iloc[::2].to_parquet(folder / "in" / "a.parquet")
    content = {"name": "hostile", "input": "in", "out": "out", "csv": True, "engine": {"name": "local"}}
    (folder / "nightly.yaml").write_text(yaml.safe_dump(content))
    assert main(["nightly", str(folder / "nightly.yaml"), "--quiet"]) == 0
    frame.iloc[1::2].to_parquet(folder / "in" / "b.parquet")
    assert main(["nightly", str(folder / "nightly.yaml"), "--quiet"]) == 0
    return folder


def test_ids_come_back_as_they_went_in(nights: Path) -> None:
    assert set(pd.read_parquet(nights / "out" / "latest" / "rankings.parquet")["item"]) == set(HOSTILE)
    assert set(pd.read_parquet(nights / "out" / "latest" / "annotators.parquet")["annotator"]) <= set(HOSTILE)


def test_no_file_is_named_by_an_id(nights: Path) -> None:
    names = [path.name for path in (nights / "out").rglob("*")]
    assert all(name.isascii() and name.isprintable() for name in names)
    assert not any(text[:20] in name for name in names for text in HOSTILE if len(text) > 4)
    assert {path.name for path in nights.iterdir()} == {"in", "out", "nightly.yaml"}


def commands(nights: Path) -> list[list[str]]:
    out = str(nights / "out")
    old = min((nights / "out" / "runs").iterdir(), key=lambda path: path.stat().st_mtime)
    return [
        ["show", out, "--top", "0"],
        ["diff", str(old), out, "--top", "100"],
        ["history", out],
        ["status", out],
        ["show", out, "--query", HOSTILE[1]],
    ]


def test_terminals_show_them_escaped(nights: Path, capsys: Any) -> None:
    for command in commands(nights):
        assert main(command) == 0
        told = capsys.readouterr()
        for text in (told.out, told.err):
            assert not {char for char in text if not char.isprintable()} - {"\n"}, command
            assert len(text) < 200_000, command  # a megabyte of id does not fill the screen


def test_a_message_shows_them_escaped(nights: Path, capsys: Any) -> None:
    config = yaml.safe_load((nights / "nightly.yaml").read_text())
    config |= {"gates": {"max_rank_change": 0}, "settings": {"regularization": 3.0}}
    (nights / "strict.yaml").write_text(yaml.safe_dump(config))
    assert main(["nightly", str(nights / "strict.yaml"), "--quiet"]) == 1
    error = capsys.readouterr().err
    (nights / "strict.yaml").unlink()
    assert "max_rank_change=0" in error
    assert not {char for char in error if not char.isprintable()} - {"\n"}
    assert len(error) < 5_000


def test_spreadsheets_run_nothing(nights: Path) -> None:
    for path in (nights / "out" / "latest").glob("*.csv"):
        csv.field_size_limit(10_000_000)
        with path.open(newline="") as file:
            for row in csv.DictReader(line.replace("\0", "") for line in file):
                for name in ("query", "item", "annotator"):
                    assert not (row.get(name) or "").startswith(("=", "+", "-", "@")), path


def test_run_json_holds_no_ids(nights: Path) -> None:
    text = (nights / "out" / "latest" / "run.json").read_text()
    assert json.loads(text)["night"]["since"]["items"]["common"] > 0
    assert "<script>" not in text
    assert "x" * 1000 not in text
