"""Ratings and rankings as preferences.

Two items that one annotator judged in one unit with different values give one preference for the item of the higher
value (rankings come with the rank negated). Equal values say nothing. An item that an annotator judged twice is never
compared with itself. The weight of a derived preference is the smaller of the two judgments' weights: a comparison is
as strong as its weaker side. Where only a share of them is asked for, each is kept or not by a number that hangs on the
query, the annotator and the two items: the same for all methods, row orders and shards.

Rows are in canonical order, so that a group (the rows of one annotator in one unit) is a run.
"""

from __future__ import annotations

import numpy as np

from distrank.kernels import kernel
from distrank.kernels.random import uniform
from distrank.records import Array


@kernel
def group_starts(unit: Array, annotator: Array) -> Array:
    """Where the groups begin, and the number of rows at the end."""
    starts = np.empty(len(unit) + 1, np.int64)
    count = 0
    for i in range(len(unit)):
        if i == 0 or unit[i] != unit[i - 1] or annotator[i] != annotator[i - 1]:
            starts[count] = i
            count += 1
    starts[count] = len(unit)
    return starts[: count + 1].copy()


@kernel
def count_pairs(starts: Array, item: Array, value: Array) -> int:
    """How many preferences the groups give."""
    count = 0
    for group in range(len(starts) - 1):
        for i in range(starts[group], starts[group + 1]):
            for j in range(i + 1, starts[group + 1]):
                if value[i] != value[j] and item[i] != item[j]:
                    count += 1
    return count


@kernel
def write_pairs(
    starts: Array, item: Array, value: Array, weight: Array, row: Array, winner: Array, loser: Array, pair_weight: Array
) -> None:
    """Write the preferences: a row they came from, the two items, the weight (where there are weights)."""
    count = 0
    for group in range(len(starts) - 1):
        for i in range(starts[group], starts[group + 1]):
            for j in range(i + 1, starts[group + 1]):
                if value[i] != value[j] and item[i] != item[j]:
                    better = i if value[i] > value[j] else j
                    row[count] = i
                    winner[count] = item[better]
                    loser[count] = item[i + j - better]
                    if len(weight) > 0:
                        pair_weight[count] = min(weight[i], weight[j])
                    count += 1


@kernel
def sampled_pairs(
    hashes: Array,
    offsets: Array,
    unit: Array,
    annotator: Array,
    winner: Array,
    loser: Array,
    key: Array,
    share: float,
) -> Array:
    """Which preferences are kept; `offsets` are those of the units' nodes, so that nodes count within their unit."""
    kept = np.empty(len(winner), np.bool_)
    for row in range(len(winner)):
        first = offsets[unit[row]]
        size = np.uint64(offsets[unit[row] + 1] - first)
        low, high = np.uint64(winner[row] - first), np.uint64(loser[row] - first)
        if low > high:
            low, high = high, low
        pair = (np.uint64(annotator[row]) * size + low) * size + high
        kept[row] = uniform(key[0], key[1], hashes[unit[row]], pair) < share
    return kept
