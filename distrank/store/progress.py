"""Progress as a file in the output folder: `distrank status` reads it on any machine that sees the folder.

    out/progress/<run or night>@<host>@<pid>@<random>     JSON, replaced as a whole about once a second

The file goes when the work ends, whatever way; one that a killed process left is told by its age and its process.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from distrank.engine.base import Report
from distrank.store.files import read_json
from distrank.store.owners import host, is_alive, owned_name

FOLDER = "progress"
SECONDS = 1.0  # between two writes
SILENT_SECONDS = 120.0  # without a write: perhaps dead, perhaps in a long step


class ProgressFile:
    """A report that passes everything on and keeps the newest of every stage in a file."""

    def __init__(self, root: Path, report: Report, about: dict[str, Any]) -> None:
        (root / FOLDER).mkdir(parents=True, exist_ok=True)
        self.path, self.report = root / FOLDER / owned_name("run"), report
        begun = datetime.now(UTC).isoformat(timespec="seconds")
        self.state: dict[str, Any] = {**about, "host": host(), "started": begun, "stages": {}}
        self.written = 0.0
        self._write()

    def __call__(self, entry: dict[str, Any]) -> None:
        self.report(entry)
        stage = str(entry.get("stage", ""))
        self.state["stage"] = stage
        self.state["stages"][stage] = {name: value for name, value in entry.items() if name != "stage"}
        if entry.get("state") or time.monotonic() - self.written >= SECONDS:
            self._write()

    def _write(self) -> None:
        self.written = time.monotonic()
        self.state["updated"] = datetime.now(UTC).isoformat(timespec="seconds")
        staged = self.path.with_name(f".{self.path.name}")
        try:
            staged.write_text(json.dumps(self.state, default=str) + "\n", encoding="utf-8")
            staged.replace(self.path)
        except OSError:
            return  # progress is a convenience: a full disk fails the run where it matters, not here

    def close(self) -> None:
        self.path.unlink(missing_ok=True)
        self.path.with_name(f".{self.path.name}").unlink(missing_ok=True)


@contextmanager
def progress_file(root: Path, report: Report, about: dict[str, Any]) -> Iterator[Report]:
    """The report to use meanwhile."""
    file = ProgressFile(root, report, about)
    try:
        yield file
    finally:
        file.close()


def running(root: Path) -> list[dict[str, Any]]:
    """What is under way in an output folder, with `seconds` since the last sign of life and whether it is `alive`."""
    found = []
    folder = root / FOLDER
    for path in sorted(folder.glob("run@*")) if folder.is_dir() else []:
        try:
            state, age = read_json(path), time.time() - path.stat().st_mtime
        except OSError:
            continue  # it ended while we looked
        found.append({**state, "seconds": age, "alive": is_alive(path) and age < SILENT_SECONDS})
    return found


def remove_dead(root: Path) -> None:
    """Remove what killed processes left."""
    folder = root / FOLDER
    for path in folder.iterdir() if folder.is_dir() else []:
        if not is_alive(path):
            path.unlink(missing_ok=True)
