"""What runs on the workers: pure functions of their arguments, so that a lost result is made again by running them.

A range of shards is one object. Of the local state of a range, an object holds only the arrays that one step made;
`Range.local` says where each array lies. What a step leaves as it was, or only renames, is neither copied nor sent.

Workers keep the ranges that they saw last, unpacked; the memory is the object store's, so this costs next to nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import ray

from distrank.contract import Model, Step
from distrank.engine.base import LocalReader, ShardMap, Source, load_shard, run_range
from distrank.engine.sums import Node
from distrank.engine.threads import one_numerical_thread_for_good
from distrank.errors import EngineError
from distrank.records import Array, Record, frozen

RETRIES = 3  # of a task whose worker or node was lost; an exception in our own code is not retried
KEPT_RANGES = 2  # that a worker keeps unpacked


class Slot(NamedTuple):
    """Where an array of the local state lies, for every shard of a range: the object, and its name in there."""

    ref: Any
    name: str


class Range(NamedTuple):
    """Where a range of shards and its local state lie. References are unpacked by the worker, not by Ray."""

    numbers: range
    shards: Any
    local: dict[str, Slot]

    def after(self, made: Any, sources: dict[str, str | None]) -> Range:
        """The range after a step: every array is a new one, in `made`, or one from before under an old name."""
        local = {name: Slot(made, name) if old is None else self.local[old] for name, old in sources.items()}
        return self._replace(local=local)


class Call(NamedTuple):
    """A step over a range, as one argument: Ray packs every argument by itself."""

    step: Step
    where: Range
    theta: Any  # or a list with a reference to it
    key: Array
    total: int
    keep: bool


class Answer(NamedTuple):
    """What a step over a range says: its part of the sums, and where the arrays of local come from."""

    nodes: list[tuple[Node, Record | None]]
    sources: dict[str, str | None] | None  # name -> name before, or None for a new array; None if nothing changed


_unpacked: OrderedDict[str, dict[str, list[Record]]] = OrderedDict()


def _open(where: Range) -> tuple[list[Record], list[Record]]:
    """The shards of a range and their local state."""
    known = _unpacked.pop(where.shards.hex(), {})
    refs = {where.shards.hex(): where.shards, **{slot.ref.hex(): slot.ref for slot in where.local.values()}}
    unknown = [key for key in refs if key not in known]
    fetched = dict(zip(unknown, ray.get([refs[key] for key in unknown]), strict=True))
    objects = {key: known[key] if key in known else _frozen_all(fetched[key]) for key in refs}
    _unpacked[where.shards.hex()] = objects
    while len(_unpacked) > KEPT_RANGES:
        _unpacked.popitem(last=False)
    found = {name: objects[slot.ref.hex()] for name, slot in where.local.items()}
    local = [
        {name: found[name][place][slot.name] for name, slot in where.local.items()}
        for place in range(len(where.numbers))
    ]
    return objects[where.shards.hex()], local


def _parameters(theta: Any) -> Record:
    """Theta, whether it came with the call or by reference."""
    return ray.get(theta[0]) if isinstance(theta, list) else theta


def _frozen_all(records: list[Record]) -> list[Record]:
    """Small objects come out of Ray writeable, and numba compiles read-only arrays as a type of its own."""
    return [frozen(record) for record in records]


@ray.remote(num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD")
def load_range(source: Source, model: Model, name: str, numbers: range) -> list[Record]:
    """Shards as steps see them."""
    one_numerical_thread_for_good()
    try:
        return [load_shard(source, model, name, number) for number in numbers]
    except FileNotFoundError as error:
        raise EngineError(
            f"node {ray.util.get_node_ip_address()} cannot see {error.filename}: on several nodes the output folder "
            "must be on storage that all of them share"
        ) from error


@ray.remote(num_cpus=1, max_retries=RETRIES, num_returns=2)
def read_range(read: LocalReader, name: str, numbers: range) -> tuple[list[Record], dict[str, str | None]]:
    """Local state from a checkpoint, and the names of its arrays."""
    local = [read(name, number) for number in numbers]
    return local, dict.fromkeys(local[0])


@ray.remote(num_cpus=1, max_retries=RETRIES)
def count_shards(shards: list[Record]) -> int:
    """Says that a range is loaded."""
    return len(shards)


@ray.remote(num_cpus=1, max_retries=RETRIES, num_returns=2)
def step_range(call: Call) -> tuple[list[Record], Answer]:
    """A step over a range: the arrays of local that it made, and its answer."""
    one_numerical_thread_for_good()
    shards, local = _open(call.where)
    theta, key = frozen(_parameters(call.theta)), frozen({"key": call.key})["key"]
    new_local, nodes = run_range(call.step, shards, local, theta, key, call.where.numbers.start, call.total)
    if not call.keep or all(new is old for new, old in zip(new_local, local, strict=True)):
        return [], Answer(nodes, None)
    sources = _sources(local, new_local)
    made = [name for name, old in sources.items() if old is None]
    return [{name: state[name] for name in made} for state in new_local], Answer(nodes, sources)


def _sources(before: list[Record], after: list[Record]) -> dict[str, str | None]:
    """Where every array of local comes from: an array counts as old if it is one in all shards, under one name."""
    sources: dict[str, str | None] = {}
    for old, new in zip(before, after, strict=True):
        names = {id(array): name for name, array in old.items()}
        for name, array in new.items():
            old_name = name if old.get(name) is array else names.get(id(array))
            sources[name] = old_name if sources.get(name, old_name) == old_name else None
    return sources


@ray.remote(num_cpus=1, max_retries=RETRIES)
def map_range(function: ShardMap, where: Range, theta: Any) -> list[Any]:
    """A function of every shard with its local state."""
    one_numerical_thread_for_good()
    shards, local = _open(where)
    theta = frozen(_parameters(theta))
    return [
        function(number, shard, state, theta) for number, shard, state in zip(where.numbers, shards, local, strict=True)
    ]


@ray.remote(num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD")
def call(function: Callable[[Any], Any], item: Any) -> Any:
    """A function of one item, such as a block of a file."""
    one_numerical_thread_for_good()
    return function(item)


@ray.remote(num_cpus=0, max_retries=0)
def unseen(paths: list[str]) -> list[str]:
    """The paths that this node does not see."""
    return [path for path in paths if not Path(path).exists()]
