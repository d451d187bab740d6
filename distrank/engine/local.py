"""The local engine: a thread pool on this machine, no start-up. For small inputs and tests, and as the referee.

Kernels release the GIL, so threads are enough. A thread takes a contiguous range of shards at a time: several ranges
per thread keep both cores busy to the end, few enough that Python's own work per range does not show.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from distrank.contract import Model, Step
from distrank.engine.base import (
    A,
    Engine,
    LocalReader,
    Placement,
    Report,
    ShardMap,
    Source,
    T,
    contiguous_ranges,
    load_shard,
    run_range,
)
from distrank.engine.sums import Node, TreeSum
from distrank.engine.threads import one_numerical_thread
from distrank.records import Array, Record, frozen

RANGES_PER_WORKER = 4


class LocalEngine(Engine):
    """Threads of this process."""

    name = "local"
    shares_memory = True

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or os.cpu_count() or 1
        self.pool = ThreadPoolExecutor(self.workers, thread_name_prefix="distrank")

    def execute(self, main: Callable[[Placement, Report], T], source: Source, model: Model, report: Report) -> T:
        with one_numerical_thread():
            return main(LocalPlacement(self.pool, self.workers, source, model), report)

    def each(self, function: Callable[[A], Any], items: Sequence[A], what: str) -> list[Any]:  # noqa: ARG002
        return list(self.pool.map(function, items))

    def close(self) -> None:
        self.pool.shutdown()


class LocalPlacement(Placement):
    """Shards and local state in this process's memory."""

    def __init__(self, pool: ThreadPoolExecutor, workers: int, source: Source, model: Model) -> None:
        self.pool, self.workers = pool, workers
        rows = source.rows
        self.shard_counts = {name: len(counts) for name, counts in rows.items()}
        self.ranges = {name: contiguous_ranges(counts, RANGES_PER_WORKER * workers) for name, counts in rows.items()}
        self.shards = {name: self._each(name, lambda n, i: load_shard(source, model, n, i)) for name in rows}
        self.local: dict[str, list[Record]] = {name: [{} for _ in counts] for name, counts in rows.items()}

    def round(self, step: Step, theta: Record, key: Array, *, on: str, keep: bool) -> Record:
        self.rounds += 1
        theta, key = frozen(theta), frozen({"key": key})["key"]
        shards, local, total = self.shards[on], self.local[on], self.shard_counts[on]
        tree = TreeSum(total)

        def call(numbers: range) -> tuple[list[Record], list[tuple[Node, Record | None]]]:
            span = slice(numbers.start, numbers.stop)
            return run_range(step, shards[span], local[span], theta, key, numbers.start, total)

        # In flight are the few ranges of a round at most, each with the statistics of its tree nodes.
        for numbers, (new_local, nodes) in zip(self.ranges[on], self.pool.map(call, self.ranges[on]), strict=True):
            if keep:
                local[numbers.start : numbers.stop] = new_local
            for node, stats in nodes:
                tree.add(node, stats)
        return frozen(tree.total())

    def map(self, function: ShardMap, theta: Record, *, on: str) -> list[Any]:
        theta = frozen(theta)
        return self._each(on, lambda name, i: function(i, self.shards[name][i], self.local[name][i], theta))

    def restore(self, read: LocalReader) -> None:
        for name in self.shard_counts:
            self.local[name] = self._each(name, lambda n, i: frozen(read(n, i)))

    def facts(self) -> dict[str, Any]:
        return {"workers": self.workers, "nodes": 1, "rounds": self.rounds}

    def _each(self, name: str, function: Callable[[str, int], Any]) -> list[Any]:
        return list(self.pool.map(lambda number: function(name, number), range(self.shard_counts[name])))
