"""A disk that fills up at any moment of the publish: the latest run stays whole, and the error says what to do."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from distrank.engine.base import Engine
from distrank.errors import StoreError
from distrank.runs import Request, aggregate
from distrank.simulate import simulate_crowd_bt
from distrank.store.publish import OutputFolder

pytestmark = pytest.mark.faults
POINTS = ["publish:before-manifest", "publish:manifest", "publish:renamed", "publish:link"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    crowd = simulate_crowd_bt(queries=30, items=10, annotators=20, pairs=20, annotators_per_pair=4, law="model", seed=3)
    return crowd.write(tmp_path_factory.mktemp("crowd"))["preferences"]


@pytest.mark.parametrize("point", POINTS)
def test_no_space_at_any_point_of_the_publish(
    point: str, data: Path, tmp_path: Path, local_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = aggregate(Request(str(data), tmp_path), local_engine, lambda _: None)

    def full(name: str) -> None:
        if name == point:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    other = Request(str(data), tmp_path, settings={"regularization": 1.0})
    with monkeypatch.context() as patch:
        patch.setattr("distrank.store.publish.fault_point", full)
        with pytest.raises(StoreError, match=r"cannot be written: No space left.*latest run is the one that it was"):
            aggregate(other, local_engine, lambda _: None)
    output = OutputFolder(tmp_path)
    latest = output.latest()
    assert latest is not None
    assert latest.run_id == first.run.run_id
    latest.verify()
    assert [run.run_id for run in output.runs()] == [first.run.run_id]
    again = aggregate(other, local_engine, lambda _: None)
    assert not again.reused
    assert {run.run_id for run in output.runs()} == {first.run.run_id, again.run.run_id}
    assert list((tmp_path / "staging").glob("*@*")) == []


SCRIPT = """
set -e
mount -t tmpfs -o size=32m tmpfs "$1"
"$2" -m distrank.cli aggregate "$3" --out "$1/out" --engine local --quiet
before=$(readlink "$1/out/latest")
used=$(du -sk "$1" | cut -f1)
for room in 4 12 20 36 64; do
  mount -o remount,size=$((used + room))k "$1"
  if "$2" -m distrank.cli aggregate "$3" --out "$1/out" --engine local --quiet --set regularization=2; then
    echo "published with $room kB"; break
  fi
  [ "$(readlink "$1/out/latest")" = "$before" ]
  "$2" -m distrank.cli show "$1/out" --verify --json > /dev/null
done
mount -o remount,size=32m "$1"
"$2" -m distrank.cli aggregate "$3" --out "$1/out" --engine local --quiet --set regularization=2
"$2" -m distrank.cli show "$1/out" --verify --json > /dev/null
[ "$(readlink "$1/out/latest")" != "$before" ]
echo "the end"
"""


def test_a_real_full_disk(data: Path, tmp_path: Path) -> None:
    """A file system with a few kilobytes left, in a mount namespace of its own."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a file system of a given size needs root and unshare")
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["unshare", "--mount", "bash", "-c", SCRIPT, "full-disk", str(disk), sys.executable, str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert "the end" in done.stdout, done.stdout + done.stderr
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr, done.stderr
