"""What models save with their run: any shape of it goes out and comes back, and nothing else gets in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from distrank.contract import Learned
from distrank.errors import StoreError
from distrank.store.learned import FOLDER, LearnedUnits, SavedModel, write_learned
from distrank.store.publish import OutputFolder, PublishedRun

TREES = "tree\nversion=v4\nfeature_names=bm25 ölänge\n"


def publish(root: Path, learned: Learned | None, shards: list[LearnedUnits]) -> PublishedRun:
    output = OutputFolder(root)
    with output.staging("run") as staged:
        (staged / "run.json").write_text('{"method": "a-ranker"}')
        files = {"run.json": 0}
        if learned is not None:
            folder = staged / FOLDER
            folder.mkdir()
            units = [name for number, shard in enumerate(shards) for name in shard.write(folder, f"units-{number:05d}")]
            people = pa.table({"annotator": ["ann", "bob"], "judgments": [3, 4]})
            names = write_learned(folder, learned, annotators=people, facts={"method": "a-ranker"}, units=units)
            files |= {f"{FOLDER}/{name}": 0 for name in names}
        return output.publish(staged, "run", files)


def test_a_ranker_of_weights_and_trees_comes_back(tmp_path: Path) -> None:
    learned = Learned({"w": np.array([0.1, -2.5])}, {"features": ["bm25", "länge"]}, {"trees.txt": TREES})
    saved = SavedModel.open(publish(tmp_path, learned, []))
    assert saved.parameters()["w"].tolist() == [0.1, -2.5]
    assert saved.text("trees.txt") == TREES
    assert saved.facts["features"] == ["bm25", "länge"]
    assert saved.annotators().to_pydict() == {"annotator": ["ann", "bob"], "judgments": [3, 4]}
    assert saved.units() == []


def test_units_of_many_shards_come_back_in_order(tmp_path: Path) -> None:
    shards = [
        LearnedUnits(pa.array([f"q{n}"]), pa.array([n, n + 1], pa.uint8()), {"item": np.arange(n, n + 2) / 3})
        for n in range(12)
    ]
    back = SavedModel.open(publish(tmp_path, Learned({}), shards)).units()
    assert len(back) == 12
    for found, shard in zip(back, shards, strict=True):
        assert found.queries.equals(shard.queries)
        assert found.items.equals(shard.items)
        assert found.record["item"].tobytes() == shard.record["item"].tobytes()
        assert not found.record["item"].flags.writeable


def test_a_run_without_a_saved_model_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="run run saved nothing that could be used again: a-ranker does not"):
        SavedModel.open(publish(tmp_path, None, []))


@pytest.mark.parametrize("name", ["../trees.txt", "/trees.txt"])
def test_files_of_a_model_stay_in_its_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a name inside"):
        publish(tmp_path, Learned({}, texts={name: TREES}), [])
