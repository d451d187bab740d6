"""Mallows' law of rankings around a true one: normaliser and moments of the distance, exact for every theta.  [Wu16]

    p(sigma | pi, theta) = exp(theta d(pi, sigma)) / Z(theta)                                                   (1)

    d       Kendall distance: pairs in opposite order          theta   dispersion: below 0 better than chance,
    m       items in the list                                          0 a guess, above 0 malicious

For whole lists Z(theta) = prod over l = 2..m of (1 - e^(l theta)) / (1 - e^theta). With h(y) = ln(sinh(y) / y), which
is even and smooth at 0, every factor is

    ln factor_l = (l - 1) theta / 2 + ln l + h(l theta / 2) - h(theta / 2)

so that one formula holds for both signs and through 0, with the mean (21) and the variance as its derivatives. E(d)
increases with theta (its derivative is the variance); at 0 it is m (m - 1) / 4.

Items that an annotator did not tell apart (ties) are a ranking whose order inside the groups is forgotten: sums over
the forgotten orders give Z = Z_m / prod Z_g for groups of g items, and d counts the pairs of different groups.

Lists that stop at k of n items have a distance of their own (equations 52-54, with k for the printed n):

    d = pairs of common items in opposite order + r (r + 1) / 2
        + pairs of a common item and one that only this list has, before it; for both lists      r = items not in common

Deviation: the mean (55) holds for a given r and is wrong for r > 1. Summed over all lists of k of n items,

    Z = sum over r of e^(theta r (r + 1) / 2) binomial_q(k, r)^2 [k - r]_q! r! binomial(n - k, r),  q = e^theta

where the first q-binomial is which places of the true list were missed and the second where the new items stand. A list
with few of the true items tells that its annotator is bad, which a mean given r cannot see.

[Wu16] Wu, You, Xia, Ma, Hu: Listwise learning to rank from crowds. ACM TKDD 11(1), 2016.
"""

from __future__ import annotations

import math

import numpy as np

from distrank.kernels import kernel
from distrank.records import Array

STEEPEST = 20.0  # |theta| is kept below: an annotator without a single mistake would be infinitely good
_SMALL = 0.1  # below, h and its derivatives are series
_PRECISION = 1e-13


@kernel
def _shape(y: float) -> tuple[float, float, float]:
    """h(y) = ln(sinh(y) / y) and its first two derivatives."""
    x = abs(y)
    if x < _SMALL:
        s = x * x
        value = s * (1.0 / 6.0 - s * (1.0 / 180.0 - s * (1.0 / 2835.0 - s / 37800.0)))
        slope = y * (1.0 / 3.0 - s * (1.0 / 45.0 - s * (2.0 / 945.0 - s / 4725.0)))
        curve = 1.0 / 3.0 - s * (1.0 / 15.0 - s * (2.0 / 189.0 - s * (1.0 / 675.0 - s * 2.0 / 10395.0)))
        return value, slope, curve
    fading = math.exp(-2.0 * x)
    value = x - math.log(2.0 * x) + math.log1p(-fading)
    slope = (1.0 + fading) / (1.0 - fading) - 1.0 / x
    curve = 1.0 / (x * x) - 4.0 * fading / ((1.0 - fading) * (1.0 - fading))
    return value, slope if y > 0.0 else -slope, curve


@kernel
def _factor(length: int, theta: float) -> tuple[float, float, float]:
    """ln of the factor of Z that the l-th item brings, and its first two derivatives in theta."""
    whole, one = _shape(0.5 * length * theta), _shape(0.5 * theta)
    value = 0.5 * (length - 1) * theta + math.log(length) + whole[0] - one[0]
    slope = 0.5 * (length - 1) + 0.5 * length * whole[1] - 0.5 * one[1]
    return value, max(slope, 0.0), max(0.25 * length * length * whole[2] - 0.25 * one[2], 0.0)


@kernel
def moments(items: int, chosen: int, theta: float) -> tuple[float, float, float]:
    """ln Z, mean and variance of the distance of a list of `chosen` of `items` items; whole lists have both equal."""
    value, mean, variance = np.zeros(chosen + 1), np.zeros(chosen + 1), np.zeros(chosen + 1)
    for length in range(2, chosen + 1):
        factor = _factor(length, theta)
        value[length] = value[length - 1] + factor[0]
        mean[length] = mean[length - 1] + factor[1]
        variance[length] = variance[length - 1] + factor[2]
    k = chosen
    if items == k:
        return value[k], mean[k], variance[k]
    most = min(k, items - k)
    log_weight, means = np.empty(most + 1), np.empty(most + 1)
    for r in range(most + 1):
        log_choices = math.lgamma(items - k + 1.0) - math.lgamma(items - k - r + 1.0)  # r! binomial(n - k, r)
        binomial = value[k] - value[r] - value[k - r]
        log_weight[r] = 0.5 * theta * r * (r + 1) + 2.0 * binomial + value[k - r] + log_choices
        means[r] = 0.5 * r * (r + 1) + 2.0 * (mean[k] - mean[r] - mean[k - r]) + mean[k - r]
    top = log_weight.max()
    total, first, second = 0.0, 0.0, 0.0
    for r in range(most + 1):
        share = math.exp(log_weight[r] - top)
        within = 2.0 * (variance[k] - variance[r] - variance[k - r]) + variance[k - r]
        total += share
        first += share * means[r]
        second += share * (within + (means[r] - means[0]) ** 2)
    first /= total
    return top + math.log(total), first, max(second / total - (first - means[0]) ** 2, 0.0)


@kernel
def log_evidence(owner: Array, items: Array, chosen: Array, count: Array, theta: Array) -> tuple[Array, Array, Array]:
    """ln Z, mean and variance of the sum of distances of every annotator, over kinds of lists.

    A kind is (annotator, items, chosen), `count` the number of such lists; groups of ties are kinds with a negative
    count.
    """
    value, mean, variance = np.zeros(len(theta)), np.zeros(len(theta)), np.zeros(len(theta))
    for kind in range(len(owner)):
        j = owner[kind]
        found = moments(items[kind], chosen[kind], theta[j])
        value[j] += count[kind] * found[0]
        mean[j] += count[kind] * found[1]
        variance[j] += count[kind] * found[2]
    return value, mean, variance


@kernel
def fitted_theta(kinds: Array, items: Array, chosen: Array, count: Array, distance: Array, start: Array) -> Array:
    """The theta of every annotator at which the expected sum of distances is `distance` (16), by safeguarded Newton.

    `kinds` are offsets: annotator j has the kinds kinds[j] .. kinds[j + 1]. Annotators without lists keep their start.
    """
    result = start.copy()
    for j in range(len(result)):
        if kinds[j] == kinds[j + 1]:
            continue
        low, high = -STEEPEST, STEEPEST
        theta = min(max(start[j], low), high)
        for _ in range(200):
            mean, variance = 0.0, 0.0
            for kind in range(kinds[j], kinds[j + 1]):
                found = moments(items[kind], chosen[kind], theta)
                mean += count[kind] * found[1]
                variance += count[kind] * found[2]
            if mean > distance[j]:
                high = theta
            else:
                low = theta
            step = (distance[j] - mean) / variance if variance > 0.0 else 2.0 * STEEPEST
            moved = theta + step
            if not low < moved < high:
                moved = 0.5 * (low + high)
            if abs(moved - theta) <= _PRECISION * (1.0 + abs(theta)) or high - low <= _PRECISION:
                theta = moved
                break
            theta = moved
        result[j] = theta
    return result
