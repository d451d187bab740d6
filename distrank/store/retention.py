"""What is kept: old runs, checkpoints that nobody resumed, records of failures and what killed processes left.

A run is moved out of `runs/` by one rename before it is deleted: a reader finds it whole, or not at all.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from distrank.store.owners import owned_name
from distrank.store.progress import remove_dead
from distrank.store.publish import OutputFolder


def prune(output: OutputFolder, *, runs: int, failures: int, checkpoint_seconds: float) -> list[str]:
    """Remove what is beyond the limits; the names of what was removed."""
    remove_dead(output.root)
    removed = _prune_runs(output, runs)
    removed += _prune_checkpoints(output.root / "checkpoints", checkpoint_seconds)
    return removed + _prune_oldest(output.root / "failures", failures)


def _prune_runs(output: OutputFolder, keep: int) -> list[str]:
    latest = output.latest()
    old = [run for run in output.runs()[keep:] if latest is None or run.run_id != latest.run_id]
    for run in old:
        aside = output.root / "staging" / owned_name(run.run_id)
        run.folder.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
    return [run.run_id for run in old]


def _prune_checkpoints(folder: Path, seconds: float) -> list[str]:
    """Checkpoints of runs that were given up: nothing in them was written for a long time."""
    old = [entry for entry in folder.iterdir() if time.time() - _last_written(entry) > seconds]
    for entry in old:
        shutil.rmtree(entry, ignore_errors=True)
    return [f"checkpoints/{entry.name}" for entry in old]


def _last_written(folder: Path) -> float:
    times = []
    for path in (folder, *folder.rglob("*")):
        try:
            times.append(path.stat().st_mtime)
        except FileNotFoundError:  # a running fit replaces its checkpoints
            times.append(time.time())
    return max(times)


def _prune_oldest(folder: Path, keep: int) -> list[str]:
    """Folders whose names begin with their time."""
    old = sorted(folder.iterdir(), reverse=True)[keep:] if folder.is_dir() else []
    for entry in old:
        shutil.rmtree(entry, ignore_errors=True)
    return [f"failures/{entry.name}" for entry in old]
