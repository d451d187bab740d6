"""DCG at a cut-off and its LambdaRank gradient, query by query.  [Burges07]

    gain of an item 2^grade - 1, discount of rank r 1 / log2(1 + r) up to the cut-off and 0 beyond

The gradient of a pair with grades i above j is  |change of DCG if the two were exchanged| sigma(s_j - s_i) , up for i
and down for j: the derivative of DCG smoothed by the chance that the pair is in the wrong order.

[Burges07] Burges, Ragno, Le: Learning to rank with nonsmooth cost functions. NIPS 2006.
"""

from __future__ import annotations

import math

import numpy as np

from distrank.kernels import kernel
from distrank.kernels.labels import Floats, Offsets


@kernel
def _ranks(score: Floats) -> Offsets:
    """Ranks from 0, best first; equal scores in the order of the items."""
    order = np.argsort(-score, kind="mergesort")
    rank = np.empty(len(score), np.int64)
    for place in range(len(order)):
        rank[order[place]] = place
    return rank


@kernel
def _discounts(count: int, cut: int) -> Floats:
    discount = np.zeros(count)
    for rank in range(min(cut, count)):
        discount[rank] = math.log(2.0) / math.log(rank + 2.0)
    return discount


@kernel
def dcg(nodes: Offsets, gain: Floats, score: Floats, cut: int, result: Floats) -> None:
    """DCG of every query."""
    for q in range(len(nodes) - 1):
        begin, end = nodes[q], nodes[q + 1]
        rank, discount = _ranks(score[begin:end]), _discounts(end - begin, cut)
        total = 0.0
        for i in range(end - begin):
            total += gain[begin + i] * discount[rank[i]]
        result[q] = total


@kernel
def lambda_gradient(nodes: Offsets, gain: Floats, score: Floats, cut: int, used: Floats, gradient: Floats) -> None:
    """The gradient in the scores, every query by its factor in `used` (0 leaves it out)."""
    for q in range(len(nodes) - 1):
        begin, end = nodes[q], nodes[q + 1]
        gradient[begin:end] = 0.0
        if used[q] == 0.0:
            continue
        rank, discount = _ranks(score[begin:end]), _discounts(end - begin, cut)
        for i in range(end - begin):
            for j in range(end - begin):
                if gain[begin + i] <= gain[begin + j]:
                    continue
                change = abs((gain[begin + i] - gain[begin + j]) * (discount[rank[i]] - discount[rank[j]]))
                if change > 0.0:
                    apart = score[begin + i] - score[begin + j]
                    force = used[q] * change / (1.0 + math.exp(min(apart, 700.0)))
                    gradient[begin + i] += force
                    gradient[begin + j] -= force
