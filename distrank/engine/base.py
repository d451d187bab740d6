"""What an engine offers: shards that stay where they are, rounds over them, and one place to run the loop.

Source      where shards come from: it can load shard number i of a set, again if it must
Placement   shards and their local state in one place, and rounds over them
Engine      runs `main(placement, report)` next to the parameters: called directly, or inside the parameter actor
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from distrank.contract import Model, Step
from distrank.engine.sums import Node, TreeSum
from distrank.records import Array, Record, frozen, load_record, save_record

A = TypeVar("A")
T = TypeVar("T")
Report: TypeAlias = Callable[[dict[str, Any]], None]  # progress, one small dict at a time
ShardMap: TypeAlias = Callable[[int, Record, Record, Record], Any]  # (number, shard, local, theta) -> small result
LocalReader: TypeAlias = Callable[[str, int], Record]  # (set, number) -> local, from a checkpoint


class Source(Protocol):
    """Shards that can be loaded, and loaded again after a loss. Row counts serve to balance the load."""

    @property
    def rows(self) -> dict[str, list[int]]: ...

    def load(self, name: str, number: int) -> Record: ...


@dataclass(frozen=True)
class MemorySource:
    """Shards held by this process."""

    sets: dict[str, list[Record]]

    @property
    def rows(self) -> dict[str, list[int]]:
        return {name: [_rows(shard) for shard in shards] for name, shards in self.sets.items()}

    def load(self, name: str, number: int) -> Record:
        return self.sets[name][number]


@dataclass(frozen=True)
class FileSource:
    """Shards in files that every node can read: what makes a lost shard one task away."""

    folder: Path
    rows: dict[str, list[int]]

    @staticmethod
    def write(folder: Path, source: Source) -> FileSource:
        """Write every shard of a source, each to a file named by set and number."""
        folder.mkdir(parents=True, exist_ok=True)
        rows = source.rows
        for name, counts in rows.items():
            for number in range(len(counts)):
                save_record(shard_path(folder, name, number), source.load(name, number))
        return FileSource(folder, rows)

    def load(self, name: str, number: int) -> Record:
        return load_record(shard_path(self.folder, name, number))


class Placement(ABC):
    """Shards of every set with their local state, wherever they are, and rounds over them."""

    rounds: int = 0
    attempt: int = 0  # how often the place that held the parameters was lost before
    shard_counts: dict[str, int]

    @abstractmethod
    def round(self, step: Step, theta: Record, key: Array, *, on: str, keep: bool) -> Record:
        """Call the step on every shard of the set, keep the new local if asked, return the sum of the statistics."""

    @abstractmethod
    def map(self, function: ShardMap, theta: Record, *, on: str) -> list[Any]:
        """Call a function on every shard of the set where it lies; its small results in shard order."""

    @abstractmethod
    def restore(self, read: LocalReader) -> None:
        """Replace local by what a checkpoint holds (also right after writing one, to forget how local came about)."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """For the `execution` block of run.json: workers, nodes, calls per round."""


class Engine(ABC):
    """A place to run: opened as a context, asked once per fit."""

    name: str
    shares_memory: bool  # whether placements can use shards that the calling process holds

    @abstractmethod
    def execute(self, main: Callable[[Placement, Report], T], source: Source, model: Model, report: Report) -> T:
        """Place the source's shards, prepared by the model, and run main beside the parameters."""

    @abstractmethod
    def each(self, function: Callable[[A], Any], items: Sequence[A], what: str) -> list[Any]:
        """The function of every item, wherever there is a worker, in the order of the items.

        The function is pure but for files that it writes under names of their own: it may run twice. `what` says what
        it does, for errors.
        """

    def check_sees(self, paths: Sequence[Path]) -> None:  # noqa: B027 (engines on this machine see what it sees)
        """Refuse to start where a worker could not read these paths."""

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Give back what was opened."""


def load_shard(source: Source, model: Model, name: str, number: int) -> Record:
    """One shard as steps see it: read-only, with the model's derived arrays."""
    return frozen(model.prepare(frozen(source.load(name, number))))


def run_range(
    step: Step,
    shards: list[Record],
    local: list[Record],
    theta: Record,
    key: Array,
    first: int,
    total: int,
) -> tuple[list[Record], list[tuple[Node, Record | None]]]:
    """A step over a contiguous range of shards: the new local, and the tree nodes that the range completes."""
    tree = TreeSum(total)
    new_local: list[Record] = []
    for offset, (shard, state) in enumerate(zip(shards, local, strict=True)):
        changed, stats = step(shard, state, theta, key)
        new_local.append(state if changed is None else frozen(changed))
        tree.add((0, first + offset), {name: np.asarray(value) for name, value in stats.items()})
    return new_local, tree.nodes()


def contiguous_ranges(rows: list[int], pieces: int) -> list[range]:
    """Shard numbers cut into at most `pieces` contiguous ranges of about equal row counts.

    A cut may be off by a tenth of a range to fall on a boundary of the summation tree: the range then completes few
    nodes, and there is little to send.
    """
    ends = np.concatenate([[0.0], np.cumsum(np.asarray(rows, dtype=np.float64) + 1.0)])
    slack = 0.1 * ends[-1] / pieces
    cuts = {0, len(rows)}
    for piece in range(1, pieces):
        goal = ends[-1] * piece / pieces
        near = np.flatnonzero(np.abs(ends - goal) <= slack)
        nearest = int(np.abs(ends - goal).argmin())
        cuts.add(max((int(cut) for cut in near), key=_trailing_zeros, default=nearest))
    return [range(begin, end) for begin, end in pairwise(sorted(cuts))]


def _trailing_zeros(number: int) -> int:
    return (number & -number).bit_length() if number else 64


def _rows(shard: Record) -> int:
    return len(shard["row.annotator"]) if "row.annotator" in shard else 0


def shard_path(folder: Path, name: str, number: int) -> Path:
    """The file of a shard."""
    return folder / f"{name}-{number:05d}.npz"
