"""How far a rank can move, from how far scores can move.

With s_i at the end x of its interval, the expected rank is 1 + sum_j P(s_j > x | s_i = x). The rank is then expected
within `half` of the middle, and the others' own movement adds v = sum_j P_j (1 - P_j) to its variance: half becomes
sqrt(half^2 + z^2 v). Bounds are whole ranks, rounded to the nearest and never without the rank itself. No random
numbers: the same data has the same bounds, whatever its ids.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

POINTS = 16  # that stand for the law of one score
ROOT_PI = math.sqrt(math.pi)
_LEAST = 1e-24  # of a variance
_WIDEST, _PER_DEVIATION = 6, 64
_TAIL = np.array([0.5 * math.erfc(c / _PER_DEVIATION / math.sqrt(2.0)) for c in range(_WIDEST * _PER_DEVIATION + 2)])


@kernel
def _exceeds(z: float) -> float:
    """P(N(z, 1) > 0), to about 1e-5: ranks are whole numbers."""
    if abs(z) >= _WIDEST:
        return 1.0 if z > 0.0 else 0.0
    place = abs(z) * _PER_DEVIATION
    cell = int(place)
    tail = _TAIL[cell] + (place - cell) * (_TAIL[cell + 1] - _TAIL[cell])
    return 1.0 - tail if z >= 0.0 else tail


@kernel
def _bounds(rank: int, items: int, top: float, bottom: float, moved: float, z: float) -> tuple[int, int]:
    """Whole bounds from expected ranks at the two ends and the variance that the others add."""
    middle, half = 0.5 * (top + bottom), 0.5 * (bottom - top)
    half = math.sqrt(half * half + z * z * moved)
    low, high = math.floor(middle - half + 0.5), math.ceil(middle + half - 0.5)
    return min(max(low, 1), rank), max(min(high, items), rank)


@kernel
def joint_rank_bounds(score: Floats, rank: Whole, covariance: Floats, z: float, low: Whole, high: Whole) -> None:
    """Bounds from the scores' covariance: exact in the pairs."""
    n = len(score)
    for i in range(n):
        own = max(covariance[i, i], _LEAST)
        reach, inverse = z * math.sqrt(own), 1.0 / own
        top, bottom, moved = 1.0, 1.0, 0.0
        for j in range(n):
            if j != i:
                share = covariance[i, j] * inverse
                # of s_j given s_i, one over the deviation
                rest = 1.0 / math.sqrt(max(covariance[j, j] - share * covariance[i, j], _LEAST))
                gap, pull = score[j] - score[i], (share - 1.0) * reach
                top += _exceeds((gap + pull) * rest)  # s_j - s_i where s_i is at its upper end
                bottom += _exceeds((gap - pull) * rest)
                middle = _exceeds(gap * rest)
                moved += middle * (1.0 - middle)
        low[i], high[i] = _bounds(rank[i], n, top, bottom, moved, z)


@kernel
def separate_rank_bounds(
    score: Floats, rank: Whole, deviation: Floats, points: Floats, z: float, low: Whole, high: Whole
) -> None:
    """Bounds for many items, taken as independent: in n log n. `points` are quantiles of the normal law, POINTS many.

    Each other score is its POINTS quantiles; where deviations are alike, v is the density of items times deviation
    over root pi, and the density is the distance of the two expected ranks over that of the interval's ends.
    """
    n = len(score)
    cloud = np.empty(n * len(points))
    for i in range(n):
        for m in range(len(points)):
            cloud[i * len(points) + m] = score[i] + deviation[i] * points[m]
    cloud.sort()
    for i in range(n):
        reach = z * deviation[i]
        own = 0  # of its own points, above the upper end
        for m in range(len(points)):
            own += 1 if points[m] > z else 0
        above = len(cloud) - np.searchsorted(cloud, score[i] + reach, side="right") - own
        below = len(cloud) - np.searchsorted(cloud, score[i] - reach, side="left") - (len(points) - own)
        top, bottom = 1.0 + above / len(points), 1.0 + below / len(points)
        moved = max(bottom - top, 0.0) / (2.0 * z * ROOT_PI) if z > 0.0 else 0.0
        low[i], high[i] = _bounds(rank[i], n, top, bottom, moved, z)


@kernel
def ranks(score: Floats, rank: Whole) -> None:
    """1 for the highest; equal scores in the order in which they are."""
    order = np.argsort(-score, kind="mergesort")
    for place in range(len(order)):
        rank[order[place]] = place + 1
