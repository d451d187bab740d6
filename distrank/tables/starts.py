"""An earlier run as the start of a fit: its scores and its annotators, found again by their ids.

Ids are compared by their stable hashes, so a start takes 16 bytes an item, whatever the ids are. Two ids with the same
hash would share a start, nothing more: where a fit begins does not change where it ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from distrank.contract import Info, Start
from distrank.engine.base import MemorySource
from distrank.kernels.hashing import hash_pairs
from distrank.records import Array, Record, frozen
from distrank.tables.ids import stable_hash, unpack_ids
from distrank.tables.outputs import IdTypes
from distrank.tables.shards import Sharded
from distrank.tables.threads import each


@dataclass(frozen=True)
class Lookup:
    """Values by the hash of what they belong to, in the order of the hashes."""

    keys: Array
    values: Array

    @staticmethod
    def of(keys: Array, values: Array) -> Lookup:
        order = np.argsort(keys, kind="stable")
        return Lookup(keys[order], values[order])

    def at(self, keys: Array) -> Array:
        """The values of these keys; NaN where there is none."""
        if len(self.keys) == 0:
            return np.full(len(keys), np.nan)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.values[place], np.nan)


@dataclass(frozen=True)
class Earlier:
    """What an earlier run found, for those who know its ids."""

    run: str
    scores: Lookup
    annotators: dict[str, Lookup]
    facts: dict[str, Any]

    @staticmethod
    def of(run: str, rankings: pa.Table, annotators: pa.Table, facts: dict[str, Any]) -> Earlier:
        """From a run's tables and from what it says about its convergence."""
        nodes = hash_pairs(_hashes(rankings["query"]), _hashes(rankings["item"]))
        people = _hashes(annotators["annotator"])
        numbers = [field.name for field in annotators.schema if pa.types.is_floating(field.type)]
        return Earlier(
            run,
            Lookup.of(nodes, rankings["score"].to_numpy()),
            {name: Lookup.of(people, annotators[name].to_numpy()) for name in numbers},
            facts,
        )

    def start_of(self, annotators: pa.Array) -> Start:
        """What is known of these annotators."""
        keys = stable_hash(annotators)
        return Start(self.run, {name: known.at(keys) for name, known in self.annotators.items()}, self.facts)

    def with_scores(self, shard: Record, types: IdTypes) -> Record:
        """The shard with `node.start`; parts of a split unit that carry no ids know nothing."""
        units = stable_hash(unpack_ids(shard, "unit.id", types.query))
        items = stable_hash(unpack_ids(shard, "node.id", types.item))
        owner = np.repeat(np.arange(len(units)), np.diff(shard["unit.nodes"]) if len(units) else 0)
        return {**shard, "node.start": self.scores.at(hash_pairs(units[owner], items))}

    def warnings(self, info: Info, known: int) -> list[str]:
        """What to say about a run that has little to do with the judgments at hand."""
        if known > 0 or info.items == 0:
            return []
        text = f"run {self.run}, from which the fit starts, knows none of the {info.items:,} items: the fit started"
        return [f"{text} from nothing. Is it a run on the same queries, with ids of the same type?"]


def started(sharded: Sharded, earlier: Earlier) -> Sharded:
    """The shards with where their items start."""
    types = IdTypes(sharded.query_type, sharded.item_type)
    sets = {
        name: each(lambda shard: frozen(earlier.with_scores(shard, types)), shards)
        for name, shards in sharded.in_memory.items()
    }
    known = sum(int((~np.isnan(shard["node.start"])).sum()) for shards in sets.values() for shard in shards)
    info = replace(sharded.info, start=earlier.start_of(sharded.annotators))
    warnings = (*sharded.warnings, *earlier.warnings(info, known))
    return replace(sharded, source=MemorySource(sets), info=info, warnings=warnings)


def _hashes(column: pa.ChunkedArray) -> Array:
    return np.concatenate([np.empty(0, np.uint64), *(stable_hash(chunk) for chunk in column.chunks)])
