"""How sure scores are where the answers of one annotator in one query depend on each other.  [White82], [Bell02]

The likelihood of `expertise` takes pairs as independent, but the pairs of one annotator in one query share perceived
scores. So the covariance of a query's scores is the sandwich

    H^-1 (J + P) H^-1       H  expected information of scores and log delta^2, with the precision P of their priors
                            J  sum over annotators of g g', g the gradient of all their pairs in the query

clustered by annotator and query. Fitted gradients are too small, much too small where few pairs are close enough to say
anything: an annotator's g is taken at the fit without this annotator's pairs, (I - H_k H^-1)^-1 g to first order.
Expertise is taken as known: it rests on many queries.

[White82] White: Maximum likelihood estimation of misspecified models. Econometrica 50, 1982.
[Bell02]  Bell, McCaffrey: Bias reduction in standard errors for linear regression with multi-stage samples. Survey
          Methodology 28, 2002.
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
def add_bread(
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
) -> None:
    """Add H of the runs first..last of one unit, whose first node is `node`; the last row is log delta^2."""
    for k in range(first, last):
        rows = _rows_of_run(
            k, node, run, owner, winner, loser, weight, score, hardness, tau, posterior, table, np.empty(len(bread))
        )
        _add_outer(rows[0], rows[1], rows[2], rows[3], 1.0, bread)


@kernel
def _rows_of_run(
    k: int,
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
    gradient: Floats,
) -> tuple[Offsets, Offsets, Floats, Floats]:
    """The gradient of a run, and the rows of its root of information: at i, minus at j, and at log delta^2."""
    variance, size = math.exp(hardness), len(gradient) - 1
    active = 0
    for m in range(len(posterior)):
        active += posterior[m] >= NEGLIGIBLE
    count = active * (run[k + 1] - run[k])
    at_i, at_j = np.empty(count, np.int64), np.empty(count, np.int64)
    by_score, by_hardness = np.empty(count), np.empty(count)
    gradient[:] = 0.0
    row = 0
    for m in range(len(posterior)):
        if posterior[m] < NEGLIGIBLE:
            continue
        c, _, bend = certainty(tau[owner[k], m], variance)
        for r in range(run[k], run[k + 1]):
            i, j = winner[r] - node, loser[r] - node
            difference = score[winner[r]] - score[loser[r]]
            counted = posterior[m] if weight is None else posterior[m] * weight[r]
            pull = counted * log_cdf_and_slope(table, c * difference)[1]
            gradient[i] += pull * c
            gradient[j] -= pull * c
            gradient[size] += pull * difference * bend
            root = math.sqrt(counted * information_of(table, c * difference))
            at_i[row], at_j[row], by_score[row], by_hardness[row] = i, j, root * c, root * difference * bend
            row += 1
    return at_i, at_j, by_score, by_hardness


@kernel
def _add_outer(at_i: Offsets, at_j: Offsets, by_score: Floats, by_hardness: Floats, sign: float, total: Floats) -> None:
    """Add (or take away) the information of some rows."""
    n = len(total) - 1
    for row in range(len(at_i)):
        i, j, a, b = at_i[row], at_j[row], by_score[row], by_hardness[row]
        square, cross = sign * a * a, sign * a * b
        total[i, i] += square
        total[j, j] += square
        total[i, j] -= square
        total[j, i] -= square
        total[n, i] += cross
        total[i, n] += cross
        total[n, j] -= cross
        total[j, n] -= cross
        total[n, n] += sign * b * b


@kernel
def add_meat(
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
    whole: Floats,
    inverse: Floats,
    meat: Floats,
) -> None:
    """Add J of the runs first..last of one unit; `whole` is H with priors, `inverse` its inverse."""
    n = len(meat) - 1
    gradient = np.empty(n + 1)
    for k in range(first, last):
        rows = _rows_of_run(
            k, node, run, owner, winner, loser, weight, score, hardness, tau, posterior, table, gradient
        )
        if len(rows[0]) <= n:
            _without_few(gradient, rows[0], rows[1], rows[2], rows[3], inverse)
        else:
            left = whole.copy()
            _add_outer(rows[0], rows[1], rows[2], rows[3], -1.0, left)
            invert(left)
            gradient[:] = applied(whole, applied(left, gradient))
        for a in range(n + 1):
            if gradient[a] != 0.0:
                for b in range(n + 1):
                    meat[a, b] += gradient[a] * gradient[b]


@kernel
def _without_few(
    gradient: Floats, at_i: Offsets, at_j: Offsets, by_score: Floats, by_hardness: Floats, inverse: Floats
) -> None:
    """(I - A'A H^-1)^-1 g = g + A' (I - A H^-1 A')^-1 A H^-1 g, in the place of g; A are the rows of a run."""
    n, count = len(gradient) - 1, len(at_i)
    moved = applied(inverse, gradient)
    system, along = np.empty((count, count)), np.empty(count)
    column = np.empty(n + 1)
    for a in range(count):
        i, j = at_i[a], at_j[a]
        for b in range(n + 1):
            column[b] = by_score[a] * (inverse[b, i] - inverse[b, j]) + by_hardness[a] * inverse[b, n]
        along[a] = by_score[a] * (moved[i] - moved[j]) + by_hardness[a] * moved[n]
        for b in range(count):
            system[b, a] = -(by_score[b] * (column[at_i[b]] - column[at_j[b]]) + by_hardness[b] * column[n])
        system[a, a] += 1.0
    invert(system)
    found = applied(system, along)
    for a in range(count):
        gradient[at_i[a]] += by_score[a] * found[a]
        gradient[at_j[a]] -= by_score[a] * found[a]
        gradient[n] += by_hardness[a] * found[a]


@kernel
def applied(matrix: Floats, vector: Floats) -> Floats:
    """matrix vector, in one order of sums on every machine."""
    result = np.zeros(len(matrix))
    for a in range(len(matrix)):
        for b in range(len(vector)):
            result[a] += matrix[a, b] * vector[b]
    return result


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
def believed(bread: Floats, precision: Floats) -> tuple[Floats, Floats]:
    """H with the precision of the priors on its diagonal, and its inverse."""
    whole = bread.copy()
    for a in range(len(whole)):
        whole[a, a] += precision[a]
    inverse = whole.copy()
    invert(inverse)
    return whole, inverse


@kernel
def sandwich(inverse: Floats, meat: Floats, precision: Floats) -> Floats:
    """H^-1 (J + P) H^-1."""
    middle = meat.copy()
    for a in range(len(middle)):
        middle[a, a] += precision[a]
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
