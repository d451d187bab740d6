"""The triples of boxes that a search has not split yet, the most promising first.

Bounds that are alike (within ALIKE of each other, as multiples of it on a logarithmic scale) do not decide; there the
deeper triple of boxes comes first, and then chance.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from distrank.kernels import kernel
from distrank.records import Array

ALIKE = 1e-3
_ROOM = 256


class Frontier(NamedTuple):
    """Slots in arrays, and a heap of slots."""

    boxes: Array  # (slots, 3): items, items, annotators
    bound: Array  # of the gain
    score: Array  # the part of the bound that is about items
    race: Array  # the smaller, the sooner
    level: Array  # of the bound, in steps of ALIKE
    depth: Array
    heap: Array
    counts: Array  # slots in the heap, slots in use


@kernel
def level_of(bound: float) -> float:
    """The bound on the scale on which bounds are compared."""
    return math.log(bound) / ALIKE


@kernel
def empty_frontier() -> Frontier:
    whole = np.zeros(_ROOM, np.int64)
    real = np.zeros(_ROOM)
    boxes = np.zeros((_ROOM, 3), np.int64)
    return Frontier(boxes, real, real.copy(), real.copy(), whole, whole.copy(), whole.copy(), np.zeros(2, np.int64))


@kernel
def with_room(frontier: Frontier) -> Frontier:
    """The frontier with a slot to spare."""
    if frontier.counts[1] < len(frontier.bound):
        return frontier
    return Frontier(
        np.concatenate((frontier.boxes, frontier.boxes)),
        np.concatenate((frontier.bound, frontier.bound)),
        np.concatenate((frontier.score, frontier.score)),
        np.concatenate((frontier.race, frontier.race)),
        np.concatenate((frontier.level, frontier.level)),
        np.concatenate((frontier.depth, frontier.depth)),
        np.concatenate((frontier.heap, frontier.heap)),
        frontier.counts,
    )


@kernel
def fill_slot(
    frontier: Frontier, a: int, b: int, c: int, of_scores: float, of_quality: float, depth: int, race: float
) -> int:
    """A new slot, not yet in the heap."""
    slot = frontier.counts[1]
    frontier.counts[1] += 1
    frontier.boxes[slot, 0], frontier.boxes[slot, 1], frontier.boxes[slot, 2] = a, b, c
    frontier.bound[slot], frontier.score[slot] = of_scores + of_quality, of_scores
    frontier.level[slot] = math.ceil(level_of(of_scores + of_quality))
    frontier.depth[slot], frontier.race[slot] = depth, race
    return slot


@kernel
def comes_before(frontier: Frontier, x: int, y: int) -> bool:
    if frontier.level[x] != frontier.level[y]:
        return frontier.level[x] > frontier.level[y]
    if frontier.depth[x] != frontier.depth[y]:
        return frontier.depth[x] > frontier.depth[y]
    return frontier.race[x] < frontier.race[y]


@kernel
def push(frontier: Frontier, slot: int) -> None:
    heap, at = frontier.heap, frontier.counts[0]
    frontier.counts[0] += 1
    while at > 0 and comes_before(frontier, slot, heap[(at - 1) // 2]):
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = slot


@kernel
def pop_above(frontier: Frontier, least: float) -> int:
    """The first slot, taken out, whose bound is above `least`; -1 if there is none left."""
    heap = frontier.heap
    enough = level_of(least) if least > 0.0 else -math.inf
    while frontier.counts[0] > 0 and frontier.level[heap[0]] > enough:
        top = heap[0]
        frontier.counts[0] -= 1
        size = frontier.counts[0]
        last, at = heap[size], 0
        while 2 * at + 1 < size:
            child = 2 * at + 1
            if child + 1 < size and comes_before(frontier, heap[child + 1], heap[child]):
                child += 1
            if not comes_before(frontier, heap[child], last):
                break
            heap[at] = heap[child]
            at = child
        heap[at] = last
        if frontier.bound[top] > least:
            return top
    return -1
