"""Which partitions are new, changed or gone since a run: by path, size and sha256, not by time stamps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from distrank.tables.sources import Location, find_files

HASHERS = 4  # files read at a time


@dataclass(frozen=True)
class PartitionChanges:
    """Paths by what happened to them; `same` counts the rest."""

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    same: int = 0

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.removed)

    def facts(self) -> dict[str, Any]:
        """For run.json."""
        return {"new": list(self.new), "changed": list(self.changed), "removed": list(self.removed), "same": self.same}

    def text(self) -> str:
        """In words."""
        counts = {"new": self.new, "changed": self.changed, "removed": self.removed}
        return ", ".join([*(f"{len(paths):,} {name}" for name, paths in counts.items()), f"{self.same:,} as before"])


def fingerprints(source: Location | list[Location]) -> list[dict[str, Any]]:
    """Path, size and sha256 of every file of a source."""
    files = find_files(source)
    with ThreadPoolExecutor(HASHERS, thread_name_prefix="sha256") as pool:
        return list(pool.map(lambda file: file.fingerprint(), files))


def partition_changes(before: Iterable[Mapping[str, Any]], now: Iterable[Mapping[str, Any]]) -> PartitionChanges:
    """What happened between two lists of fingerprints."""
    old = {str(entry["path"]): (entry["size"], entry["sha256"]) for entry in before}
    new = {str(entry["path"]): (entry["size"], entry["sha256"]) for entry in now}
    both = old.keys() & new.keys()
    changed = sorted(path for path in both if old[path] != new[path])
    return PartitionChanges(
        new=tuple(sorted(new.keys() - old.keys())),
        changed=tuple(changed),
        removed=tuple(sorted(old.keys() - new.keys())),
        same=len(both) - len(changed),
    )
