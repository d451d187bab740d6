"""Perceived scores that are in the order of a ranking: one Gibbs sweep of the Thurstonian ranking model.  [Wang16], B

A run is the ranking of one annotator in one unit, best first; items of the same *level* share a rank, and their order
is open. A perceived score is N(s, 1), below all of the level above and above all of the level below (27).

[Wang16] Wang, Wang, Jie, Zhai, Chang: Blind men and the elephant: Thurstonian pairwise preference for ranking in
         crowdsourcing. ICDM 2016.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel
from distrank.kernels.normal import ROOT_HALF
from distrank.kernels.normal_table import quantile
from distrank.kernels.random import threefry

Floats = NDArray[np.float64]
Codes = NDArray[np.uint32]
Offsets = NDArray[np.int64]
Words = NDArray[np.uint64]

_TO_UNIT = 1.0 / 9007199254740992.0  # 2**-53
_DROP = np.uint64(11)
_ANNOTATOR = np.uint64(32)
_FAR = 30.0  # beyond, the tail of the normal law is exponential to 1e-3 of itself


@kernel
def _upper_tail(x: float) -> float:
    return 0.5 * math.erfc(ROOT_HALF * x)


@kernel
def between(u: float, low: float, high: float) -> float:
    """A draw of N(0, 1) given that it lies between two bounds, from a uniform number in (0, 1)."""
    if low < 0.0 and -low > high:
        return -between_upper(u, -high, -low)
    return between_upper(u, low, high)


@kernel
def between_upper(u: float, low: float, high: float) -> float:
    """The same where the upper tail has the better digits."""
    if low > _FAR:
        width = high - low
        share = 1.0 if width == math.inf else -math.expm1(-low * width)
        return min(low - math.log1p(-u * share) / low, high)
    top, bottom = _upper_tail(low), _upper_tail(high)
    tail = bottom + u * (top - bottom)
    drawn = -quantile(tail) if 0.0 < tail < 1.0 else low
    return min(max(drawn, low), high)


@kernel
def levels(run: Offsets, rank: Floats, level: Offsets) -> None:
    """The first row of the level of every row; rows of a run are sorted by rank."""
    for k in range(len(run) - 1):
        for r in range(run[k], run[k + 1]):
            level[r] = level[r - 1] if r > run[k] and rank[r] == rank[r - 1] else r


@kernel
def first_perceived(run: Offsets, level: Offsets, perceived: Floats) -> None:
    """Normal scores of the places: in the right order to begin with."""
    for k in range(len(run) - 1):
        count = run[k + 1] - run[k]
        for r in range(run[k], run[k + 1]):
            perceived[r] = -quantile((level[r] - run[k] + 0.5) / count)


@kernel
def sweep(
    hashes: Words,
    key: Words,
    unit: Offsets,
    run: Offsets,
    code: Offsets,
    node: Codes,
    level: Offsets,
    score: Floats,
    perceived: Floats,
) -> None:
    """Every perceived score anew, given the others of its ranking; from the best to the worst."""
    for l in range(len(unit) - 1):  # noqa: E741
        for k in range(unit[l], unit[l + 1]):
            base = np.uint64(code[k] + 1) << _ANNOTATOR
            start, end = run[k], run[k + 1]
            ceiling = math.inf  # the lowest of the level above
            r = start
            while r < end:
                after = r
                while after < end and level[after] == r:
                    after += 1
                floor = -math.inf  # the highest of the level below
                below = after
                while below < end and level[below] == after:
                    floor = max(floor, perceived[below])
                    below += 1
                lowest = math.inf
                for i in range(r, after):
                    word, _ = threefry(key[0], key[1], hashes[l], base + np.uint64(i - start))
                    u = (np.float64(word >> _DROP) + 0.5) * _TO_UNIT
                    s = score[node[i]]
                    perceived[i] = s + between(u, floor - s, ceiling - s)
                    lowest = min(lowest, perceived[i])
                ceiling = lowest
                r = after


@kernel
def add_perceived(node: Codes, weight: Floats | None, perceived: Floats, score: Floats, sums: Floats) -> float:
    """Sums of the perceived scores by node; returns log P(perceived scores | scores) without constants."""
    value = 0.0
    for r in range(len(node)):
        counted = 1.0 if weight is None else weight[r]
        sums[node[r]] += counted * perceived[r]
        value -= 0.5 * counted * (perceived[r] - score[node[r]]) ** 2
    return value
