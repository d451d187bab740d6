"""Checkpoints are complete or absent, and one of other input, settings or code is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distrank.engine.base import MemorySource
from distrank.engine.local import LocalEngine, LocalPlacement
from distrank.errors import StoreError
from distrank.models import make_model
from distrank.records import digest
from distrank.store.checkpoints import CheckpointFolder

IDENTITY: dict[str, Any] = {"content": "c0ffee", "method": "borda", "settings": {"ties": "half"}, "code": "1"}
THETA = {"quality": np.linspace(0.0, 1.0, 5), "objective": np.asarray(-1.0)}
TRACE = [{"iteration": 0, "objective": -0.1}, {"iteration": 1, "objective": 1 / 3}]


class Placed(LocalPlacement):
    """Two shards whose local state is known; no model is involved."""

    def __init__(self, engine: LocalEngine) -> None:
        self.pool, self.workers = engine.pool, engine.workers
        self.shard_counts = {"units": 2, "parts": 0}
        self.shards = {"units": [{}, {}], "parts": []}
        self.local = {"units": [{"score": np.arange(3.0)}, {"score": np.zeros(0)}], "parts": []}


def folder(root: Path, **changes: Any) -> CheckpointFolder:
    return CheckpointFolder(root, "borda-1", {**IDENTITY, **changes}, seconds=0.0)


def test_a_checkpoint_holds_everything(tmp_path: Path) -> None:
    with LocalEngine(1) as engine:
        folder(tmp_path).save(Placed(engine), 7, THETA, TRACE)
    found = folder(tmp_path).newest()
    assert found is not None
    assert (found.iteration, found.trace) == (7, TRACE)
    assert digest([found.theta]) == digest([THETA])
    assert digest([found.read_local("units", 0)]) == digest([{"score": np.arange(3.0)}])
    assert len(found.read_local("units", 1)["score"]) == 0


def test_only_the_newest_is_kept(tmp_path: Path) -> None:
    with LocalEngine(1) as engine:
        for iteration in (1, 2, 10):
            folder(tmp_path).save(Placed(engine), iteration, THETA, TRACE)
    assert [path.name for path in (tmp_path / "borda-1").iterdir()] == ["000010"]
    folder(tmp_path).remove()
    assert folder(tmp_path).newest() is None


def test_an_unfinished_checkpoint_does_not_exist(tmp_path: Path) -> None:
    with LocalEngine(1) as engine:
        folder(tmp_path).save(Placed(engine), 1, THETA, TRACE)
        folder(tmp_path).save(Placed(engine), 2, THETA, TRACE)
    (tmp_path / "borda-1" / "000002" / "manifest.json").unlink()
    assert folder(tmp_path).newest() is None


def test_a_damaged_file_is_noticed(tmp_path: Path) -> None:
    with LocalEngine(1) as engine:
        folder(tmp_path).save(Placed(engine), 1, THETA, TRACE)
    path = tmp_path / "borda-1" / "000001" / "units-00000.npz"
    content = bytearray(path.read_bytes())
    content[-30] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(StoreError, match="damaged"):
        folder(tmp_path).newest()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"content": "decade"}, "content was 'c0ffee', is 'decade'"),
        ({"settings": {"ties": "drop"}}, "settings.ties was 'half', is 'drop'"),
        ({"code": "2"}, "code was '1', is '2'"),
    ],
)
def test_a_stale_checkpoint_is_refused_by_name(changes: dict[str, Any], named: str, tmp_path: Path) -> None:
    with LocalEngine(1) as engine:
        folder(tmp_path).save(Placed(engine), 1, THETA, TRACE)
    with pytest.raises(StoreError, match="stale") as error:
        folder(tmp_path, **changes).newest()
    assert named in str(error.value)
    # the run id is a hash of the identity, so in practice the stale one lies in another folder
    other = CheckpointFolder(tmp_path, "borda-2", {**IDENTITY, **changes}, seconds=0.0)
    with pytest.raises(StoreError, match="stale") as error:
        other.refuse_stale()
    assert named in str(error.value)


def test_a_folder_without_checkpoints_refuses_nothing(tmp_path: Path) -> None:
    folder(tmp_path / "absent").refuse_stale()
    assert folder(tmp_path / "absent").newest() is None


def test_placement_restores_local_from_a_checkpoint(tmp_path: Path) -> None:
    with LocalEngine(1) as engine:
        saved = folder(tmp_path).save(Placed(engine), 1, THETA, TRACE)
        model = make_model("borda", {})
        empty = LocalPlacement(engine.pool, 1, MemorySource({"units": [], "parts": []}), model)
        empty.shard_counts = {"units": 2, "parts": 0}
        empty.restore(saved.read_local)
    assert digest(empty.local["units"]) == digest([{"score": np.arange(3.0)}, {"score": np.zeros(0)}])
