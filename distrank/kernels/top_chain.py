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
from distrank.kernels.metropolis import BATCHES, below, effective_samples
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
    """ln P of the list by Plackett-Luce, up to the shift of all scores; `rest` is the sum of exp(score) of the others."""
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
    accepted, reference, since = 0, value, 0
    total, square, batch, batch_square = 0.0, 0.0, 0.0, 0.0
    size, keep_every = max(steps // BATCHES, 1), max(steps // max(len(kept), 1), 1)
    for step in range(steps):
        places, chance = threefry(key[0], key[1], unit, np.uint64(2 * step))
        p, q, new, correction, new_rest = below(places >> _HALF, k), -1, -1, 0.0, rest
        old = chosen[p]
        if chance & _ONE and n > k:
            where, which = threefry(key[0], key[1], unit, np.uint64(2 * step + 1))
            if np.float64(where >> _DROP) * _TO_UNIT < ANYWHERE or len(named) == 0:
                new = below(which >> _HALF, n)
            else:
                new = named[below(which >> _HALF, len(named))]
            possible = not listed[new]
            if possible:
                chosen[p] = new
                correction = math.log(mass[old] / mass[new])
                new_rest = rest + grown[old] - grown[new]
                if new_rest < _CANCELLED * (rest + grown[old]):
                    listed[old], listed[new] = False, True
                    new_rest = _rest(grown, listed)
                    listed[old], listed[new] = True, False
        else:
            possible = k > 1
            if possible:
                q = below(places & _LOW_HALF, k - 1)
                q += q >= p
                chosen[p], chosen[q] = chosen[q], chosen[p]
        if possible:
            proposed = _judged(chosen, place, length, theta, scratch, fresh) + _against_gold(chosen, grade, higher)
            proposed += _chosen_first(chosen, grown, new_rest)
            change = proposed - value
            if change + correction >= 0.0 or np.float64(chance >> _DROP) * _TO_UNIT < math.exp(change + correction):
                accepted += 1
                expected += distance * (step - since)
                since, value, rest = step, proposed, new_rest
                distance[:] = fresh
                if q < 0:
                    listed[old], listed[new] = False, True
                if value > peak:
                    best[:], peak = chosen, value
            elif q < 0:
                chosen[p] = old
            else:
                chosen[p], chosen[q] = chosen[q], chosen[p]
        shifted = value - reference
        total += shifted
        square += shifted * shifted
        batch += shifted
        if (step + 1) % size == 0:
            batch_square += (batch / size) ** 2
            batch = 0.0
        if (step + 1) % keep_every == 0 and (step + 1) // keep_every <= len(kept):
            kept[(step + 1) // keep_every - 1] = chosen
    expected += distance * (steps - since)
    expected /= max(steps, 1)
    batches = max(steps // size, 1)
    mean = total / max(steps, 1)
    effective = effective_samples(steps, mean, square / max(steps, 1), batch_square / batches, batches)
    return peak, accepted, effective
