"""Upper bounds of the expected information gain over boxes of beliefs: what lets a search leave most triples unseen.

In the symbols below, with p = 1 / (1 + e^-d), d the difference of the means (the higher one first), the gain is

    w = 2p - 1 = tanh(d/2)      u = |2 eta - 1| of the annotator's mean quality eta      z = 2 C1 - 1
    X+ = u (1 - w^2) / (2 (1 + u w))         force of the answer that agrees with the means; its bend is -X+ (w + X+)
    X- = u (1 - w^2) / (2 (1 - u w))         force of the other answer, of opposite sign; its bend is X- (w - X-)
    P+ = (1 + u z) / 2,  P- = (1 - u z) / 2  their probabilities

    gain = 1/2 sum over answers of P (v_i + v_j) X^2                                        the means move
         + 1/2 sum over answers and both items of P phi(max(1 + v bend, kappa))             the variances shrink
         + gamma (what is learned about the annotator, a function of alpha, beta and |z|)

with phi(f) = f - 1 - log f. A box gives ranges of d, v_i, v_j and u. Every factor is replaced by its largest value over
the box, each found where it is monotone or has its one maximum, so the bound holds for all of the box and is the gain
itself where the box is a point. The expected square of the force is bounded as a whole: with W = w^2, t = u^2 and
z = w (1 - (v_i + v_j)(1 - W) / 4) it is

    t/4 [ (1 - W)^2 / (1 - t W) + (v_i + v_j)/2 t W (1 - W)^3 / (1 - t W)^2 ]

whose first term falls with W, and whose second has one maximum, at the root of 1 - (4 - t) W + 2 t W^2.

What is learned about an annotator grows with |z| while alpha and beta are at least LEAST_COUNT.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from distrank.kernels import kernel
from distrank.kernels.gain import shrinkage_divergence
from distrank.kernels.online import SUREST, WIDEST_PAIR

LEAST_COUNT = 0.1
SUREST_Z = 1.0 - 2.0 * SUREST


class Box(NamedTuple):
    """Ranges of |mu_i - mu_j|, of the two variances, and of u."""

    nearest: float
    farthest: float
    least_i: float
    most_i: float
    least_j: float
    most_j: float
    least_u: float
    most_u: float


@kernel
def _slope(difference: float) -> tuple[float, float]:
    """w and 1 - w^2, which would be lost beside 1 where the difference is large."""
    odds = math.exp(-min(difference, WIDEST_PAIR))
    half = 1.0 / (1.0 + odds)
    return (1.0 - odds) * half, 4.0 * odds * half * half


@kernel
def z_range(box: Box) -> tuple[float, float]:
    """The range of z = w (1 - spread (1 - w^2) / 4), which is below 0 where variances are large."""
    low_w, most = _slope(box.nearest)
    high_w, least = _slope(box.farthest)
    high = 1.0 - 0.25 * (box.least_i + box.least_j) * least
    low = 1.0 - 0.25 * (box.most_i + box.most_j) * most
    highest = high_w * high if high >= 0.0 else low_w * high
    lowest = low_w * low if low >= 0.0 else high_w * low
    return min(max(lowest, -SUREST_Z), SUREST_Z), min(max(highest, -SUREST_Z), SUREST_Z)


@kernel
def _force_bound(u: float, nearest: float, farthest: float, spread: float) -> float:
    """The largest expected square of the force."""
    t = u * u
    _, most = _slope(nearest)
    high_w, least = _slope(farthest)
    rest = 4.0 - t
    peak = 1.0 - 2.0 / (rest + math.sqrt(max(rest * rest - 8.0 * t, 0.0)))  # 1 - W of the maximum
    top = min(max(peak, least), most)
    first = most * most / (1.0 - t + t * most)
    second = t * (1.0 - top) * top**3 / (1.0 - t + t * top) ** 2
    if high_w > SUREST_Z:  # where C1 is cut, z is lower than its formula by at most 2 SUREST
        second += 8.0 * SUREST * t / spread * (most / (1.0 - t + t * most)) ** 2
    return 0.25 * t * (first + 0.5 * spread * second)


@kernel
def _shrinkage_bound(variance: float, bend: float, kappa: float) -> float:
    return shrinkage_divergence(max(1.0 + variance * bend, kappa))


@kernel
def _surprise(u: float, w: float, rest: float) -> float:
    """X-; `rest` is 1 - w^2."""
    return 0.5 * u * rest / (1.0 - u + u * rest / (1.0 + w))


@kernel
def score_bound(box: Box, kappa: float) -> tuple[float, float]:
    """At least the gain about the two items of every triple in the box; and the largest |z| in it."""
    low_w, most_rest = _slope(box.nearest)
    high_w, least_rest = _slope(box.farthest)
    lowest_z, highest_z = z_range(box)
    u, least_u, spread = box.most_u, box.least_u, box.most_i + box.most_j
    total = spread * _force_bound(u, box.nearest, box.farthest, spread)
    # the answer that agrees with the means
    likely = 0.5 * (1.0 + (u if highest_z >= 0.0 else least_u) * highest_z)
    force = 0.5 * u * most_rest / (1.0 + u * low_w)
    bend = -force * (high_w + force)
    total += likely * (_shrinkage_bound(box.most_i, bend, kappa) + _shrinkage_bound(box.most_j, bend, kappa))
    # the other answer, whose bend X (w - X) can be of either sign
    unlikely = 0.5 * (1.0 - (least_u if lowest_z >= 0.0 else u) * lowest_z)
    peak = u / (1.0 + math.sqrt(1.0 - u * u))  # the w where X- is largest, and then equal to w
    most = peak if low_w < peak < high_w else max(_surprise(u, low_w, most_rest), _surprise(u, high_w, least_rest))
    least = min(_surprise(least_u, low_w, most_rest), _surprise(least_u, high_w, least_rest))
    half = min(max(0.5 * high_w, least), most)
    up = max(half * (high_w - half), 0.0)
    down = min(most * (low_w - most), least * (low_w - least), 0.0)
    for variance in (box.most_i, box.most_j):
        total += unlikely * max(_shrinkage_bound(variance, up, kappa), _shrinkage_bound(variance, down, kappa))
    return 0.5 * total, max(highest_z, -lowest_z)
