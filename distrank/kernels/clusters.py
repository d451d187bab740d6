"""How sure scores are where the answers of one annotator in one query depend on each other.  [Wang16], [White82]

The likelihood of `expertise` takes pairs as independent, but the pairs of one annotator in one query share perceived
scores. So the covariance of a query's scores is the sandwich

    H^-1 (J + P) H^-1       H  expected information of scores and log delta^2, with the precision P of their priors
                            J  sum over annotators of g g', g the gradient of all their pairs in the query

clustered by annotator and query. Fitted gradients are a little too small; with few clusters K, K / (K - 1) makes up
for most of it. Expertise is taken as known: it rests on many queries.

[Wang16]  Wang, Wang, Jie, Zhai, Chang: Blind men and the elephant. ICDM 2016.
[White82] White: Maximum likelihood estimation of misspecified models. Econometrica 50, 1982.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel
from distrank.kernels.expertise import NEGLIGIBLE, certainty
from distrank.kernels.normal_table import information_of, log_cdf_and_slope

Floats = NDArray[np.float64]
Codes = NDArray[np.uint32]
Offsets = NDArray[np.int64]


@kernel
def meat_and_bread(
    first: int,
    last: int,
    node: int,
    run: Offsets,
    owner: Codes,
    winner: Codes,
    loser: Codes,
    weight: Floats | None,
    score: Floats,
    hardness: float,
    tau: Floats,
    posterior: Floats,
    table: Floats,
    bread: Floats,
    meat: Floats,
) -> None:
    """Add H and J of the runs first..last of one unit, whose first node is `node`; the last row is log delta^2."""
    n = len(bread) - 1
    variance = math.exp(hardness)
    gradient = np.empty(n + 1)
    for k in range(first, last):
        gradient[:] = 0.0
        for m in range(tau.shape[1]):
            share = posterior[m]
            if share < NEGLIGIBLE:
                continue
            c, _, by_hardness = certainty(tau[owner[k], m], variance)
            for r in range(run[k], run[k + 1]):
                i, j = winner[r] - node, loser[r] - node
                difference = score[winner[r]] - score[loser[r]]
                counted = share if weight is None else share * weight[r]
                pull = counted * log_cdf_and_slope(table, c * difference)[1]
                gradient[i] += pull * c
                gradient[j] -= pull * c
                gradient[n] += pull * difference * by_hardness
                bend = counted * information_of(table, c * difference)
                along = difference * by_hardness
                bread[i, i] += bend * c * c
                bread[j, j] += bend * c * c
                bread[i, j] -= bend * c * c
                bread[j, i] -= bend * c * c
                bread[n, i] += bend * c * along
                bread[i, n] += bend * c * along
                bread[n, j] -= bend * c * along
                bread[j, n] -= bend * c * along
                bread[n, n] += bend * along * along
        for a in range(n + 1):
            if gradient[a] != 0.0:
                for b in range(n + 1):
                    meat[a, b] += gradient[a] * gradient[b]


@kernel
def diagonals(
    first: int,
    last: int,
    node: int,
    run: Offsets,
    owner: Codes,
    winner: Codes,
    loser: Codes,
    weight: Floats | None,
    score: Floats,
    hardness: float,
    tau: Floats,
    posterior: Floats,
    table: Floats,
    bread: Floats,
    meat: Floats,
) -> None:
    """Add the diagonals of H and J of the scores alone, as in `meat_and_bread`: for units too large for matrices."""
    variance = math.exp(hardness)
    gradient = np.zeros(len(bread))
    for k in range(first, last):
        for m in range(tau.shape[1]):
            share = posterior[m]
            if share < NEGLIGIBLE:
                continue
            c = certainty(tau[owner[k], m], variance)[0]
            for r in range(run[k], run[k + 1]):
                i, j = winner[r] - node, loser[r] - node
                z = c * (score[winner[r]] - score[loser[r]])
                counted = share if weight is None else share * weight[r]
                pull = counted * c * log_cdf_and_slope(table, z)[1]
                gradient[i] += pull
                gradient[j] -= pull
                bend = counted * c * c * information_of(table, z)
                bread[i] += bend
                bread[j] += bend
        for r in range(run[k], run[k + 1]):
            for i in (winner[r] - node, loser[r] - node):
                meat[i] += gradient[i] * gradient[i]
                gradient[i] = 0.0


@kernel
def sandwich(bread: Floats, meat: Floats, precision: Floats, clusters: int) -> Floats:
    """H^-1 (J + P) H^-1 from sums without priors; `precision` is the diagonal P."""
    n = len(bread)
    inverse, middle = bread.copy(), meat.copy()
    if clusters > 1:
        middle *= clusters / (clusters - 1.0)
    for a in range(n):
        inverse[a, a] += precision[a]
        middle[a, a] += precision[a]
    invert(inverse)
    return multiplied(multiplied(inverse, middle), inverse)


@kernel
def centre(covariance: Floats) -> None:
    """From the covariance of scores to that of their distances from the mean of all, in its place."""
    n = len(covariance)
    means = np.zeros(n)
    total = 0.0
    for a in range(n):
        for b in range(n):
            means[a] += covariance[a, b] / n
        total += means[a] / n
    for a in range(n):
        for b in range(n):
            covariance[a, b] += total - means[a] - means[b]


@kernel
def multiplied(left: Floats, right: Floats) -> Floats:
    """left right, in one order of sums on every machine."""
    n = len(left)
    result = np.zeros((n, n))
    for a in range(n):
        for b in range(n):
            if left[a, b] != 0.0:
                for c in range(n):
                    result[a, c] += left[a, b] * right[b, c]
    return result


@kernel
def invert(matrix: Floats) -> None:
    """The inverse of a positive definite matrix in its place, by Gauss and Jordan."""
    n = len(matrix)
    for pivot in range(n):
        scale = 1.0 / matrix[pivot, pivot]
        for c in range(n):
            matrix[pivot, c] *= scale
        matrix[pivot, pivot] = scale
        for a in range(n):
            if a != pivot:
                factor = matrix[a, pivot]
                if factor != 0.0:
                    matrix[a, pivot] = 0.0
                    for c in range(n):
                        matrix[a, c] -= factor * matrix[pivot, c]


@kernel
def rank_bounds(score: Floats, covariance: Floats, z: float, low: Offsets, high: Offsets) -> None:
    """The best and worst rank of every item: places are lost to items that are surely above, won from those below.

    Surely: the difference of the two scores is more than z of its standard deviations from 0.
    """
    n = len(score)
    for i in range(n):
        above, below = 0, 0
        for j in range(n):
            if j != i:
                variance = covariance[i, i] + covariance[j, j] - 2.0 * covariance[i, j]
                reach = z * math.sqrt(max(variance, 0.0))
                if score[j] - score[i] > reach:
                    above += 1
                elif score[i] - score[j] > reach:
                    below += 1
        low[i], high[i] = 1 + above, n - below


@kernel
def separate_rank_bounds(score: Floats, deviation: Floats, z: float, low: Offsets, high: Offsets) -> None:
    """The same for independent scores."""
    n = len(score)
    for i in range(n):
        above, below = 0, 0
        for j in range(n):
            reach = z * math.sqrt(deviation[i] * deviation[i] + deviation[j] * deviation[j])
            if score[j] - score[i] > reach:
                above += 1
            elif score[i] - score[j] > reach:
                below += 1
        low[i], high[i] = 1 + above, n - below


@kernel
def implied_accuracy(
    unit: Offsets,
    run: Offsets,
    owner: Codes,
    winner: Codes,
    loser: Codes,
    weight: Floats | None,
    score: Floats,
    hardness: Floats,
    tau: Floats,
    posterior: Floats,
    table: Floats,
    judged: Floats,
    right: Floats,
    lift: Floats,
) -> None:
    """By annotator and domain: judgments, how many of them agree with the consensus in expectation, d that / d tau."""
    for l in range(len(unit) - 1):  # noqa: E741
        variance = math.exp(hardness[l])
        for m in range(tau.shape[1]):
            share = posterior[l, m]
            if share < NEGLIGIBLE:
                continue
            for k in range(unit[l], unit[l + 1]):
                c, by_tau, _ = certainty(tau[owner[k], m], variance)
                for r in range(run[k], run[k + 1]):
                    distance = abs(score[winner[r]] - score[loser[r]])
                    value, slope = log_cdf_and_slope(table, c * distance)
                    counted = share if weight is None else share * weight[r]
                    judged[owner[k], m] += counted
                    right[owner[k], m] += counted * math.exp(value)
                    lift[owner[k], m] += counted * math.exp(value) * slope * distance * by_tau
