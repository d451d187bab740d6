"""The distribution of an item's rank when every contest with another item is a coin of its own.  [Niu15]

    lose_l   P(the item loses its contest with opponent l)
    rank     how many opponents beat the item: 0 is best; a sum of independent coins (Eq. 12)

`distribution` is the paper's Algorithm 1, one opponent after the other, quadratic in the opponents;
`distribution_by_halves` is its Algorithm 2, which joins the distributions of two halves by a Fourier transform. Where
only the mean of some value of the rank is wanted, `expected_value` gets it without the distribution, by Algorithm 1
read backwards: before the last contest the value of t losses is lose * value(t + 1) + (1 - lose) * value(t). Every step
is a mean of two numbers, so nothing is lost to rounding.

A contest that nobody judged is a fair coin. All of them together are one binomial: `fair_means` turns the value of a
rank into the mean value of the judged losses, and an item costs the square of the contests that were judged, however
many items there are.

[Niu15] Niu, Lan, Guo, Cheng, Yu, Long: Listwise approach for rank aggregation in crowdsourcing. WSDM 2015.
"""

from __future__ import annotations

from math import lgamma

import numpy as np

from distrank.kernels import kernel
from distrank.records import Array

HALVES_FROM = 8_192  # opponents from which Algorithm 2 is faster: docs/results/crowdagg.md has the measurement
_LEAF = 128  # opponents of a half that Algorithm 1 takes at once
_LOG_HALF = np.log(0.5)
_NEGLIGIBLE = 1e-18  # binomial probabilities below this share of the largest are left out


@kernel
def distribution(lose: Array) -> Array:
    """P(rank = 0 .. len(lose)), Algorithm 1."""
    pmf = np.zeros(len(lose) + 1)
    pmf[0] = 1.0
    for opponent in range(len(lose)):
        p = lose[opponent]
        for r in range(opponent + 1, 0, -1):
            pmf[r] = pmf[r] * (1.0 - p) + pmf[r - 1] * p
        pmf[0] *= 1.0 - p
    return pmf


@kernel
def _transform(x: Array, sign: float) -> None:
    """The discrete Fourier transform in place (not scaled); the length is a power of two."""
    n = len(x)
    j = 0
    for i in range(1, n):
        bit = n >> 1
        while j & bit:
            j ^= bit
            bit >>= 1
        j |= bit
        if i < j:
            x[i], x[j] = x[j], x[i]
    roots = np.exp(sign * 2j * np.pi * np.arange(n // 2) / n)
    width = 2
    while width <= n:
        half, stride = width // 2, n // width
        for begin in range(0, n, width):
            for k in range(half):
                odd = x[begin + half + k] * roots[k * stride]
                x[begin + half + k] = x[begin + k] - odd
                x[begin + k] += odd
        width *= 2


@kernel
def convolved(a: Array, b: Array) -> Array:
    """The distribution of the sum of two independent ranks, by Fourier transforms."""
    count = len(a) + len(b) - 1
    size = 1
    while size < count:
        size *= 2
    both = np.zeros(size, np.complex128)  # one transform for two real vectors
    for i in range(len(a)):
        both[i] = a[i]
    for i in range(len(b)):
        both[i] += 1j * b[i]
    _transform(both, -1.0)
    product = np.empty(size, np.complex128)
    for k in range(size):
        mirrored = np.conj(both[(size - k) % size])
        product[k] = -0.25j * (both[k] + mirrored) * (both[k] - mirrored)
    _transform(product, 1.0)
    result = np.empty(count)
    for i in range(count):
        result[i] = max(product[i].real / size, 0.0)
    return result


@kernel
def distribution_by_halves(lose: Array) -> Array:
    """P(rank = 0 .. len(lose)), Algorithm 2: pairs of neighbours are joined until one is left."""
    pieces = [distribution(lose[i : i + _LEAF]) for i in range(0, max(len(lose), 1), _LEAF)]
    while len(pieces) > 1:
        joined = [convolved(pieces[i], pieces[i + 1]) for i in range(0, len(pieces) - 1, 2)]
        if len(pieces) % 2:
            joined.append(pieces[-1])
        pieces = joined
    return pieces[0]


@kernel
def expected_value(lose: Array, value: Array, room: Array) -> float:
    """The mean of value[rank]; `value` has len(lose) + 1 entries, `room` at least as many."""
    count = len(lose)
    if count >= HALVES_FROM:
        total, pmf = 0.0, distribution_by_halves(lose)
        for r in range(count + 1):
            total += pmf[r] * value[r]
        return total
    room[: count + 1] = value[: count + 1]
    for opponent in range(count):
        p = lose[opponent]
        for t in range(count - opponent):
            room[t] += p * (room[t + 1] - room[t])
    return room[0]


@kernel
def fair_means(value: Array, coins: int, count: int) -> Array:
    """The mean of value[t + Binomial(coins, 1/2)] for t = 0 .. count - 1."""
    middle = coins // 2
    pmf = np.zeros(coins + 1)
    pmf[middle] = np.exp(lgamma(coins + 1.0) - lgamma(middle + 1.0) - lgamma(coins - middle + 1.0) + coins * _LOG_HALF)
    low = high = middle
    while low > 0 and pmf[low] > _NEGLIGIBLE * pmf[middle]:
        pmf[low - 1] = pmf[low] * low / (coins - low + 1.0)
        low -= 1
    while high < coins and pmf[high] > _NEGLIGIBLE * pmf[middle]:
        pmf[high + 1] = pmf[high] * (coins - high) / (high + 1.0)
        high += 1
    total = 0.0
    for k in range(low, high + 1):
        total += pmf[k]
    means = np.empty(count)
    for t in range(count):
        mean = 0.0
        for k in range(low, high + 1):
            mean += pmf[k] * value[t + k]
        means[t] = mean / total  # the sum is 1 but for the rounding of lgamma
    return means
