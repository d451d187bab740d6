"""Shards on a Ray cluster: task results, never `ray.put`, so that Ray's retries and lineage are the whole recovery.

There is about one range of shards per worker CPU and one call per range and round, because a call costs milliseconds.
"""

from __future__ import annotations

from typing import Any

import ray

from distrank.contract import Model, Step
from distrank.engine.base import LocalReader, Placement, ShardMap, Source, contiguous_ranges
from distrank.engine.ray.tasks import Call, Range, count_shards, load_range, map_range, read_range, step_range
from distrank.engine.ray.waiting import collected
from distrank.engine.sums import TreeSum
from distrank.records import Array, Record, frozen

INLINE_BYTES = 95_000  # below this, Ray sends an argument with the call; above it, one reference serves all calls


class RayPlacement(Placement):
    """References to ranges of shards and to their local state."""

    def __init__(self, source: Source, model: Model, workers: int, stall_seconds: float, attempt: int) -> None:
        self.workers, self.stall_seconds, self.attempt = workers, stall_seconds, attempt
        rows = source.rows
        self.shard_counts = {name: len(counts) for name, counts in rows.items()}
        self.ranges: dict[str, list[Range]] = {
            name: [
                Range(numbers, load_range.remote(source, model, name, numbers), {})
                for numbers in contiguous_ranges(counts, workers)
            ]
            for name, counts in rows.items()
        }
        self.range_rows = [
            sum(rows[name][number] for number in where.numbers)
            for name, ranges in self.ranges.items()
            for where in ranges
        ]
        self.set_rows, self.rows_seen = {name: sum(counts) for name, counts in rows.items()}, 0
        # wait here, so that a source that a node cannot read fails at once and by name
        for name, ranges in self.ranges.items():
            self._get([count_shards.remote(where.shards) for where in ranges], f"loading the shards of {name!r}")

    def round(self, step: Step, theta: Record, key: Array, *, on: str, keep: bool) -> Record:
        self.rounds += 1
        self.rows_seen += self.set_rows[on]
        total, parameters, ranges = self.shard_counts[on], _once(theta), self.ranges[on]
        calls = [step_range.remote(Call(step, where, parameters, key, total, keep)) for where in ranges]
        tree = TreeSum(total)
        answers = self._get([answer for _, answer in calls], f"step {step.__name__!r} on {on!r}")
        for place, answer in enumerate(answers):
            if answer.sources is not None:
                ranges[place] = ranges[place].after(calls[place][0], answer.sources)
            for node, stats in answer.nodes:
                tree.add(node, stats)
        return frozen(tree.total())

    def map(self, function: ShardMap, theta: Record, *, on: str) -> list[Any]:
        parameters = _once(theta)
        calls = [map_range.remote(function, where, parameters) for where in self.ranges[on]]
        return [result for results in self._get(calls, f"writing {on!r}") for result in results]

    def restore(self, read: LocalReader) -> None:
        # Local becomes the result of tasks that read a file: its lineage ends there, with every theta that it pins.
        for name, ranges in self.ranges.items():
            calls = [read_range.remote(read, name, where.numbers) for where in ranges]
            sources = self._get([names for _, names in calls], f"reading the checkpoint of {name!r}")
            for place, (local, _) in enumerate(calls):
                ranges[place] = ranges[place].after(local, sources[place])

    def facts(self) -> dict[str, Any]:
        nodes = [node for node in ray.nodes() if node["Alive"]]
        return {"workers": self.workers, "nodes": len(nodes), "rounds": self.rounds}

    def _get(self, refs: list[Any], what: str) -> list[Any]:
        return collected(refs, what, self.stall_seconds)


def _once(theta: Record) -> Any:
    """Theta itself if it is small, else (in a list, so that the worker unpacks it) one reference for all calls."""
    return [ray.put(theta)] if sum(array.nbytes for array in theta.values()) > INLINE_BYTES else theta
