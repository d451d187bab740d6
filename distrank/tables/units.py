"""Which unit a row belongs to, and where a unit goes: to one of the shards, or into parts of its own.

The number of shards is a power of two from the row counts alone; a unit's shard is the top bits of the stable hash of
its id. Neither knows anything of workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from distrank.kernels.forms import group_starts
from distrank.kernels.grouping import tally
from distrank.kernels.hashing import hash_pairs
from distrank.records import Array
from distrank.tables.ids import stable_hash
from distrank.tables.judgments import Judgments
from distrank.tables.order import bits_for, canonical_order

Unit: TypeAlias = Literal["query", "item"]
_DENSE = 4  # possible pairs per row up to which counting them is faster than sorting the rows


@dataclass(frozen=True)
class Units:
    """The units that have rows, in code order, and the unit of every row."""

    row: Array  # unit of every row
    query: Array  # code of the query of every unit
    hash: Array

    def __len__(self) -> int:
        return len(self.query)


@dataclass(frozen=True)
class Layout:
    """Where units go: destinations 0 .. shards - 1 are shards, the rest are split units, one each, in code order."""

    shards: int
    destination: Array  # of every unit
    members: list[Array]  # units of every destination, in code order
    number: Array  # of every unit within its destination


def find_units(judgments: Judgments, unit: Unit) -> Units:
    """Queries, or pairs of query and item."""
    query_hash = stable_hash(judgments.queries)
    if unit == "query":
        counts = tally(judgments.query, len(judgments.queries))
        present = np.flatnonzero(counts).astype(np.uint32)
        if len(present) == len(counts):
            return Units(judgments.query, present, query_hash)
        number = np.cumsum(counts > 0) - 1
        return Units(number[judgments.query].astype(np.uint32), present, query_hash[present])
    (item,) = judgments.item_columns
    pair = judgments.query.astype(np.uint64) * np.uint64(len(judgments.items)) + item
    distinct, row = _numbered(pair, len(judgments.queries) * len(judgments.items))
    query, of_item = np.divmod(distinct, np.uint64(len(judgments.items)))
    return Units(
        row.astype(np.uint32),
        query.astype(np.uint32),
        hash_pairs(query_hash[query], stable_hash(judgments.items)[of_item]),
    )


def _numbered(pairs: Array, kinds: int) -> tuple[Array, Array]:
    """The distinct pairs in order, and the number of every row's pair: counted where few are possible, else sorted."""
    if kinds > _DENSE * len(pairs):
        return np.unique(pairs, return_inverse=True)
    present = tally(pairs, kinds) > 0
    return np.flatnonzero(present).astype(np.uint64), (np.cumsum(present) - 1)[pairs]


def rows_by_unit(units: Units) -> Array:
    """Rows of every unit."""
    return tally(units.row, len(units))


def pairs_by_unit(units: Units, judgments: Judgments) -> Array:
    """The most preferences that the ratings or rankings of every unit can give."""
    kinds = [len(units), len(judgments.annotators)]
    (unit, annotator), _ = canonical_order([units.row, judgments.annotator], kinds, [])
    starts = group_starts(unit, annotator)
    sizes = np.diff(starts)
    pairs = np.zeros(len(units), np.int64)
    np.add.at(pairs, unit[starts[:-1]], sizes * (sizes - 1) // 2)
    return pairs


def lay_out(units: Units, sizes: Array, rows_per_shard: int, *, split: bool) -> Layout:
    """Give every unit its destination; units above `rows_per_shard` are split if they may be.

    There are shards only where there are whole units: an empty one would cost a call in every round.
    """
    large = sizes > rows_per_shard if split else np.zeros(len(sizes), bool)
    depth = bits_for(-(-int(sizes[~large].sum()) // rows_per_shard))
    shards = 0 if len(sizes) and large.all() else 1 << depth
    destination = (units.hash >> np.uint64(64 - depth)).astype(np.int64) if depth else np.zeros(len(units), np.int64)
    destination[large] = shards + np.arange(int(large.sum()))
    order = np.argsort(destination, kind="stable")
    ends = np.cumsum(np.bincount(destination, minlength=shards + int(large.sum())))
    members = np.split(order, ends[:-1])
    number = np.empty(len(units), np.int64)
    for units_here in members:
        number[units_here] = np.arange(len(units_here))
    return Layout(shards, destination, members, number)
