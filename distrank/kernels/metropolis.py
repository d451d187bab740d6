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
    return np.int64((bits * np.uint64(limit)) >> _HALF)


@kernel
def effective_samples(count: int, first: float, second: float, batch_square: float, batches: int) -> float:
    """How many independent states say as much as these, by the variance of batch means.

    `first` and `second` are the mean and the mean square of all states, `batch_square` the mean square of batch means.
    """
    variance, between = second - first * first, batch_square - first * first
    if variance <= 0.0 or between <= 0.0:
        return 1.0
    return min(max(batches * variance / between, 1.0), float(count))


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
    since, fresh = np.zeros((n, n), np.int64), np.empty(n + 1)
    accepted, reference = 0, value
    total, square, batch, batch_square = 0.0, 0.0, 0.0, 0.0
    size, keep_every = max(steps // BATCHES, 1), max(steps // max(len(kept), 1), 1)
    for step in range(steps):
        places, chance = threefry(key[0], key[1], unit, np.uint64(step))
        if chance & _ONE:
            p = below(places >> _HALF, n - 1)
            q = p + 1
        else:
            p, q = below(places >> _HALF, n), below(places & _LOW_HALF, n - 1)
            q += q >= p
            p, q = min(p, q), max(p, q)
        a, b = order[p], order[q]
        change = weight[b, a] - weight[a, b]
        running, ratio = tail[q + 1] + grown[a], 1.0
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
        change += math.log(ratio)
        if change >= 0.0 or np.float64(chance >> _DROP) * _TO_UNIT < math.exp(change):
            accepted += 1
            value += change
            before[a, b] += step - since[a, b]
            since[b, a] = step
            for i in range(p + 1, q):
                c = order[i]
                before[a, c] += step - since[a, c]
                before[c, b] += step - since[c, b]
                since[c, a], since[b, c] = step, step
            for i in range(p + 1, q + 1):
                tail[i] = fresh[i]
            order[p], order[q] = b, a
            if value > peak:
                best[:], peak = order, value
        shifted = value - reference
        total += shifted
        square += shifted * shifted
        batch += shifted
        if (step + 1) % size == 0:
            batch_square += (batch / size) ** 2
            batch = 0.0
        if (step + 1) % keep_every == 0 and (step + 1) // keep_every <= len(kept):
            kept[(step + 1) // keep_every - 1] = order
    for i in range(n):
        for j in range(i + 1, n):
            before[order[i], order[j]] += steps - since[order[i], order[j]]
    before /= max(steps, 1)
    batches = max(steps // size, 1)
    mean = total / max(steps, 1)
    effective = effective_samples(steps, mean, square / max(steps, 1), batch_square / batches, batches)
    return peak, accepted, effective
