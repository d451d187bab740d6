"""From the rows of one destination to records: a shard of whole units, or the parts of one split unit."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from distrank.contract import Form
from distrank.kernels.forms import count_pairs, group_starts, sampled_pairs, write_pairs
from distrank.kernels.grouping import (
    collect_distinct,
    component_labels,
    connect,
    connect_groups,
    count_components,
    count_runs,
    number_nodes,
    renumber,
    tally,
)
from distrank.kernels.random import round_key
from distrank.records import Array, Record, scalar
from distrank.tables.feature_lookup import FeatureLookup
from distrank.tables.gold_lookup import Lookup
from distrank.tables.grades import Grading
from distrank.tables.ids import pack_ids
from distrank.tables.order import canonical_order

_NO_CODES = np.empty(0, np.uint32)


@dataclass(frozen=True)
class Context:
    """What all destinations share."""

    form: Form  # of the rows as read
    goal: Form  # of the rows in the shards
    queries: pa.Array
    items: pa.Array
    annotators: int
    gold: Lookup | None
    rows_per_shard: int
    whole_annotators: bool  # whether the rows of an annotator stay together where a unit is split
    grading: Grading | None = None  # how ratings become grades, where a model wants them
    sparsity: float = 1.0  # share of derived preferences that are kept
    seed: int = 0
    features: FeatureLookup | None = None

    @property
    def derives(self) -> bool:
        return self.form != self.goal


@dataclass(frozen=True)
class Rows:
    """The rows of one destination; `unit` counts from 0 within it."""

    unit: Array
    annotator: Array
    items: tuple[Array, ...]  # winner and loser, or item
    tie: Array | None = None
    value: Array | None = None  # rating or rank
    weight: Array | None = None
    position: Array | None = None  # place in time order, where rows end in that


@dataclass(frozen=True)
class Members:
    """The units of one destination, in code order."""

    hash: Array
    query: Array

    def __len__(self) -> int:
        return len(self.hash)


@dataclass(frozen=True)
class Nodes:
    """The items of all units of a destination, and what is known of every unit as a whole."""

    offsets: Array  # of the units
    item: Array  # code of the item of every node
    query: Array  # code of the query of every node
    judgments: Array
    annotators: Array


def shard_record(context: Context, members: Members, rows: Rows, scratch: Array) -> Record:
    """One shard of whole units."""
    ordered, nodes = _number(context, members, rows, scratch)
    if context.derives:
        ordered = derive_preferences(context, ordered, members, nodes)
    forest = _forest(context, [ordered], nodes)
    components = count_components(forest, nodes.offsets)
    if ordered.position is None:
        return _record(context, members, nodes, components, ordered, with_ids=True)
    first = group_starts(ordered.unit, ordered.annotator)[:-1]
    known = {
        "node.component": component_labels(forest),
        "pair.unit": ordered.unit[first],
        "pair.annotator": ordered.annotator[first],
    }
    ordered = _in_time_order(ordered, ordered.position.astype(np.int64))
    return {**_record(context, members, nodes, components, ordered, with_ids=True), **known}


def part_records(context: Context, members: Members, rows: Rows, scratch: Array, number: int) -> list[Record]:
    """The parts of one split unit."""
    ordered, nodes = _number(context, members, rows, scratch)
    parts = [_cut(ordered, begin, end) for begin, end in _ranges(context, ordered)]
    if context.derives:
        parts = [derive_preferences(context, part, members, nodes) for part in parts]
    forest = _forest(context, parts if context.derives else [ordered], nodes)
    components = count_components(forest, nodes.offsets)
    return [
        {
            **_record(context, members, nodes, components, part, with_ids=place == 0),
            "part.unit": scalar(number),
            "part.number": scalar(place),
            "part.first": scalar(place == 0),
        }
        for place, part in enumerate(parts)
    ]


def derive_preferences(context: Context, rows: Rows, members: Members, nodes: Nodes) -> Rows:
    """Preferences from ratings (higher wins) or rankings (lower wins), in canonical order."""
    if rows.value is None:
        raise TypeError("preferences are derived from ratings and rankings only")
    (item,), value = rows.items, rows.value if context.form == "ratings" else -rows.value
    weight = np.empty(0) if rows.weight is None else rows.weight
    starts = group_starts(rows.unit, rows.annotator)
    count = count_pairs(starts, item, value)
    row, winner, loser = np.empty(count, np.int64), np.empty(count, np.uint32), np.empty(count, np.uint32)
    pair_weight = np.empty(count if rows.weight is not None else 0)
    write_pairs(starts, item, value, weight, row, winner, loser, pair_weight)
    if context.sparsity < 1.0:
        key = round_key(context.seed, 0, 0, 0, "derive_preferences")
        who = rows.unit[row], rows.annotator[row]
        kept = sampled_pairs(members.hash, nodes.offsets, *who, winner, loser, key, context.sparsity)
        row, winner, loser = row[kept], winner[kept], loser[kept]
        pair_weight = pair_weight if rows.weight is None else pair_weight[kept]
    codes, values = canonical_order(
        [rows.unit[row], rows.annotator[row], winner, loser],
        [len(members), context.annotators, len(nodes.item), len(nodes.item)],
        [] if rows.weight is None else [pair_weight],
    )
    unit, annotator, winner, loser = codes
    return Rows(unit, annotator, (winner, loser), weight=values[0] if values else None)


def _number(context: Context, members: Members, rows: Rows, scratch: Array) -> tuple[Rows, Nodes]:
    """The rows in canonical order with nodes in place of items, and the nodes."""
    items, distinct = _local_items(rows.items, scratch)
    codes = [rows.unit, rows.annotator, *items]
    kinds = [len(members), context.annotators, *(len(distinct) for _ in items)]
    if rows.tie is not None:
        codes, kinds = [*codes, rows.tie], [*kinds, 2]
    values = [column for column in (rows.value, rows.weight, rows.position) if column is not None]
    codes, values = canonical_order(codes, kinds, values)
    remaining = iter(values)
    unit, annotator, items = codes[0], codes[1], codes[2 : 2 + len(items)]
    unit_rows = _offsets(unit, len(members))
    if len(members) == 1:
        nodes, unit_nodes = distinct, np.array([0, len(distinct)], np.int64)
    else:
        found = np.empty(len(unit) * len(items), np.uint32)
        local = np.full(len(distinct), -1, np.int32)
        unit_nodes, count = number_nodes(unit_rows, items[0], items[1] if len(items) > 1 else _NO_CODES, local, found)
        nodes = distinct[found[:count]]
    ordered = Rows(
        unit,
        annotator,
        tuple(items),
        codes[-1].astype(bool) if rows.tie is not None else None,
        *(None if column is None else next(remaining) for column in (rows.value, rows.weight, rows.position)),
    )
    query = np.repeat(members.query, np.diff(unit_nodes))
    return ordered, Nodes(unit_nodes, nodes, query, np.diff(unit_rows), count_runs(unit_rows, annotator))


def _local_items(columns: tuple[Array, ...], scratch: Array) -> tuple[list[Array], Array]:
    """Item columns renumbered to the distinct items among them, in code order; scratch is left as found."""
    found = np.empty(min(len(scratch), sum(len(column) for column in columns)), np.uint32)
    count = 0
    for column in columns:
        count = collect_distinct(column, scratch, found, count)
    distinct = np.sort(found[:count])
    scratch[distinct] = np.arange(count, dtype=np.int32)
    local = []
    for column in columns:
        numbers = np.empty(len(column), np.uint32)
        renumber(column, scratch, numbers)
        local.append(numbers)
    scratch[distinct] = -1
    return local, distinct


def _forest(context: Context, pieces: list[Rows], nodes: Nodes) -> Array:
    """The connected components of the comparison graphs, as a union-find forest."""
    count, units = len(nodes.item), len(nodes.offsets) - 1
    parent = np.arange(count, dtype=np.int64)
    for rows in pieces:
        if context.goal == "preferences":
            winner, loser = rows.items
            count = connect(parent, winner, loser, count, units)
        else:
            connect_groups(parent, _offsets(rows.unit, units), rows.annotator, rows.items[0])
    return parent


def _ranges(context: Context, rows: Rows) -> list[tuple[int, int]]:
    """Where a split unit is cut: into equal ranges, or at the nearest later change of the annotator."""
    count = len(rows.unit)
    if not context.whole_annotators:
        parts = -(-count // context.rows_per_shard)
        cuts = [count * part // parts for part in range(parts + 1)]
    else:
        starts = group_starts(rows.unit, rows.annotator)
        sizes = np.diff(starts)
        cost = np.concatenate([[0], np.cumsum(sizes * (sizes - 1) // 2 if context.derives else sizes)])
        parts = max(-(-int(cost[-1]) // context.rows_per_shard), 1)
        goals = [int(cost[-1]) * part // parts for part in range(1, parts)]
        cuts = [0, *starts[np.searchsorted(cost, goals)].tolist(), count]
    edges = sorted(set(cuts))
    return list(itertools.pairwise(edges))


def _cut(rows: Rows, begin: int, end: int) -> Rows:
    return _taken(rows, slice(begin, end))


def _in_time_order(rows: Rows, position: Array) -> Rows:
    """Rows whose nodes are numbered do not need the canonical order any more."""
    order = np.empty(len(position), np.int64)
    order[position] = np.arange(len(position))
    return _taken(rows, order)


def _taken(rows: Rows, which: slice | Array) -> Rows:
    return Rows(
        rows.unit[which],
        rows.annotator[which],
        tuple(column[which] for column in rows.items),
        *(None if column is None else column[which] for column in (rows.tie, rows.value, rows.weight, rows.position)),
    )


def _record(
    context: Context, members: Members, nodes: Nodes, components: Array, rows: Rows, *, with_ids: bool
) -> Record:
    """The arrays of a shard as `contract` lists them."""
    shown = slice(None) if with_ids else slice(0)
    item, query = nodes.item[shown], nodes.query[shown]
    record: Record = {
        "unit.hash": members.hash,
        "unit.nodes": nodes.offsets,
        "unit.judgments": nodes.judgments,
        "unit.annotators": nodes.annotators,
        "unit.components": components,
        "node.gold": np.full(len(item), np.nan) if context.gold is None else context.gold.grades(query, item),
        **({} if context.gold is None else context.gold.pairs(nodes.query, nodes.item)),
        **pack_ids("node.id", context.items.take(pa.array(item))),
        **pack_ids("unit.id", context.queries.take(pa.array(members.query[shown]))),
        "row.annotator": rows.annotator,
    }
    if rows.position is None:
        record["unit.rows"] = _offsets(rows.unit, len(members))
    else:
        record["row.unit"] = rows.unit
    if context.goal == "preferences":
        record["row.winner"], record["row.loser"] = rows.items
    else:
        record["row.item"] = rows.items[0]
    if rows.value is not None:
        record["row.rating" if context.goal == "ratings" else "row.rank"] = rows.value
    if context.features is not None:
        record["node.features"] = context.features(query, item)
    if context.grading is not None and rows.value is not None:
        record["row.grade"] = context.grading.codes(rows.value)
        record["node.grade"] = context.grading.known(record["node.gold"])
        record["grade.values"], record["grade.cut"] = context.grading.values, scalar(context.grading.cut)
    if rows.tie is not None:
        record["row.tie"] = rows.tie
    if rows.weight is not None:
        record["row.weight"] = rows.weight
    return record


def _offsets(unit: Array, units: int) -> Array:
    return np.concatenate([[0], np.cumsum(tally(unit, units))]).astype(np.int64)
