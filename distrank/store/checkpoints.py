"""Checkpoints: complete states of a fit, so that a killed run goes on as if nothing had happened.

    out/checkpoints/<run id>/<iteration>/    theta.npz, one file of local state per shard, manifest.json

Workers write local state, each shard to a file of its own; the manifest is written last and the folder renamed into
place, so a checkpoint is there completely or not at all. The run id is a hash of input, settings and code: a
checkpoint of anything else lies in another folder, and `--resume` says what differs instead of using it.
"""

from __future__ import annotations

import secrets
import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

from distrank.engine.base import Placement
from distrank.errors import StoreError
from distrank.faults import fault_point
from distrank.fit import Checkpoint
from distrank.records import Record, load_record, save_record
from distrank.store.files import fsync_folder, read_json, sha256_of, write_json

MANIFEST = "manifest.json"
SCHEMA = 1


class CheckpointFolder:
    """The checkpoints of one run: the newest complete one is kept."""

    def __init__(self, root: Path, run_id: str, identity: dict[str, Any], seconds: float, iterations: int = 0) -> None:
        """A checkpoint is due every `iterations` iterations, or, if that is 0, after `seconds` since the last."""
        self.root, self.folder = root, root / run_id
        self.identity, self.seconds, self.iterations = identity, seconds, iterations
        self.last: float | None = None  # the clock of the process that runs the loop

    def due(self, iteration: int) -> bool:
        if self.iterations:
            return iteration % self.iterations == 0
        if self.last is None:
            self.last = time.monotonic()
        return time.monotonic() - self.last >= self.seconds

    def save(self, placement: Placement, iteration: int, theta: Record, trace: list[dict[str, float]]) -> Checkpoint:
        """Write a complete state and make it the newest; older ones go."""
        self.folder.mkdir(parents=True, exist_ok=True)
        staged = self.folder / f"writing-{secrets.token_hex(4)}"
        staged.mkdir()
        files: dict[str, str] = {}
        for name in placement.shard_counts:
            files.update(placement.map(partial(_write_local, staged, name), {}, on=name))
        save_record(staged / "theta.npz", theta)
        files["theta.npz"] = sha256_of(staged / "theta.npz")
        manifest = {"schema": SCHEMA, "identity": self.identity, "iteration": iteration, "trace": trace, "files": files}
        fault_point(f"checkpoint:before-manifest:{iteration}")
        write_json(staged / MANIFEST, manifest)
        fsync_folder(staged)
        target = self.folder / f"{iteration:06d}"
        if target.exists():
            shutil.rmtree(target)
        staged.rename(target)
        fsync_folder(self.folder)
        for other in self.folder.iterdir():
            if other != target:
                shutil.rmtree(other, ignore_errors=True)
        self.last = time.monotonic()
        return Checkpoint(iteration, theta, trace, partial(_read_local, target))

    def newest(self) -> Checkpoint | None:
        """The newest complete checkpoint of this run, checked file by file; None if there is none."""
        for folder in sorted(self.folder.glob("[0-9]*"), reverse=True) if self.folder.is_dir() else []:
            if not (folder / MANIFEST).is_file():
                continue
            manifest = read_json(folder / MANIFEST)
            if manifest["schema"] != SCHEMA or manifest["identity"] != self.identity:
                difference = _difference(manifest["identity"], self.identity)
                raise StoreError(f"the checkpoint {folder} is stale and was not used: {difference}")
            for name, sha in manifest["files"].items():
                if sha256_of(folder / name) != sha:
                    raise StoreError(f"the checkpoint file {folder / name} is damaged; delete {folder} to start again")
            theta = load_record(folder / "theta.npz")
            return Checkpoint(manifest["iteration"], theta, manifest["trace"], partial(_read_local, folder))
        return None

    def refuse_stale(self) -> None:
        """For `--resume`: if the only checkpoints are of other input, settings or code, say what differs."""
        if self.folder.is_dir() or not self.root.is_dir():
            return
        for manifest in sorted(self.root.glob("*/[0-9]*/" + MANIFEST)):
            other = read_json(manifest)["identity"]
            if other.get("method") == self.identity.get("method"):
                raise StoreError(
                    f"the checkpoint {manifest.parent} is stale and was not used: {_difference(other, self.identity)}. "
                    "Run without --resume to start again."
                )

    def remove(self) -> None:
        """The run is published: its checkpoints are not needed any more."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _local_name(name: str, number: int) -> str:
    return f"{name}-{number:05d}.npz"


def _write_local(folder: Path, name: str, number: int, shard: Record, local: Record, theta: Record) -> tuple[str, str]:  # noqa: ARG001 (called for every shard)
    path = folder / _local_name(name, number)
    save_record(path, local)
    return path.name, sha256_of(path)


def _read_local(folder: Path, name: str, number: int) -> Record:
    return load_record(folder / _local_name(name, number))


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    """What changed between two identities, in words."""
    parts = []
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            inner = [key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]
            parts += [f"{name}.{key} was {before.get(key)!r}, is {after.get(key)!r}" for key in inner]
        else:
            parts.append(f"{name} was {before!r}, is {after!r}")
    return "; ".join(parts) or "it was written by another version"
