"""Rankings as lists: how a shard of rankings is prepared, and what is counted of it before the first iteration.

    list.rows, unit.lists   offsets of lists into rows, of units into lists
    list.owner              annotator of every list, numbered within the shard
    annotator.code          the codes of those annotators
    item.place, item.level  item of a row, numbered within its unit, and its level (`kernels.lists`)
    gold.unit, ...          the gold pairs, by unit

An item that an annotator ranked twice in a query counts at its better rank. In the top-k setting lists are cut after k
items, and ties are broken by the order of the items' ids.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from distrank.kernels.forms import group_starts
from distrank.records import Array, Record
from distrank.stats import dense

LONGEST = 2_000  # items of a list whose whole ranking is sampled: the matrices of pairs grow with the square
_BASE = 1 << 20  # kinds of lists are told apart by one number: (annotator, items, chosen) in this base


def prepared_lists(shard: Record, top_k: int | None) -> Record:
    """The shard with lists in place of rows."""
    nodes, unit_rows = shard["unit.nodes"], shard["unit.rows"]
    sizes = np.diff(nodes)
    unit = np.repeat(np.arange(len(sizes)), np.diff(unit_rows))
    annotator, node, rank = shard["row.annotator"], shard["row.item"].astype(np.int64), shard["row.rank"]
    order = np.lexsort((node, rank, annotator, unit))
    unit, annotator, node, rank = unit[order], annotator[order], node[order], rank[order]
    kept = _first_mentions(unit, annotator, node)
    unit, annotator, node, rank = unit[kept], annotator[kept], node[kept], rank[kept]
    starts = group_starts(unit.astype(np.uint32), annotator)
    if top_k is not None:
        within = np.arange(len(unit)) - np.repeat(starts[:-1], np.diff(starts))
        kept = within < top_k
        unit, annotator, node, rank = unit[kept], annotator[kept], node[kept], rank[kept]
        starts = group_starts(unit.astype(np.uint32), annotator)
    codes, owner = np.unique(annotator[starts[:-1]], return_inverse=True)
    fresh = np.ones(len(unit), np.int64)
    fresh[1:] = rank[1:] != rank[:-1]
    fresh[starts[:-1]] = 0
    passed = np.cumsum(fresh)
    rest = {name: array for name, array in shard.items() if not name.startswith("row.")}
    return {
        **rest,
        **_gold_by_unit(shard),
        "list.rows": starts,
        "list.owner": owner.astype(np.int64),
        "unit.lists": np.searchsorted(unit[starts[:-1]], np.arange(len(sizes) + 1)).astype(np.int64),
        "item.place": node - nodes[:-1][unit],
        "item.level": passed - np.repeat(passed[starts[:-1]], np.diff(starts)),
        "annotator.code": codes.astype(np.int64),
    }


def _first_mentions(unit: Array, annotator: Array, node: Array) -> Array:
    """The rows (sorted by rank within lists) that are the first of their item in their list, in their order."""
    place = np.arange(len(node))
    order = np.lexsort((place, node, annotator, unit))
    again = np.zeros(len(node), bool)
    again[1:] = (
        (unit[order][1:] == unit[order][:-1])
        & (annotator[order][1:] == annotator[order][:-1])
        & (node[order][1:] == node[order][:-1])
    )
    return np.sort(order[~again])


def _gold_by_unit(shard: Record) -> Record:
    winner = shard.get("gold.winner", np.empty(0, np.uint32)).astype(np.int64)
    loser = shard.get("gold.loser", np.empty(0, np.uint32)).astype(np.int64)
    unit = np.searchsorted(shard["unit.nodes"], winner, side="right") - 1
    order = np.lexsort((loser, winner, unit))
    return {"gold.unit": unit[order], "gold.winner": winner[order], "gold.loser": loser[order]}


def borda_orders(shard: Record, grade: Array) -> Array:
    """A first ranking of every unit: by the average share of a list that an item is above, then gold's own order.

    Items that gold grades are put in the order of their grades, in the places that they have together.
    """
    nodes, rows = shard["unit.nodes"], shard["list.rows"]
    length = np.repeat(np.diff(rows), np.diff(rows))
    unit = np.repeat(np.repeat(np.arange(len(nodes) - 1), np.diff(shard["unit.lists"])), np.diff(rows))
    node = shard["item.place"] + nodes[:-1][unit]
    share = 1.0 - (shard["item.level"] + 1.0) / (length + 1.0)
    total, count = np.zeros(int(nodes[-1])), np.zeros(int(nodes[-1]))
    np.add.at(total, node, share)
    np.add.at(count, node, 1.0)
    mean = np.where(count > 0.0, total / np.maximum(count, 1.0), -1.0)
    owner = np.repeat(np.arange(len(nodes) - 1), np.diff(nodes))
    order = np.lexsort((np.arange(len(mean)), -mean, owner))
    known = np.flatnonzero(~np.isnan(grade[order]))
    by_grade = np.lexsort((known, -grade[order][known], owner[order][known]))
    result = order.copy()
    result[known] = order[known][by_grade]
    return result


class Kinds(NamedTuple):
    """The lists of every annotator by kind: offsets of annotators, items, chosen items, how many of them."""

    offsets: Array
    items: Array
    chosen: Array
    times: Array

    @property
    def owner(self) -> Array:
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


def count_kinds(shard: Record, top_k: int | None) -> Record:
    """Statistics: how many lists of every kind each annotator gave. Groups of ties count negatively."""
    rows, level = shard["list.rows"], shard["item.level"]
    length = np.diff(rows)
    unit = np.repeat(np.arange(len(shard["unit.nodes"]) - 1), np.diff(shard["unit.lists"]))
    annotator = shard["annotator.code"][shard["list.owner"]]
    items = length if top_k is None else np.diff(shard["unit.nodes"])[unit]
    codes, counts = (annotator * _BASE + items) * _BASE + length, np.ones(len(length))
    if top_k is None:
        starts = np.ones(len(level), bool)
        starts[1:] = level[1:] != level[:-1]
        starts[rows[:-1][rows[:-1] < len(level)]] = True
        first = np.flatnonzero(starts)
        size = np.diff(np.append(first, len(level)))
        of_list = np.searchsorted(rows, first, side="right") - 1
        tied = size > 1
        codes = np.append(codes, (annotator[of_list][tied] * _BASE + size[tied]) * _BASE + size[tied])
        counts = np.append(counts, np.full(int(tied.sum()), -1.0))
    index, place = np.unique(codes, return_inverse=True)
    return {"kind/index": index, "kind/count": np.bincount(place, counts, minlength=len(index))}


def kinds_from(stats: Record, annotators: int) -> Kinds:
    """The counts of all shards, by annotator."""
    index, count = stats["kind/index"], stats["kind/count"]
    used = count != 0.0
    index, count = index[used], count[used]
    rest, chosen = np.divmod(index, _BASE)
    annotator, items = np.divmod(rest, _BASE)
    offsets = np.searchsorted(annotator, np.arange(annotators + 1)).astype(np.int64)
    return Kinds(offsets, items, chosen, times=count)


def by_annotator(shard: Record, **columns: Array) -> Record:
    """Statistics of the shard's annotators as a sparse group (`stats`)."""
    codes = shard["annotator.code"]
    return {"annotator/index": codes, **{f"annotator/{name}": column for name, column in columns.items()}}


def total_by_annotator(stats: Record, name: str, annotators: int) -> Array:
    """The sum of a column of `by_annotator` over all shards."""
    return dense(stats, f"annotator/{name}", annotators)
