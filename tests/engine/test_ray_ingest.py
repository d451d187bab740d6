"""On a cluster the workers read the files: the bytes are those of the local engine, the driver sees counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from distrank.engine.base import Engine
from distrank.errors import EngineError, InputError
from distrank.runs import Published, Request, aggregate

pytestmark = pytest.mark.ray


def crowd(folder: Path, files: int = 4) -> Path:
    random = np.random.default_rng(5)
    folder.mkdir()
    for number in range(files):
        one = random.integers(0, 9, 700)
        columns = {"query": random.integers(0, 30, 700), "annotator": random.integers(0, 20, 700), "winner": one}
        frame = pd.DataFrame({**columns, "loser": (one + random.integers(1, 9, 700)) % 9})
        frame.loc[::100, "loser"] = frame.loc[::100, "winner"]
        frame.to_parquet(folder / f"part-{number}.parquet")
    return folder


def comparable(run: Published) -> dict[str, Any]:
    facts = {name: value for name, value in run.facts.items() if name != "execution"}
    tables = ("rankings", "annotators", "queries", "rejected")
    return {"facts": json.dumps(facts), **{name: run.run.path(f"{name}.parquet").read_bytes() for name in tables}}


def test_the_workers_read_and_the_bytes_are_the_same(
    tmp_path: Path, ray_engine: Engine, local_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = crowd(tmp_path / "in")
    here = aggregate(Request(str(source), tmp_path / "local"), local_engine, lambda _: None)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("the driver read judgments")

    monkeypatch.setattr("distrank.intake.read_judgments", never)
    there = aggregate(Request(str(source), tmp_path / "ray"), ray_engine, lambda _: None)
    assert comparable(there) == comparable(here)
    assert there.facts["execution"]["files"] == here.facts["execution"]["files"]
    assert there.facts["input"]["rejected"] == 28
    assert list((tmp_path / "ray" / "staging").glob("*@*")) == []
    monkeypatch.undo()
    start = {"start": str(here.run.folder)}
    warm = [
        aggregate(Request(str(source), tmp_path / name, settings=start), engine, lambda _: None)
        for name, engine in (("local", local_engine), ("ray", ray_engine))
    ]
    assert comparable(warm[0]) == comparable(warm[1])


def test_a_bad_file_is_refused_in_the_same_words_and_leaves_nothing(tmp_path: Path, ray_engine: Engine) -> None:
    source = crowd(tmp_path / "in")
    (source / "part-9.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"part-9\.parquet: not a complete Parquet file"):
        aggregate(Request(str(source), tmp_path / "out"), ray_engine, lambda _: None)
    assert list((tmp_path / "out" / "staging").glob("*@*")) == []


def test_a_folder_that_a_node_does_not_see_is_an_error_with_the_node(tmp_path: Path, ray_engine: Engine) -> None:
    with pytest.raises(EngineError, match=r"node .* cannot see .*nowhere"):
        ray_engine.check_sees([tmp_path, tmp_path / "nowhere"])
