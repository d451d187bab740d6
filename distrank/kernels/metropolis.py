"""Metropolis chains over rankings of all items of a list.  [Wu16], Algorithm 1

A step exchanges the items of two places and is accepted with the ratio of the posteriors. One matrix of pair weights
holds what all annotators say, so a step costs the distance of the two places, whatever the number of annotators; pairs
are counted when their order changes, not at every step.

Deviation: every second proposal exchanges neighbours. Two places anywhere, as in the paper, are hardly ever accepted
once the posterior is sharp. The most probable ranking found so far competes with the ones that are visited.

Counters of random numbers: (hash of the unit's id, number of the step).
"""

from __future__ import annotations

import math

import numpy as np

from distrank.kernels import kernel
from distrank.kernels.lists import ranking_weight
from distrank.kernels.plackett_luce import log_likelihood
from distrank.kernels.random import threefry
from distrank.records import Array

BATCHES = 20  # of steps, whose means tell how much the states of a chain depend on each other
_WIDEST = 200.0  # scores this far below the best of the list count as that far: ratios of sums stay in range
_LARGE, _TINY = 1e150, 1e-150
_HALF, _LOW_HALF = np.uint64(32), np.uint64(0xFFFFFFFF)
_DROP, _TO_UNIT, _ONE = np.uint64(11), 1.0 / 9007199254740992.0, np.uint64(1)


@kernel
def below(bits: np.uint64, limit: int) -> int:
    """A number in 0..limit - 1 from 32 random bits."""
    return np.int64((bits * np.uint64(limit)) >> _HALF)  # type: ignore[return-value]


@kernel
def note_state(notes: Array, value: float, step: int, steps: int) -> None:
    """Note a state by its value, in sums of (values, squares, current batch, squared batch means)."""
    size = max(steps // BATCHES, 1)
    notes[0] += value
    notes[1] += value * value
    notes[2] += value
    if (step + 1) % size == 0:
        notes[3] += (notes[2] / size) ** 2
        notes[2] = 0.0


@kernel
def effective_samples(notes: Array, steps: int) -> float:
    """How many independent states say as much as the ones that were noted, by the variance of batch means."""
    size = max(steps // BATCHES, 1)
    batches = max(steps // size, 1)
    mean = notes[0] / steps
    variance, between = notes[1] / steps - mean * mean, notes[3] / batches - mean * mean
    if variance <= 0.0 or between <= 0.0:
        return 1.0
    return min(max(batches * variance / between, 1.0), float(steps))


@kernel
def keep_state(kept: Array, state: Array, step: int, steps: int) -> None:
    """Keep every so many states, as many as there is room for."""
    every = max(steps // max(len(kept), 1), 1)
    if (step + 1) % every == 0 and (step + 1) // every <= len(kept):
        kept[(step + 1) // every - 1] = state


@kernel
def _change(order: Array, p: int, q: int, weight: Array, grown: Array, tail: Array, fresh: Array) -> float:
    """What exchanging the places p < q adds to ln of the posterior; `fresh` holds the sums to the end afterwards.

    The new sums are built up from the end: differences of the old ones would cancel where one item has nearly all of
    the weight.
    """
    a, b = order[p], order[q]
    change = weight[b, a] - weight[a, b]
    running = tail[q + 1] + grown[a]
    fresh[q] = running
    ratio = tail[q] / running
    for i in range(q - 1, p, -1):
        c = order[i]
        change += weight[c, a] - weight[a, c] + weight[b, c] - weight[c, b]
        running += grown[c]
        fresh[i] = running
        ratio *= tail[i] / running
        if ratio > _LARGE or ratio < _TINY:
            change += math.log(ratio)
            ratio = 1.0
    return change + math.log(ratio)


@kernel
def _exchange(order: Array, p: int, q: int, step: int, before: Array, since: Array) -> None:
    """Exchange two places; pairs whose order ends now are counted for the steps that it lasted."""
    a, b = order[p], order[q]
    before[a, b] += step - since[a, b]
    since[b, a] = step
    for i in range(p + 1, q):
        c = order[i]
        before[a, c] += step - since[a, c]
        before[c, b] += step - since[c, b]
        since[c, a], since[b, c] = step, step
    order[p], order[q] = b, a


@kernel
def walk(
    weight: Array,
    score: Array,
    order: Array,
    best: Array,
    steps: int,
    key: Array,
    unit: np.uint64,
    before: Array,
    kept: Array,
) -> tuple[float, int, float]:
    """Go on from `order`; ln of the best posterior (up to a constant), accepted steps, effective samples.

    `order` is left at the last state, `best` at the most probable one, `before[a, b]` at the share of the steps after
    which a was before b, and the rows of `kept` at states in equal distances.
    """
    n = len(order)
    residual = np.zeros(n)
    value = ranking_weight(order, weight) + log_likelihood(order, n, score, residual, 0.0)
    peak = ranking_weight(best, weight) + log_likelihood(best, n, score, residual, 0.0)
    if value > peak:
        best[:], peak = order, value
    before[:] = 0.0
    if n < 2:
        kept[:] = 0
        return peak, 0, 1.0
    top = score.max()
    grown, tail = np.empty(n), np.zeros(n + 1)  # exp(score), and its sums from every place to the end
    for i in range(n):
        grown[i] = math.exp(max(score[i] - top, -_WIDEST))
    for i in range(n - 1, -1, -1):
        tail[i] = tail[i + 1] + grown[order[i]]
    since, fresh, notes = np.zeros((n, n), np.int64), np.empty(n + 1), np.zeros(4)
    accepted, reference = 0, value
    for step in range(steps):
        places, chance = threefry(key[0], key[1], unit, np.uint64(step))
        if chance & _ONE:
            p = below(places >> _HALF, n - 1)
            q = p + 1
        else:
            p, q = below(places >> _HALF, n), below(places & _LOW_HALF, n - 1)
            q += q >= p
            p, q = min(p, q), max(p, q)
        change = _change(order, p, q, weight, grown, tail, fresh)
        if change >= 0.0 or np.float64(chance >> _DROP) * _TO_UNIT < math.exp(change):
            accepted += 1
            value += change
            tail[p + 1 : q + 1] = fresh[p + 1 : q + 1]
            _exchange(order, p, q, step, before, since)
            if value > peak:
                best[:], peak = order, value
        note_state(notes, value - reference, step, steps)
        keep_state(kept, order, step, steps)
    for i in range(n):
        for j in range(i + 1, n):
            before[order[i], order[j]] += steps - since[order[i], order[j]]
    before /= steps
    return peak, accepted, effective_samples(notes, steps)
