"""The exact posterior of a ranking, summed over all n! orders by a dynamic programme over the 2^n subsets.

A ranking is built best first. With U the items that are left, taking a next multiplies by

    exp(s_a) / sum over i in U of exp(s_i)                                   Plackett-Luce (8)
    exp(sum over b in U of weight[a, b])                                     what annotators say about a before b

so that everything after a choice depends on U alone. The sums are kept as logarithms: no theta, no scores make them
vanish. Sums over b in U are looked up in two halves of U.
"""

from __future__ import annotations

import math

import numpy as np

from distrank.kernels import kernel
from distrank.records import Array

MOST_ITEMS = 18
_NOTHING = -40.0  # ln of a share that does not change a sum of shares near 1
_RARE = 1e-20  # occupancy of subsets that are not followed any further
_WIDEST = 600.0  # scores this far apart still have exponentials that can be added


@kernel
def _half_sums(weight: Array, first: int, last: int) -> Array:
    """For every item and every subset of items first..last: the sum of the item's weights over the subset."""
    n, width = len(weight), last - first
    sums = np.zeros((n, 1 << width))
    for a in range(n):
        for bit in range(width):
            size = 1 << bit
            for subset in range(size):
                sums[a, size + subset] = sums[a, subset] + weight[a, first + bit]
    return sums


@kernel
def log_denominators(score: Array) -> Array:
    """ln of the sum of exp(score) over every subset; -inf for the empty one."""
    n = len(score)
    result = np.full(1 << n, -np.inf)
    top = score.max()
    if top - score.min() < _WIDEST:
        sums = np.zeros(1 << n)
        for bit in range(n):
            size, grown = 1 << bit, math.exp(score[bit] - top)
            for subset in range(size):
                sums[size + subset] = sums[subset] + grown
        for subset in range(1, 1 << n):
            result[subset] = top + math.log(sums[subset])
        return result
    for bit in range(n):
        size, s = 1 << bit, score[bit]
        result[size] = s
        for subset in range(1, size):
            other = result[subset]
            high, low = max(s, other), min(s, other)
            result[size + subset] = high + math.log1p(math.exp(low - high))
    return result


@kernel
def _single_bits(n: int) -> Array:
    """The item of every subset of one item: with it, members are visited without looking at all items."""
    place = np.zeros((1 << n) + 1, np.int64)
    for a in range(n):
        place[1 << a] = a
    return place


@kernel
def posterior(weight: Array, score: Array, choice: Array, best: Array) -> float:
    """ln of the sum over all orders; `choice[U, a]` becomes P(a is next | U is left), `best` the most probable one."""
    n = len(score)
    low = n // 2
    mask = (1 << low) - 1
    below, above = _half_sums(weight, 0, low), _half_sums(weight, low, n)
    denominator, item_of = log_denominators(score), _single_bits(n)
    total, most = np.zeros(1 << n), np.zeros(1 << n)
    leader = np.zeros(1 << n, np.int8)
    term, members = np.empty(n), np.empty(n, np.int64)
    for left in range(1, 1 << n):
        top, peak, first, count = -np.inf, -np.inf, 0, 0
        under, over, remaining = left & mask, left >> low, left
        while remaining:
            bit = remaining & -remaining
            remaining ^= bit
            a = item_of[bit]
            gain = score[a] + below[a, under] + above[a, over]
            value = gain + total[left ^ bit]
            term[count], members[count] = value, a
            count += 1
            top = max(top, value)
            value = gain + most[left ^ bit]
            if value > peak:
                peak, first = value, a
        mass = 0.0
        for place in range(count):
            gap = term[place] - top
            share = math.exp(gap) if gap > _NOTHING else 0.0
            term[place] = share
            mass += share
        for place in range(count):
            choice[left, members[place]] = term[place] / mass
        total[left] = top + math.log(mass) - denominator[left]
        most[left], leader[left] = peak - denominator[left], first
    left = (1 << n) - 1
    for place in range(n):
        best[place] = leader[left]
        left ^= 1 << leader[left]
    return total[(1 << n) - 1]


@kernel
def occupancy(choice: Array, n: int) -> Array:
    """P(U is what is left at some stage) of every subset."""
    reached = np.zeros(1 << n)
    reached[(1 << n) - 1] = 1.0
    for left in range((1 << n) - 1, 0, -1):
        here = reached[left]
        if here > _RARE:
            for a in range(n):
                if left >> a & 1:
                    reached[left ^ (1 << a)] += here * choice[left, a]
    return reached


@kernel
def pair_probabilities(choice: Array, n: int, before: Array) -> None:
    """before[a, b] = P(a is before b): the sum of the probabilities of taking a while b is left."""
    low = n // 2
    mask = (1 << low) - 1
    below, above = np.zeros((n, 1 << low)), np.zeros((n, 1 << (n - low)))
    reached = np.zeros(1 << n)
    reached[(1 << n) - 1] = 1.0
    for left in range((1 << n) - 1, 0, -1):
        here = reached[left]
        if here > _RARE:
            for a in range(n):
                if left >> a & 1:
                    share = here * choice[left, a]
                    reached[left ^ (1 << a)] += share
                    below[a, left & mask] += share
                    above[a, left >> low] += share
    before[:] = 0.0
    for a in range(n):
        for b in range(n):
            if a != b:
                table, bit = (below, b) if b < low else (above, b - low)
                for subset in range(table.shape[1]):
                    if subset >> bit & 1:
                        before[a, b] += table[a, subset]


@kernel
def expected_likelihood(reached: Array, score: Array, residual: Array) -> float:
    """The expectation of ln P(y | score) over the rankings y that occupy subsets this often, (19), and its gradient.

    Every item is chosen once, so only the denominators depend on the ranking. The gradient is added to `residual`.
    """
    n = len(score)
    denominator = log_denominators(score)
    value = score.sum()
    residual += 1.0
    for left in range(1, 1 << n):
        share = reached[left]
        if share > 0.0:
            value -= share * denominator[left]
            for a in range(n):
                if left >> a & 1:
                    residual[a] -= share * math.exp(score[a] - denominator[left])
    return value
