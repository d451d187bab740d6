"""Never a half-written result: a publish that is killed anywhere leaves the old run or the new one, never a mix."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from distrank.errors import StoreError
from distrank.store.publish import MANIFEST, OutputFolder, open_run, resolve_run

POINTS = ["publish:before-manifest", "publish:manifest", "publish:renamed", "publish:link", "publish:committed"]
_PUBLISH = """
import sys
from pathlib import Path
from distrank.store.publish import OutputFolder
output = OutputFolder(Path(sys.argv[1]))
with output.staging(sys.argv[2]) as folder:
    (folder / "rankings.txt").write_text(sys.argv[3])
    (folder / "run.json").write_text("{}")
    output.publish(folder, sys.argv[2], {"rankings.txt": 1, "run.json": 0})
"""


def publish(root: Path, run_id: str, text: str, fault: str = "") -> int:
    """Publish in a process of its own, which dies at the named point."""
    environment = {**os.environ, "DISTRANK_FAULT": fault}
    return subprocess.run(
        [sys.executable, "-c", _PUBLISH, str(root), run_id, text], env=environment, check=False
    ).returncode


def latest_text(root: Path) -> str:
    run = resolve_run(str(root))
    run.verify()
    return run.path("rankings.txt").read_text()


@pytest.mark.faults
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_publish_leaves_the_old_run_or_the_new_one(point: str, tmp_path: Path) -> None:
    assert publish(tmp_path, "one", "old") == 0
    assert publish(tmp_path, "two", "new", fault=point) == -signal.SIGKILL
    assert latest_text(tmp_path) == ("new" if point == "publish:committed" else "old")
    # whatever was left over, the next publish goes through and cleans up
    committed = {"one", "two"} if point == "publish:committed" else {"one"}
    assert {run.run_id for run in OutputFolder(tmp_path).runs()} == committed
    assert publish(tmp_path, "three", "newer") == 0
    assert latest_text(tmp_path) == "newer"
    assert {path.name for path in (tmp_path / "runs").iterdir()} == committed | {"three"}
    assert [path.name for path in (tmp_path / "staging").iterdir()] == [".lock"]


@pytest.mark.faults
@pytest.mark.parametrize("point", POINTS[:-1])
def test_the_run_that_was_killed_can_be_published_again(point: str, tmp_path: Path) -> None:
    assert publish(tmp_path, "one", "first", fault=point) == -signal.SIGKILL
    assert OutputFolder(tmp_path).latest() is None
    assert publish(tmp_path, "one", "first") == 0
    assert latest_text(tmp_path) == "first"


def test_only_files_that_the_manifest_names_are_published(tmp_path: Path) -> None:
    output = OutputFolder(tmp_path)
    with output.staging("run") as folder:
        (folder / "parts").mkdir()
        (folder / "parts" / "left-over").write_text("from a repeated attempt")
        (folder / "run.json").write_text("{}")
        run = output.publish(folder, "run", {"run.json": 0})
    assert {path.name for path in run.folder.iterdir()} == {"run.json", MANIFEST, ".committed"}
    with pytest.raises(StoreError, match=r"has no rankings\.parquet"):
        run.path("rankings.parquet")


def test_a_late_writer_changes_nothing(tmp_path: Path) -> None:
    """A zombie that still writes into its staging folder after the commit does not reach the published run."""
    output = OutputFolder(tmp_path)
    with output.staging("run") as zombie, output.staging("run") as folder:
        (zombie / "run.json").write_text("late")
        (folder / "run.json").write_text("{}")
        run = output.publish(folder, "run", {"run.json": 0})
        (zombie / "run.json").write_text("later")
        run.verify()
        with pytest.raises(StoreError, match="published already"):
            output.publish(zombie, "run", {"run.json": 0})
    run.verify()


def test_the_folder_of_a_writer_on_another_machine_is_left_alone(tmp_path: Path) -> None:
    output = OutputFolder(tmp_path)
    elsewhere = tmp_path / "staging" / "run@another-machine@1@abcd"
    dead = tmp_path / "staging" / f"run@{platform.node()}@999999999@abcd"
    for folder in (elsewhere, dead):
        folder.mkdir()
    assert publish(tmp_path, "run", "text") == 0
    assert elsewhere.is_dir()
    assert not dead.exists()
    os.utime(elsewhere, (0, 0))  # a week and more without a change
    assert publish(tmp_path, "next", "text") == 0
    assert not elsewhere.exists()
    assert output.latest() is not None


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    assert publish(tmp_path, "run", "text") == 0
    path = resolve_run(str(tmp_path)).path("rankings.txt")
    path.write_text("taxt")
    with pytest.raises(StoreError, match="damaged"):
        resolve_run(str(tmp_path)).verify()


def test_an_old_run_can_be_made_the_latest_again(tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert publish(tmp_path, name, name) == 0
    output = OutputFolder(tmp_path)
    old = output.find("one")
    assert old is not None
    output.point_to(old)
    assert latest_text(tmp_path) == "one"
    assert {run.run_id for run in output.runs()} == {"one", "two"}


@pytest.mark.parametrize("run_id", ["../escape", "/absolute", "nul\0", "", "a/../../b"])
def test_names_stay_inside_the_folder(run_id: str, tmp_path: Path) -> None:
    output = OutputFolder(tmp_path / "out")
    with pytest.raises(StoreError), output.staging(run_id):
        pass
    with pytest.raises(StoreError):
        output.find(run_id)


def test_a_manifest_cannot_name_files_outside(tmp_path: Path) -> None:
    assert publish(tmp_path, "run", "text") == 0
    folder = resolve_run(str(tmp_path)).folder
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"]["../../../secret"] = {"rows": 0, "bytes": 0, "sha256": ""}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match="not a name inside"):
        open_run(folder).path("../../../secret")


def test_a_folder_that_cannot_be_written_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be written"):
        OutputFolder(tmp_path / "file" / "out")


def test_run_is_an_output_folder_a_run_folder_or_an_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert publish(tmp_path / "out", "one", "1") == 0
    assert publish(tmp_path / "out", "two", "2") == 0
    monkeypatch.chdir(tmp_path)
    assert resolve_run("out").run_id == "two"
    assert resolve_run("out/runs/one").run_id == "one"
    assert resolve_run("one").run_id == "one"
    with pytest.raises(StoreError, match="neither"):
        resolve_run("three")
    OutputFolder(tmp_path / "empty")
    with pytest.raises(StoreError, match="no finished run"):
        resolve_run("empty")
