"""The output folder and the atomic step.

    out/runs/<run id>/     finished runs: the files that manifest.json names, with rows and sha256
    out/latest             a symlink to the newest run; replacing it is the commit
    out/checkpoints/       states of runs that are under way (store.checkpoints)
    out/staging/           runs being written; left-overs of killed ones are removed by the next publish
    out/progress/          what is under way (store.progress)
    out/failures/          run.json of nights that failed (distrank.nightly)

A run counts if `latest` points to it, or if it carries the mark that it once did; the mark is set right after the
commit, and at the latest before the next one. A folder that was renamed into place but never became `latest` has no
mark, is ignored and is cleaned up.
"""

from __future__ import annotations

import fcntl
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from distrank.errors import StoreError
from distrank.faults import fault_point
from distrank.store.files import fsync_file, fsync_folder, inside, read_json, sha256_of, write_json
from distrank.store.owners import is_alive, owned_name

MANIFEST = "manifest.json"
RUN_FILE = "run.json"
MARK = ".committed"
SCHEMA = 1


@dataclass(frozen=True)
class PublishedRun:
    """A finished run: readers go through its manifest, so files that it does not name do not exist for them."""

    folder: Path
    manifest: dict[str, Any]

    @property
    def run_id(self) -> str:
        return str(self.manifest["run"])

    def path(self, name: str) -> Path:
        """The path of one of the run's files."""
        if name not in self.manifest["files"]:
            raise StoreError(f"run {self.run_id} has no {name}; it holds: {', '.join(sorted(self.manifest['files']))}")
        return inside(self.folder, name)

    def has(self, name: str) -> bool:
        return name in self.manifest["files"]

    def facts(self) -> dict[str, Any]:
        """run.json."""
        return dict(read_json(self.path(RUN_FILE)))

    def verify(self, under: str = "") -> None:
        """Check every file, or those whose names begin so, against the manifest's size and sha256."""
        for name, entry in self.manifest["files"].items():
            if not name.startswith(under):
                continue
            path = self.path(name)
            if not path.is_file() or path.stat().st_size != entry["bytes"] or sha256_of(path) != entry["sha256"]:
                raise StoreError(f"{path} is not the file that was published; the run is damaged")


class OutputFolder:
    """`out/`: made if it is not there; an error at the start, not after hours, if it cannot be written."""

    def __init__(self, root: Path) -> None:
        self.root = root = root.absolute()  # workers on other nodes have another working directory
        try:
            for name in ("runs", "staging", "checkpoints"):
                (root / name).mkdir(parents=True, exist_ok=True)
            probe = root / "staging" / f"probe-{secrets.token_hex(8)}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise StoreError(f"the output folder {root} cannot be written: {error.strerror or error}") from error

    def find(self, run_id: str) -> PublishedRun | None:
        """A run of this folder that counts, by id."""
        folder = inside(self.root / "runs", run_id)
        return open_run(folder) if self._counts(folder) else None

    def latest(self) -> PublishedRun | None:
        """The newest run, or None before the first."""
        link = self.root / "latest"
        return open_run(link) if link.is_symlink() else None

    def runs(self) -> list[PublishedRun]:
        """The runs that count, newest first."""
        found = [open_run(folder) for folder in (self.root / "runs").iterdir() if self._counts(folder)]
        return sorted(found, key=lambda run: (run.manifest["published"], run.run_id), reverse=True)

    def point_to(self, run: PublishedRun) -> None:
        """Make a run that was published before the latest again."""
        with self._lock():
            self._commit(run.run_id)

    @contextmanager
    def staging(self, run_id: str) -> Iterator[Path]:
        """A folder of its own to write a run into; gone afterwards unless it was published."""
        inside(self.root / "runs", run_id)
        folder = inside(self.root / "staging", owned_name(run_id))
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, staged: Path, run_id: str, rows: dict[str, int]) -> PublishedRun:
        """Make the staged folder the latest run: all of it, or nothing.

        `rows` names exactly the files of the run (with their row counts, where they are tables); what else lies in the
        folder, for example from a repeated attempt, is removed.
        """
        with self._lock():
            previous = self.latest()
            self._clean(run_id)
            files = {}
            for name in sorted(rows):
                path = inside(staged, name)
                fsync_file(path)
                files[name] = {"rows": rows[name], "bytes": path.stat().st_size, "sha256": sha256_of(path)}
            _remove_others(staged, files.keys())
            manifest = {
                "schema": SCHEMA,
                "run": run_id,
                "previous": previous.run_id if previous is not None else None,
                "published": datetime.now(UTC).isoformat(timespec="microseconds"),
                "files": files,
            }
            fault_point("publish:before-manifest")
            write_json(staged / MANIFEST, manifest)
            for folder in {path.parent for path in (staged / name for name in files)}:
                fsync_folder(folder)
            fault_point("publish:manifest")
            target = inside(self.root / "runs", run_id)
            staged.rename(target)
            fsync_folder(target.parent)
            fault_point("publish:renamed")
            self._commit(run_id)
            return PublishedRun(target, manifest)

    def _commit(self, run_id: str) -> None:
        """Replace `latest` in one step."""
        link = self.root / "staging" / f"latest-{secrets.token_hex(4)}"
        link.symlink_to(Path("runs") / run_id)
        fault_point("publish:link")
        link.replace(self.root / "latest")
        fsync_folder(self.root)
        fault_point("publish:committed")
        (self.root / "runs" / run_id / MARK).touch()

    def _counts(self, folder: Path) -> bool:
        link = self.root / "latest"
        return (folder / MARK).is_file() or (link.is_symlink() and link.resolve() == folder.resolve())

    def _clean(self, run_id: str) -> None:
        """Remove what killed runs left: run folders that do not count, links and folders of dead writers."""
        if self.find(run_id) is not None:
            raise StoreError(f"run {run_id} is published already")
        for folder in (self.root / "runs").iterdir():
            if self._counts(folder):
                (folder / MARK).touch()  # the writer may have been killed between its commit and its mark
            else:
                shutil.rmtree(folder, ignore_errors=True)
        for entry in (self.root / "staging").iterdir():
            if entry.is_symlink():
                entry.unlink()
            elif entry.is_dir() and not is_alive(entry):
                shutil.rmtree(entry, ignore_errors=True)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """One publisher at a time on this folder."""
        with (self.root / "staging" / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _remove_others(staged: Path, names: Iterable[str]) -> None:
    """Leave exactly the named files in a staged folder."""
    keep = set(names)
    for path in sorted(staged.rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.relative_to(staged).as_posix() not in keep:
            path.unlink()


def open_run(folder: Path) -> PublishedRun:
    """A run by its folder (or a link to it)."""
    folder = folder.resolve()
    manifest = read_json(folder / MANIFEST)
    if manifest.get("schema") != SCHEMA:
        raise StoreError(f"{folder} has schema {manifest.get('schema')!r}; this version of distrank reads {SCHEMA}")
    return PublishedRun(folder, manifest)


def resolve_run(text: str) -> PublishedRun:
    """RUN as users give it: an output folder (its latest run), a run folder, or a run id under ./out."""
    path = Path(text)
    if (path / MANIFEST).is_file():
        return open_run(path)
    if (path / "latest").is_symlink():
        return open_run(path / "latest")
    if (path / "runs").is_dir():
        raise StoreError(f"{text} holds no finished run yet")
    by_id = Path("out") / "runs" / text
    if "/" not in text and (by_id / MANIFEST).is_file():
        return open_run(by_id)
    raise StoreError(f"{text!r} is neither an output folder, nor a run folder, nor the id of a run under ./out")
