"""The likelihood of the multinomial preference model, and scores that maximise it.  [Volkovs12]

A group is what one annotator said in one query: m items, and for each the weight of its wins minus that of its losses.

    v_i      score of item i           theta    the annotator's adherence
    B        weight of all preferences of the group

    log P = theta sum_i net_i v_i - B log Z        Z = sum over i != j of e^(theta (v_i - v_j))
                                                     = (sum of e^(theta v)) (sum of e^(-theta v)) - m

so that a group costs its items, not its pairs. For fixed theta the sum over groups is concave in v, and for fixed v it
is concave in theta.

[Volkovs12] Volkovs, Zemel: A flexible generative model for preference aggregation. WWW 2012.
"""

from __future__ import annotations

import numpy as np

from distrank.kernels import kernel
from distrank.kernels.lbfgs import dot
from distrank.records import Array

REACH = 8  # power in which largest differences are added up: nearly their maximum, and never below it
PAIRS = 8  # steps that the direction remembers
_SUFFICIENT = 1e-4  # share of the promised increase that a step must bring
_RESOLUTION = 1e-10  # relative: promises below it drown in rounding, and steps are judged by their slope
_CURVED = 1e-10


@kernel
def _group(item: Array, net: Array, weight: float, theta: float, v: Array, gradient: Array) -> float:
    """Log-likelihood of one group; its gradient in v is added."""
    m = len(item)
    high, low, linear = -np.inf, np.inf, 0.0
    for s in range(m):
        x = theta * v[item[s]]
        high, low = max(high, x), min(low, x)
        linear += net[s] * x
    up, down = 0.0, 0.0  # sums of e^(x - high) and e^(low - x)
    for s in range(m):
        x = theta * v[item[s]]
        up += np.exp(x - high)
        down += np.exp(low - x)
    z = up * down - m * np.exp(low - high)  # Z e^(low - high)
    for s in range(m):
        x = theta * v[item[s]]
        expected = (np.exp(x - high) * down - np.exp(low - x) * up) / z
        gradient[item[s]] += theta * (net[s] - weight * expected)
    return linear - weight * (high - low + np.log(z))


@kernel
def _evaluate(
    first: int,
    last: int,
    groups: tuple[int, int],
    entries: Array,
    item: Array,
    net: Array,
    weight: Array,
    theta: Array,
    ridge: float,
    v: Array,
    gradient: Array,
) -> float:
    """Objective of one unit (without the adherences' prior) and its gradient."""
    total = 0.0
    for i in range(first, last):
        total -= 0.5 * ridge * v[i] * v[i]
        gradient[i] = -ridge * v[i]
    for g in range(groups[0], groups[1]):
        begin, end = entries[g], entries[g + 1]
        total += _group(item[begin:end], net[begin:end], weight[g], theta[g], v, gradient)
    return total


@kernel
def _direction(steps: Array, falls: Array, inner: Array, kept: int, gradient: Array) -> Array:
    """The two loops of L-BFGS, for ascent; the newest pair is the last of the `kept` ones."""
    d = gradient.copy()
    along = np.empty(kept)
    for k in range(kept - 1, -1, -1):
        along[k] = dot(steps[k], d) / inner[k]
        d -= along[k] * falls[k]
    if kept > 0:
        d *= inner[kept - 1] / dot(falls[kept - 1], falls[kept - 1])
    for k in range(kept):
        d += (along[k] - dot(falls[k], d) / inner[k]) * steps[k]
    return d


@kernel
def climb(
    unit_nodes: Array,
    unit_groups: Array,
    entries: Array,
    item: Array,
    net: Array,
    weight: Array,
    theta: Array,  # by group
    ridge: float,
    tolerance: float,
    most: int,
    v: Array,
    objective: Array,
    steepest: Array,
) -> None:
    """Up to `most` L-BFGS steps of every unit; its objective and largest derivative at the scores handed back."""
    gradient = np.empty(len(v))
    for u in range(len(unit_nodes) - 1):
        first, last = unit_nodes[u], unit_nodes[u + 1]
        n, groups = last - first, (unit_groups[u], unit_groups[u + 1])
        steps, falls, inner = np.empty((PAIRS, n)), np.empty((PAIRS, n)), np.empty(PAIRS)
        kept = 0
        value = _evaluate(first, last, groups, entries, item, net, weight, theta, ridge, v, gradient)
        for _ in range(most):
            if n == 0 or np.abs(gradient[first:last]).max() <= tolerance:
                break
            old, slope_old = v[first:last].copy(), gradient[first:last].copy()
            d = _direction(steps, falls, inner, kept, slope_old)
            slope = dot(d, slope_old)
            if slope <= 0.0:
                kept, d = 0, slope_old
                slope = dot(d, slope_old)
            length = 1.0 if kept > 0 else 1.0 / max(np.sqrt(slope), 1.0)
            climbed = False
            for _ in range(30):
                v[first:last] = old + length * d
                found = _evaluate(first, last, groups, entries, item, net, weight, theta, ridge, v, gradient)
                climbed = found >= value + _SUFFICIENT * length * slope
                if length * slope < _RESOLUTION * (1.0 + abs(value)):
                    climbed = abs(dot(d, gradient[first:last])) <= 0.9 * slope
                if climbed:
                    break
                length *= 0.5
            if not climbed:  # as high as rounding allows
                v[first:last] = old
                gradient[first:last] = slope_old
                break
            value = found
            if kept == PAIRS:
                steps[:-1], falls[:-1], inner[:-1] = steps[1:].copy(), falls[1:].copy(), inner[1:].copy()
                kept -= 1
            steps[kept], falls[kept] = v[first:last] - old, slope_old - gradient[first:last]
            inner[kept] = dot(steps[kept], falls[kept])
            if inner[kept] > _CURVED * dot(steps[kept], steps[kept]):
                kept += 1
        objective[u] = value
        steepest[u] = np.abs(gradient[first:last]).max() if n > 0 else 0.0


@kernel
def adherence(entries: Array, item: Array, net: Array, weight: Array, theta: Array, v: Array, found: Array) -> None:
    """Fill in, by group: first and (negative) second derivative in theta; largest difference, to the power REACH."""
    for g in range(len(entries) - 1):
        t, high, low, observed = theta[g], -np.inf, np.inf, 0.0
        largest, smallest = -np.inf, np.inf
        m = entries[g + 1] - entries[g]
        for s in range(entries[g], entries[g + 1]):
            own = v[item[s]]
            high, low = max(high, t * own), min(low, t * own)
            largest, smallest = max(largest, own), min(smallest, own)
            observed += net[s] * own
        up = up1 = up2 = down = down1 = down2 = 0.0
        for s in range(entries[g], entries[g + 1]):
            own = v[item[s]] - smallest
            p, q = np.exp(t * v[item[s]] - high), np.exp(low - t * v[item[s]])
            up, up1, up2 = up + p, up1 + own * p, up2 + own * own * p
            down, down1, down2 = down + q, down1 + own * q, down2 + own * own * q
        z = up * down - m * np.exp(low - high)
        mean = (up1 * down - up * down1) / z
        square = (up2 * down - 2.0 * up1 * down1 + up * down2) / z
        found[g, 0] = observed - weight[g] * mean
        found[g, 1] = weight[g] * max(square - mean * mean, 0.0)
        found[g, 2] = (largest - smallest) ** REACH
