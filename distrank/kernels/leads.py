"""Orders from votes on pairs: the neighbours of every item with the lead over them, in compressed rows.

    offsets   of the items into the two others      other   the neighbour, ascending within a row
    lead      weight of the judgments for the item minus those for the neighbour

Pairs that nobody judged are not stored, so time and memory follow the judgments and not the square of the items.
"""

from __future__ import annotations

import numpy as np

from distrank.kernels import kernel
from distrank.records import Array


@kernel
def lead_over(offsets: Array, other: Array, lead: Array, item: int, rival: int) -> float:
    """The lead of an item over another; 0 where nobody compared them."""
    low, high = offsets[item], offsets[item + 1]
    while low < high:
        middle = (low + high) // 2
        if other[middle] < rival:
            low = middle + 1
        else:
            high = middle
    return lead[low] if low < offsets[item + 1] and other[low] == rival else 0.0


@kernel
def sort_by_majority(unit_nodes: Array, offsets: Array, other: Array, lead: Array, place: Array) -> None:
    """Merge sort of every unit's items from ascending ids, an item going first only if a majority puts it first.

    The relation may have cycles; whatever it is, no item loses to the one right after it.
    """
    for u in range(len(unit_nodes) - 1):
        first, count = unit_nodes[u], unit_nodes[u + 1] - unit_nodes[u]
        source, target = np.arange(first, first + count), np.empty(count, np.int64)
        width = 1
        while width < count:
            for start in range(0, count, 2 * width):
                middle, end = min(start + width, count), min(start + 2 * width, count)
                left, right = start, middle
                for at in range(start, end):
                    takes_right = left == middle or (
                        right < end and lead_over(offsets, other, lead, source[right], source[left]) > 0.0
                    )
                    if takes_right:
                        target[at] = source[right]
                        right += 1
                    else:
                        target[at] = source[left]
                        left += 1
            source, target = target, source
            width *= 2
        for at in range(count):
            place[source[at]] = at


@kernel
def _refresh(best: Array, potential: Array, leaf: int, size: int) -> None:
    """Update the tournament tree above a leaf: the higher potential goes up, of equal ones the lower number."""
    node = (leaf + size) // 2
    while node >= 1:
        a, b = best[2 * node], best[2 * node + 1]
        best[node] = b if a < 0 or (b >= 0 and potential[b] > potential[a]) else a
        node //= 2


@kernel
def sort_greedily(unit_nodes: Array, offsets: Array, other: Array, lead: Array, place: Array) -> None:
    """Take the item with the largest total lead over those that are left, again and again; equal ones by id."""
    for u in range(len(unit_nodes) - 1):
        first, count = unit_nodes[u], unit_nodes[u + 1] - unit_nodes[u]
        potential = np.zeros(count)
        for i in range(count):
            for e in range(offsets[first + i], offsets[first + i + 1]):
                potential[i] += lead[e]
        size = 1
        while size < count:
            size *= 2
        best = np.full(2 * size, -1)
        for i in range(count):
            best[size + i] = i
        for node in range(size - 1, 0, -1):
            a, b = best[2 * node], best[2 * node + 1]
            best[node] = b if a < 0 or (b >= 0 and potential[b] > potential[a]) else a
        for at in range(count):
            taken = best[1]
            place[first + taken] = at
            best[size + taken] = -1
            _refresh(best, potential, taken, size)
            for e in range(offsets[first + taken], offsets[first + taken + 1]):
                rival = other[e] - first
                if best[size + rival] >= 0:
                    potential[rival] += lead[e]  # what the rival lost against the taken item counts no more
                    _refresh(best, potential, rival, size)
