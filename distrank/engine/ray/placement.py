"""Shards on a Ray cluster: task results, never `ray.put`, so that Ray's retries and lineage are the whole recovery.

A range of shards is one object and one call per round; there is about one range per worker CPU, because a call costs
more than a millisecond. Loading, steps and checkpoint reads are deterministic tasks: a lost object is made again.
"""

from __future__ import annotations

import time
from typing import Any

import ray

from distrank.contract import Model, Step
from distrank.engine.base import (
    LocalReader,
    Placement,
    ShardMap,
    Source,
    contiguous_ranges,
    load_shard,
    run_range,
)
from distrank.engine.sums import Node, TreeSum
from distrank.engine.threads import one_numerical_thread_for_good
from distrank.errors import DistrankError, EngineError
from distrank.records import Array, Record, frozen

RETRIES = 3  # of a task whose worker or node was lost; an exception in our own code is not retried
INLINE_BYTES = 80_000  # below this, Ray sends an argument with the call; above it, one reference serves all calls
POLL_SECONDS = 5.0


class RayPlacement(Placement):
    """References to ranges of shards and to their local state."""

    def __init__(self, source: Source, model: Model, workers: int, stall_seconds: float, attempt: int) -> None:
        self.workers, self.stall_seconds, self.attempt = workers, stall_seconds, attempt
        rows = source.rows
        self.shard_counts = {name: len(counts) for name, counts in rows.items()}
        self.ranges = {name: contiguous_ranges(counts, workers) for name, counts in rows.items()}
        self.shards = {
            name: [_load_range.remote(source, model, name, numbers) for numbers in ranges]
            for name, ranges in self.ranges.items()
        }
        self.local: dict[str, list[Any]] = {
            name: [[{} for _ in numbers] for numbers in ranges] for name, ranges in self.ranges.items()
        }
        # wait here, so that a source that a node cannot read fails at once and by name
        for name, refs in self.shards.items():
            self._get([_count.remote(ref) for ref in refs], f"loading the shards of {name!r}")

    def round(self, step: Step, theta: Record, key: Array, *, on: str, keep: bool) -> Record:
        self.rounds += 1
        total, parameters = self.shard_counts[on], _once(theta)
        calls = [
            _step_range.remote(step, shards, local, parameters, key, numbers.start, total, keep)
            for shards, local, numbers in zip(self.shards[on], self.local[on], self.ranges[on], strict=True)
        ]
        tree = TreeSum(total)
        answers = self._get([nodes for _, nodes in calls], f"step {step.__name__!r} on {on!r}")
        for place, (changed, nodes) in enumerate(answers):
            if changed:
                self.local[on][place] = calls[place][0]
            for node, stats in nodes:
                tree.add(node, stats)
        return frozen(tree.total())

    def map(self, function: ShardMap, theta: Record, *, on: str) -> list[Any]:
        parameters = _once(theta)
        calls = [
            _map_range.remote(function, shards, local, parameters, numbers)
            for shards, local, numbers in zip(self.shards[on], self.local[on], self.ranges[on], strict=True)
        ]
        return [result for results in self._get(calls, f"writing {on!r}") for result in results]

    def restore(self, read: LocalReader) -> None:
        # Local becomes the result of tasks that read a file: its lineage ends there, with every theta that it pins.
        for name, ranges in self.ranges.items():
            self.local[name] = [_read_range.remote(read, name, numbers) for numbers in ranges]

    def facts(self) -> dict[str, Any]:
        nodes = [node for node in ray.nodes() if node["Alive"]]
        return {"workers": self.workers, "nodes": len(nodes), "rounds": self.rounds}

    def _get(self, refs: list[Any], what: str) -> list[Any]:
        """The results in order. A wait that no node can end is an error with a name, never a hang."""
        last_progress, done_before = time.monotonic(), 0
        while True:
            try:
                return ray.get(refs, timeout=POLL_SECONDS)
            except ray.exceptions.GetTimeoutError:
                done = len(ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)[0])
                if done != done_before or not _idle():
                    last_progress, done_before = time.monotonic(), done
                elif time.monotonic() - last_progress > self.stall_seconds:
                    raise EngineError(
                        f"stalled: {what} has {len(refs) - done} of {len(refs)} calls pending for "
                        f"{self.stall_seconds:.0f} s and no node of the cluster is taking them "
                        f"(resources: {_resources()}). Each call needs 1 CPU on one node."
                    ) from None
            except ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, DistrankError):
                    raise error.cause from None
                raise


def _idle() -> bool:
    """Whether nothing runs although work is pending: no CPU in the cluster, or all of them free."""
    total, free = ray.cluster_resources().get("CPU", 0.0), ray.available_resources().get("CPU", 0.0)
    return total < 1.0 or free >= total


def _resources() -> str:
    return ", ".join(f"{name} {value:g}" for name, value in sorted(ray.cluster_resources().items()) if ":" not in name)


def _once(theta: Record) -> Any:
    """Theta itself if it is small, else one reference for all calls of the round."""
    return ray.put(theta) if sum(array.nbytes for array in theta.values()) > INLINE_BYTES else theta


# numba compiles read-only arrays as a type of its own, and small objects come out of Ray writeable: freeze them again
def _frozen_all(records: list[Record]) -> list[Record]:
    return [frozen(record) for record in records]


@ray.remote(num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD")
def _load_range(source: Source, model: Model, name: str, numbers: range) -> list[Record]:
    one_numerical_thread_for_good()
    try:
        return [load_shard(source, model, name, number) for number in numbers]
    except FileNotFoundError as error:
        raise EngineError(
            f"node {ray.util.get_node_ip_address()} cannot see {error.filename}: on several nodes the output folder "
            "must be on storage that all of them share"
        ) from error


@ray.remote(num_cpus=1, max_retries=RETRIES)
def _read_range(read: LocalReader, name: str, numbers: range) -> list[Record]:
    return [read(name, number) for number in numbers]


@ray.remote(num_cpus=1, max_retries=RETRIES)
def _count(shards: list[Record]) -> int:
    return len(shards)


@ray.remote(num_cpus=1, max_retries=RETRIES, num_returns=2)
def _step_range(
    step: Step,
    shards: list[Record],
    local: list[Record],
    theta: Record,
    key: Array,
    first: int,
    total: int,
    keep: bool,
) -> tuple[list[Record] | None, tuple[bool, list[tuple[Node, Record | None]]]]:
    one_numerical_thread_for_good()
    shards, local = _frozen_all(shards), _frozen_all(local)
    new_local, nodes = run_range(step, shards, local, frozen(theta), frozen({"key": key})["key"], first, total)
    changed = keep and any(new is not old for new, old in zip(new_local, local, strict=True))
    return (new_local if changed else None), (changed, nodes)


@ray.remote(num_cpus=1, max_retries=RETRIES)
def _map_range(
    function: ShardMap, shards: list[Record], local: list[Record], theta: Record, numbers: range
) -> list[Any]:
    one_numerical_thread_for_good()
    shards, local, theta = _frozen_all(shards), _frozen_all(local), frozen(theta)
    return [function(n, shard, state, theta) for n, shard, state in zip(numbers, shards, local, strict=True)]
