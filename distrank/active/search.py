"""The triple (item, item, annotator) of largest expected gain, found without looking at most of them.

Best first branch and bound over triples of boxes (a box of items, another or the same one, a box of annotators). The
bound of `kernels.gain_bounds` says how much any triple in them can gain; the triple of boxes with the largest bound is
split next: in the items or in the annotators, whichever the bound is looser in. What is found has the largest gain of
all triples that may be asked, to EXACT.

Where very many triples gain almost the same (a hundred thousand items of which nothing is known but a little; far
apart pairs that only test the annotator), telling the best of them apart is work for nothing. After `patience` boxes
the search therefore settles for a triple within a tolerance of the best, `tolerance_after`, which grows with the boxes
that were looked at. The tolerance is certified by the bounds and returned.

Every DIVE boxes the search goes straight down, to the best of the two or three new boxes again and again, to have a
good triple early: what it gains rules out boxes before they are kept.

Ties are broken at random: among boxes whose bounds are alike and that are as deep, a race decides in which each has a
chance in proportion to its triples.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from distrank.active.asked import is_asked, triple_word
from distrank.active.frontier import Frontier, comes_before, empty_frontier, fill_slot, pop_above, push, with_room
from distrank.active.trees import GRID, Crowd, Tree, clear_lesson
from distrank.kernels import kernel
from distrank.kernels.gain import expected_gain
from distrank.kernels.gain_bounds import Box, score_bound
from distrank.kernels.random import uniform

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

EXACT = 1e-9  # relative; ties differ by rounding
PATIENCE = 2_000
DIVE = 200


@kernel
def triple_bound(items: Tree, crowd: Crowd, a: int, b: int, c: int, gamma: float, kappa: float) -> tuple[float, float]:
    """At least what any triple gains: about items, and gamma times about the annotator."""
    nearest = 0.0
    farthest = items.high[a, 0] - items.low[a, 0]
    if a != b:
        nearest = max(items.low[a, 0] - items.high[b, 0], items.low[b, 0] - items.high[a, 0], 0.0)
        farthest = max(items.high[a, 0] - items.low[b, 0], items.high[b, 0] - items.low[a, 0])
    box = Box(
        nearest,
        farthest,
        items.low[a, 1],
        items.high[a, 1],
        items.low[b, 1],
        items.high[b, 1],
        crowd.tree.low[c, 0],
        crowd.tree.high[c, 0],
    )
    of_scores, z = score_bound(box, kappa)
    if gamma == 0.0:
        return of_scores, 0.0
    k = crowd.tree.member[c]
    if k >= 0:
        return of_scores, gamma * clear_lesson(crowd.belief[k, 0], crowd.belief[k, 1], z)
    return of_scores, gamma * crowd.lesson[c, min(math.ceil(z * GRID), GRID)]


@kernel
def _splits_crowd(items: Tree, crowd: Crowd, a: int, b: int, c: int, of_scores: float, of_quality: float) -> bool:
    """Whether the annotators are what the bound is looser in, to first order."""
    if crowd.tree.left[c] < 0:
        return False
    if items.left[a] < 0 and items.left[b] < 0:
        return True
    most = items.high[a, 1] + items.high[b, 1]
    wide = max(items.high[a, 0], items.high[b, 0]) - min(items.low[a, 0], items.low[b, 0])
    of_items = 1.0 - (items.low[a, 1] + items.low[b, 1]) / most + min(0.25 * wide * wide, 1.0)
    low, high = crowd.tree.low[c], crowd.tree.high[c]
    of_crowd = of_scores * (1.0 - (low[0] / high[0]) ** 2) if high[0] > 0.0 else 0.0
    of_crowd += of_quality * (1.0 - low[1] / high[1])
    return of_crowd > of_items * (of_scores + of_quality)


@kernel
def tolerance_after(boxes: int, patience: int) -> float:
    """How far, in relation to it, the largest bound may be above the best triple found."""
    if boxes < patience:
        return EXACT
    return 1e-3 * (boxes / patience) ** 2


@kernel
def _split_item(items: Tree, a: int, b: int) -> bool:
    """Whether the first of two different boxes is the one to split: the wider one."""
    if items.left[a] < 0 or items.left[b] < 0:
        return items.left[a] >= 0
    wide_a = 0.5 * (items.high[a, 0] - items.low[a, 0]) + 1.0 - items.low[a, 1] / items.high[a, 1]
    wide_b = 0.5 * (items.high[b, 0] - items.low[b, 0]) + 1.0 - items.low[b, 1] / items.high[b, 1]
    return wide_a >= wide_b


@kernel
def _split(items: Tree, crowd: Crowd, frontier: Frontier, slot: int, children: Integers) -> int:
    """Fill in the two or three triples of boxes that a slot is split into; how many."""
    a, b, c = frontier.boxes[slot, 0], frontier.boxes[slot, 1], frontier.boxes[slot, 2]
    children[:, 0], children[:, 1], children[:, 2] = a, b, c
    of_scores = frontier.score[slot]
    if _splits_crowd(items, crowd, a, b, c, of_scores, frontier.bound[slot] - of_scores):
        children[0, 2] = crowd.tree.left[c]
        children[1, 2] = crowd.tree.left[c] + 1
        return 2
    if a == b:
        left = items.left[a]
        children[0, 0] = children[0, 1] = children[1, 0] = left
        children[1, 1] = children[2, 0] = children[2, 1] = left + 1
        return 3
    side = 0 if _split_item(items, a, b) else 1
    left = items.left[a] if side == 0 else items.left[b]
    children[0, side] = left
    children[1, side] = left + 1
    return 2


@kernel
def _triples(items: Tree, crowd: Crowd, a: int, b: int, c: int) -> int:
    """How many triples there are in a triple of boxes."""
    pairs = items.members[a] * items.members[b] if a != b else items.members[a] * (items.members[a] - 1) // 2
    return pairs * crowd.tree.members[c]


@kernel
def find_best(
    items: Tree,
    belief: Floats,
    group: int,
    crowd: Crowd,
    gamma: float,
    kappa: float,
    asked: Words,
    patience: int,
    key: Words,
    counter: int,
) -> tuple[float, int, int, int, float, int]:
    """The gain, the items i < j and the annotator of the best triple of a group, -1 without one; how far a better one
    could be above it; and the boxes looked at.

    `belief` has the mean and the variance of every item; key and counter say which random numbers break ties.
    """
    best, best_i, best_j, best_k, best_race = -1.0, -1, -1, -1, 0.0
    boxes, tolerance, depth, next_dive = 0, EXACT, 0, 0
    diving = True
    frontier, children = empty_frontier(), np.zeros((3, 3), np.int64)
    if items.root[group] < 0 or crowd.tree.root[0] < 0:
        return best, best_i, best_j, best_k, tolerance, boxes
    children[0, 0] = children[0, 1] = items.root[group]
    children[0, 2] = crowd.tree.root[0]
    new = 1
    while True:
        deepest = -1  # of the new boxes, the one to go on with in a dive; the others wait
        for child in range(new):
            a, b, c = children[child, 0], children[child, 1], children[child, 2]
            triples = _triples(items, crowd, a, b, c)
            if triples == 0:
                continue
            boxes += 1
            race = -math.log1p(-uniform(key[0], key[1], np.uint64(counter), np.uint64(boxes))) / triples
            if items.left[a] < 0 and items.left[b] < 0 and crowd.tree.left[c] < 0:
                i, j = min(items.member[a], items.member[b]), max(items.member[a], items.member[b])
                k = crowd.tree.member[c]
                if not is_asked(asked, triple_word(i, j, k)):
                    alpha, beta = crowd.belief[k, 0], crowd.belief[k, 1]
                    gain = expected_gain(
                        belief[i, 0], belief[i, 1], belief[j, 0], belief[j, 1], alpha, beta, gamma, kappa
                    )
                    if gain > best or (gain == best and race < best_race):
                        best, best_i, best_j, best_k, best_race = gain, i, j, k, race
                continue
            of_scores, of_quality = triple_bound(items, crowd, a, b, c, gamma, kappa)
            if of_scores + of_quality <= best * (1.0 + tolerance):
                continue
            frontier = with_room(frontier)
            slot = fill_slot(frontier, a, b, c, of_scores, of_quality, depth, race)
            if diving and (deepest < 0 or comes_before(frontier, slot, deepest)):
                slot, deepest = deepest, slot
            if slot >= 0:
                push(frontier, slot)
        tolerance = tolerance_after(boxes, patience)
        slot = deepest
        if slot < 0:
            diving = boxes >= next_dive
            if diving:
                next_dive = boxes + DIVE
            slot = pop_above(frontier, best * (1.0 + tolerance))
            if slot < 0:
                return best, best_i, best_j, best_k, tolerance, boxes
        depth = frontier.depth[slot] + 1
        new = _split(items, crowd, frontier, slot, children)
