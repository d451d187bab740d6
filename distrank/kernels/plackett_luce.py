"""Plackett-Luce law of a ranking given scores, with its gradient: the loss of ListMLE.  [Xia08]

    P(y | s) = prod over stages i of exp(s_y(i)) / sum over l >= i of exp(s_y(l))                               (8)

A ranking may stop after some stages (top-k): the denominators still hold all items of the list, also those that were
never named. (The paper prints an upper limit of k, with which the probabilities of all top-k lists add up to more than
1.)

[Xia08] Xia, Liu, Wang, Zhang, Li: Listwise approach to learning to rank: theory and algorithm. ICML 2008.
"""

from __future__ import annotations

import math

import numpy as np

from distrank.kernels import kernel
from distrank.records import Array


@kernel
def scores_of(features: Array, w: Array, shift: float, score: Array) -> None:
    """score = features w - shift, row by row in one order of sums."""
    for i in range(len(score)):
        total = 0.0
        for f in range(len(w)):
            total += features[i, f] * w[f]
        score[i] = total - shift


@kernel
def add_by_feature(features: Array, residual: Array, gradient: Array) -> None:
    """gradient += features' residual."""
    for i in range(len(residual)):
        if residual[i] != 0.0:
            for f in range(len(gradient)):
                gradient[f] += features[i, f] * residual[i]


@kernel
def add_squares(features: Array, mean: Array, total: Array) -> None:
    """total += the squared differences of all rows from the mean."""
    for i in range(len(features)):
        for f in range(len(mean)):
            total[f] += (features[i, f] - mean[f]) ** 2


@kernel
def log_likelihood(order: Array, stages: int, score: Array, residual: Array, weight: float) -> float:
    """ln P of the order's first `stages` choices among its items; `residual` gains weight times the gradient."""
    count = len(order)
    if stages <= 0:
        return 0.0
    log_rest = np.empty(stages)  # ln of the denominators, from the last stage up: no cancellation
    top = -np.inf
    for i in range(stages, count):
        top = max(top, score[order[i]])
    rest = 0.0
    for i in range(stages, count):
        rest += math.exp(score[order[i]] - top)
    for i in range(stages - 1, -1, -1):
        s = score[order[i]]
        if s > top:
            rest = rest * math.exp(top - s) + 1.0
            top = s
        else:
            rest += math.exp(s - top)
        log_rest[i] = top + math.log(rest)
    value, passed = 0.0, 0.0  # passed: sum of 1 / denominator over the stages so far, times exp(highest)
    highest = -log_rest[0]
    for i in range(stages):
        value += score[order[i]] - log_rest[i]
        if -log_rest[i] > highest:
            passed *= math.exp(highest + log_rest[i])
            highest = -log_rest[i]
        passed += math.exp(-log_rest[i] - highest)
        residual[order[i]] += weight * (1.0 - passed * math.exp(score[order[i]] + highest))
    for i in range(stages, count):
        residual[order[i]] -= weight * passed * math.exp(score[order[i]] + highest)
    return value


@kernel
def ranking_likelihood(
    nodes: Array, order: Array, stages: Array, included: Array, score: Array, residual: Array
) -> float:
    """The sum of ln P over the units of a shard: `order` holds a permutation of every unit's nodes, of which the first
    `included` are on the list and the first `stages` were chosen in this order."""
    value = 0.0
    for unit in range(len(nodes) - 1):
        begin = nodes[unit]
        here = order[begin : begin + included[unit]]
        value += log_likelihood(here, stages[unit], score, residual, 1.0)
    return value
