"""Noisy copies of a ranking: Mallows' law, and permutations at an exact Kendall distance.

Both build a permutation by insertion: item i of the true ranking is put before j of the i items that are already there,
which makes j inversions. The numbers j are independent, so Mallows' law is a draw of each by weight e^(theta j), and
the uniform law at distance v is a draw of each given the sum.
"""

from __future__ import annotations

import math

import numpy as np

from distrank.kernels import kernel
from distrank.records import Array


@kernel
def mallows_insertions(theta: float, chance: Array, inserted: Array) -> None:
    """inserted[i] in 0..i with weight e^(theta j), from uniform numbers."""
    for i in range(len(chance)):
        total = 0.0
        for j in range(i + 1):
            total += math.exp(theta * j - max(theta * i, 0.0))
        goal, passed = chance[i] * total, 0.0
        inserted[i] = i
        for j in range(i + 1):
            passed += math.exp(theta * j - max(theta * i, 0.0))
            if passed > goal:
                inserted[i] = j
                break


@kernel
def distance_shares(items: int) -> Array:
    """shares[i, v]: the share of the permutations of i items that have v inversions."""
    most = items * (items - 1) // 2
    shares = np.zeros((items + 1, most + 1))
    shares[0, 0] = 1.0
    for i in range(1, items + 1):
        for v in range(i * (i - 1) // 2 + 1):
            total = 0.0
            for j in range(min(i - 1, v) + 1):
                total += shares[i - 1, v - j]
            shares[i, v] = total / i
    return shares


@kernel
def exact_insertions(shares: Array, distance: int, chance: Array, inserted: Array) -> None:
    """Insertions whose sum is `distance`, every such permutation alike."""
    left = distance
    for i in range(len(chance), 0, -1):
        total = 0.0
        for j in range(min(i - 1, left) + 1):
            total += shares[i - 1, left - j]
        goal, passed, taken = chance[i - 1] * total, 0.0, 0
        for j in range(min(i - 1, left) + 1):
            if shares[i - 1, left - j] > 0.0:
                passed += shares[i - 1, left - j]
                taken = j
                if passed > goal:
                    break
        inserted[i - 1] = taken
        left -= taken


@kernel
def insert(order: Array, inserted: Array) -> Array:
    """The permutation of `order` that the insertions make."""
    result = np.empty(len(order), np.int64)
    for i in range(len(order)):
        place = i - inserted[i]
        for k in range(i, place, -1):
            result[k] = result[k - 1]
        result[place] = order[i]
    return result
