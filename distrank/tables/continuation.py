"""New judgments on top of a run that read earlier ones in time order, without those.

What a run leaves is a `Past`: ids, what the model saved, and the few counts of old judgments that later tables need
(KEPT). `continued` gives the shard of the new judgments the numbers that a shard of all judgments would have: codes
follow the sorted order of all ids, old and new. The rows are the new ones; counts, ids and components are of both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from distrank.contract import UNITS
from distrank.engine.base import MemorySource
from distrank.errors import InputError
from distrank.kernels.grouping import component_labels, connect, count_components, tally
from distrank.records import Array, Record, frozen
from distrank.tables.ids import pack_ids, same_ids, show_id, stable_hash, unpack_ids
from distrank.tables.interner import Interner
from distrank.tables.judgments import Judgments
from distrank.tables.shards import Sharded

KEPT = ("unit.nodes", "unit.judgments", "node.component", "pair.unit", "pair.annotator")  # of the shard


@dataclass(frozen=True)
class Past:
    """What a run leaves of the judgments that it has read, and of what it learned from them."""

    queries: pa.Array  # of every unit
    items: pa.Array  # of every node
    annotators: pa.Array
    units: Record  # what the model saved of its one shard, and KEPT
    parameters: Record  # what it saved besides
    annotator_judgments: Array
    judgments: int
    last_timestamp: float | None = None  # of the judgments read so far; None if none had one


@dataclass(frozen=True)
class _Both:
    """The numbers of old and new in one numbering."""

    old: Array
    new: Array
    count: int


def continued(sharded: Sharded, past: Past) -> Sharded:
    """The new judgments, in the numbering of all of them, with the past in `old.*` and `saved.*`."""
    (shard,) = sharded.in_memory[UNITS]
    queries, units = _merged("query", past.queries, unpack_ids(shard, "unit.id", sharded.query_type))
    items, kinds = _merged("item", past.items, unpack_ids(shard, "node.id", sharded.item_type))
    annotators, people = _merged("annotator", past.annotators, sharded.annotators)
    node_keys, nodes = _joined(
        _keys(units.old[_owner(past.units["unit.nodes"])], kinds.old, kinds.count),
        _keys(units.new[_owner(shard["unit.nodes"])], kinds.new, kinds.count),
    )
    pair_keys, _ = _joined(
        _keys(units.old[past.units["pair.unit"]], people.old[past.units["pair.annotator"]], people.count),
        _keys(units.new[shard["pair.unit"]], people.new[shard["pair.annotator"]], people.count),
    )
    unit_of_node, item_of_node = np.divmod(node_keys, np.uint64(kinds.count))
    unit_of_pair, annotator_of_pair = np.divmod(pair_keys, np.uint64(people.count))
    offsets = np.concatenate([[0], np.cumsum(tally(unit_of_node, units.count))]).astype(np.int64)
    forest = _joined_forest(past.units["node.component"], shard["node.component"], nodes)
    components = count_components(forest, offsets)
    gold = np.full(nodes.count, np.nan)
    gold[nodes.new] = shard["node.gold"]
    rows = {name: array for name, array in shard.items() if name.startswith("row.")}
    grown: Record = {
        **rows,
        "row.unit": units.new[shard["row.unit"]].astype(np.uint32),
        "row.annotator": people.new[shard["row.annotator"]].astype(np.uint32),
        "row.winner": nodes.new[shard["row.winner"]].astype(np.uint32),
        "row.loser": nodes.new[shard["row.loser"]].astype(np.uint32),
        "unit.hash": stable_hash(queries),
        "unit.nodes": offsets,
        "unit.judgments": _added(units, past.units["unit.judgments"], shard["unit.judgments"]),
        "unit.annotators": tally(unit_of_pair, units.count),
        "unit.components": components,
        "node.gold": gold,
        "node.component": component_labels(forest),
        "pair.unit": unit_of_pair.astype(np.uint32),
        "pair.annotator": annotator_of_pair.astype(np.uint32),
        **pack_ids("unit.id", queries),
        **pack_ids("node.id", items.take(pa.array(item_of_node))),
        "old.node": nodes.old,
        "old.unit": units.old,
        "old.annotator": people.old,
        **{f"saved.{name}": array for name, array in {**past.units, **past.parameters}.items() if name not in KEPT},
    }
    info = replace(
        sharded.info,
        judgments=past.judgments + sharded.info.judgments,
        queries=units.count,
        items=nodes.count,
        annotators=people.count,
        annotator_judgments=_added(people, past.annotator_judgments, sharded.info.annotator_judgments),
        disconnected=int((components > 1).sum()),
    )
    return replace(
        sharded,
        source=MemorySource({**sharded.in_memory, UNITS: [frozen(grown)]}),
        info=info,
        query_type=queries.type,
        item_type=items.type,
        annotators=annotators,
    )


def past_warnings(past: Past, judgments: Judgments, duplicates: str) -> list[str]:
    """What to say about new judgments that one run over all of them would have treated otherwise."""
    found, last, timestamp = [], past.last_timestamp, judgments.timestamp
    late = 0 if last is None or timestamp is None else int((timestamp < last).sum())
    if late:
        found.append(
            f"{late:,} of {len(judgments):,} new judgments have a timestamp before the last one that the run had read "
            f"({last:.15g}): they were taken after it all the same, and a run over all judgments in "
            "time order would give other numbers"
        )
    if duplicates == "drop":
        found.append("duplicates were dropped among the new judgments only: the old ones are not there to compare with")
    return found


def last_timestamp(past: Past | None, timestamp: Array | None) -> float | None:
    """The latest timestamp of old and new judgments."""
    known = [] if past is None or past.last_timestamp is None else [past.last_timestamp]
    if timestamp is not None and not np.isnan(timestamp).all():
        known.append(float(np.nanmax(timestamp)))
    return max(known, default=None)


def _merged(kind: str, old: pa.Array, new: pa.Array) -> tuple[pa.Array, _Both]:
    """The distinct ids of both in sorted order, in the type of the old ones, and where each one went."""
    if not same_ids(old.type, new.type):
        raise InputError(
            f"the new judgments have {kind} ids such as {show_id(new[0].as_py())} ({new.type}), but the run that is "
            f"continued has {old.type}; ids must have one type in all judgments: convert the new ones"
        )
    interner = Interner()
    codes = interner.codes(old), interner.codes(new)
    ids, place = interner.sorted_ids(old.type, np.ones(interner.count, bool))
    return ids, _Both(place[codes[0]].astype(np.int64), place[codes[1]].astype(np.int64), len(ids))


def _joined(old: Array, new: Array) -> tuple[Array, _Both]:
    """The distinct keys of both in sorted order, and where each one went."""
    keys = np.union1d(old, new)
    return keys, _Both(np.searchsorted(keys, old), np.searchsorted(keys, new), len(keys))


def _joined_forest(old: Array, new: Array, nodes: _Both) -> Array:
    """The components of both graphs together; labels come before what they label in either numbering."""
    forest = np.arange(nodes.count, dtype=np.int64)
    forest[nodes.old] = nodes.old[old]
    connect(forest, nodes.new, nodes.new[new], nodes.count, 0)
    return forest


def _keys(first: Array, second: Array, kinds: int) -> Array:
    return first.astype(np.uint64) * np.uint64(kinds) + second.astype(np.uint64)


def _owner(offsets: Array) -> Array:
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def _added(numbers: _Both, old: Array, new: Array) -> Array:
    total = np.zeros(numbers.count, np.int64)
    total[numbers.old] += old
    total[numbers.new] += new
    return total
