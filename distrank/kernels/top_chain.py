"""Metropolis chains over lists that stop at k of n items: the top-k setting.  [Wu16], section 5

A step exchanges two places of the list, or puts another item in one of them. New items are drawn mostly from those that
some annotator named, so that a step costs k and the number of annotators and not the n items; one in ten is drawn from
all items, so that every list can be reached. The acceptance is corrected for the unequal proposals.

The distance of an annotator with a shorter list is that to as many first places of the true one.
"""

from __future__ import annotations

import math

import numpy as np

from distrank.kernels import kernel
from distrank.kernels.lists import CERTAIN, top_distance
from distrank.kernels.metropolis import below, effective_samples, keep_state, note_state
from distrank.kernels.random import threefry
from distrank.records import Array

ANYWHERE = 0.1  # share of new items that are drawn from the whole list
_WIDEST = 200.0  # as in `metropolis`
_CANCELLED = 1e-6  # a difference this small against its terms is summed anew
_DROP, _TO_UNIT, _HALF, _LOW_HALF = np.uint64(11), 1.0 / 9007199254740992.0, np.uint64(32), np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)


@kernel
def _judged(chosen: Array, place: Array, length: Array, theta: Array, scratch: Array, distance: Array) -> float:
    """The sum of theta times distance over the annotators' lists; `distance` of every list."""
    total = 0.0
    for j in range(len(length)):
        distance[j] = top_distance(chosen, place[j], length[j], scratch)
        total += theta[j] * distance[j]
    return total


@kernel
def _against_gold(chosen: Array, grade: Array, higher: Array) -> float:
    """What the list costs for items that stand before better graded ones."""
    count = 0.0
    for i in range(len(chosen)):
        count += higher[chosen[i]]
        for j in range(i):
            count -= grade[chosen[j]] > grade[chosen[i]]
    return -CERTAIN * count


@kernel
def _chosen_first(chosen: Array, grown: Array, rest: float) -> float:
    """ln P of the list by Plackett-Luce; `grown` is exp(score), `rest` its sum over all other items."""
    value, running = 0.0, rest
    for i in range(len(chosen) - 1, -1, -1):
        running += grown[chosen[i]]
        value += math.log(grown[chosen[i]] / running)
    return value


@kernel
def _rest(grown: Array, listed: Array) -> float:
    total = 0.0
    for i in range(len(grown)):
        if not listed[i]:
            total += grown[i]
    return total


@kernel
def _rest_after(grown: Array, listed: Array, old: int, new: int, rest: float) -> float:
    """The sum over items not on the list once `new` has replaced `old`."""
    changed = rest + grown[old] - grown[new]
    if changed < _CANCELLED * (rest + grown[old]):
        changed = 0.0
        for i in range(len(grown)):
            if (not listed[i] or i == old) and i != new:
                changed += grown[i]
    return changed


@kernel
def _newcomer(named: Array, n: int, key: Array, unit: np.uint64, step: int) -> int:
    """An item to put on the list."""
    where, which = threefry(key[0], key[1], unit, np.uint64(2 * step + 1))
    if len(named) == 0 or np.float64(where >> _DROP) * _TO_UNIT < ANYWHERE:
        return below(which >> _HALF, n)
    return named[below(which >> _HALF, len(named))]


@kernel
def walk_top(
    score: Array,
    grade: Array,
    higher: Array,
    place: Array,
    length: Array,
    theta: Array,
    named: Array,
    chosen: Array,
    best: Array,
    steps: int,
    key: Array,
    unit: np.uint64,
    expected: Array,
    kept: Array,
) -> tuple[float, int, float]:
    """Go on from the list `chosen`; ln of the best posterior, accepted steps, effective samples.

    place[j, item] is the place in annotator j's list of length[j] items or -1, `named` the items that someone named;
    `expected` becomes the mean distance to every annotator's list; `chosen`, `best` and `kept` as in
    `metropolis.walk`.
    """
    n, k = len(score), len(chosen)
    top = score.max()
    grown = np.empty(n)
    for i in range(n):
        grown[i] = math.exp(max(score[i] - top, -_WIDEST))
    mass = np.full(n, ANYWHERE / n)  # how often an item is proposed
    for item in named:
        mass[item] += (1.0 - ANYWHERE) / len(named)
    scratch, listed = np.empty(k + 1, np.int64), np.zeros(n, np.bool_)
    distance, fresh = np.zeros(len(length)), np.zeros(len(length))
    expected[:] = 0.0
    for item in best:
        listed[item] = True
    peak = _judged(best, place, length, theta, scratch, distance) + _against_gold(best, grade, higher)
    peak += _chosen_first(best, grown, _rest(grown, listed))
    listed[:] = False
    for item in chosen:
        listed[item] = True
    rest = _rest(grown, listed)
    value = _judged(chosen, place, length, theta, scratch, distance) + _against_gold(chosen, grade, higher)
    value += _chosen_first(chosen, grown, rest)
    if value > peak:
        best[:], peak = chosen, value
    accepted, reference, since, notes = 0, value, 0, np.zeros(4)
    for step in range(steps):
        places, chance = threefry(key[0], key[1], unit, np.uint64(2 * step))
        p, q, correction, new_rest = below(places >> _HALF, k), -1, 0.0, rest
        old = chosen[p]
        new = old
        if chance & _ONE and n > k:
            new = _newcomer(named, n, key, unit, step)
            if listed[new]:
                new = old
            else:
                chosen[p] = new
                correction = math.log(mass[old] / mass[new])
                new_rest = _rest_after(grown, listed, old, new, rest)
        elif k > 1:
            q = below(places & _LOW_HALF, k - 1)
            q += q >= p
            chosen[p], chosen[q] = chosen[q], chosen[p]
        if new != old or q >= 0:
            proposed = _judged(chosen, place, length, theta, scratch, fresh) + _against_gold(chosen, grade, higher)
            proposed += _chosen_first(chosen, grown, new_rest)
            change = proposed - value + correction
            if change >= 0.0 or np.float64(chance >> _DROP) * _TO_UNIT < math.exp(change):
                accepted += 1
                expected += distance * (step - since)
                since, value, rest = step, proposed, new_rest
                distance[:] = fresh
                listed[old] = q >= 0
                listed[new] = True
                if value > peak:
                    best[:], peak = chosen, value
            elif q < 0:
                chosen[p] = old
            else:
                chosen[p], chosen[q] = chosen[q], chosen[p]
        note_state(notes, value - reference, step, steps)
        keep_state(kept, chosen, step, steps)
    expected += distance * (steps - since)
    expected /= steps
    return peak, accepted, effective_samples(notes, steps)
