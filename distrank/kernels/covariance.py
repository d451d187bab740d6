"""Covariances of small queries, exactly: the information of the scores with the annotators eliminated, inverted.

    S = H_ss - sum_k h_k h_k' / D_k        S^-1 is the covariance of the scores (of the query, see `models._intervals`)

h_k is the information that ties annotator k's parameter to the scores of the query, D_k the information in the
parameter itself over all of the annotator's judgments. Rows and laws as in `information`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel
from distrank.kernels.information import slopes

Floats = NDArray[np.float64]
Codes = NDArray[np.uint32]
Offsets = NDArray[np.int64]


@kernel
def _ties(
    begin: int,
    end: int,
    winner: Codes,
    loser: Codes,
    weight: Floats | None,
    score: Floats,
    x: float,
    law: int,
    first: int,
    h: Floats,
    touched: Offsets,
) -> int:
    """h of one run into the zeros of `h`; the items that it touches, and how many they are."""
    count = 0
    for r in range(begin, end):
        i, j = winner[r], loser[r]
        alpha, beta = slopes(law, x, score[i] - score[j])
        cross = alpha * beta if weight is None else weight[r] * alpha * beta
        for item, value in ((i - first, cross), (j - first, -cross)):
            if h[item] == 0.0:  # noted twice where values cancel: `_distinct` does not mind
                touched[count] = item
                count += 1
            h[item] += value
    return count


@kernel
def _distinct(h: Floats, touched: Offsets, count: int, values: Floats) -> int:
    """Move h to `values`, item by item, and leave zeros; items noted twice are noted once."""
    kept = 0
    for t in range(count):
        item = touched[t]
        if h[item] != 0.0:
            touched[kept], values[kept] = item, h[item]
            h[item] = 0.0
            kept += 1
    return kept


@kernel
def schur_complement(
    run: Offsets,
    owner: Codes,
    winner: Codes,
    loser: Codes,
    weight: Floats | None,
    score: Floats,
    parameter: Floats | None,
    law: int,
    begin: int,
    end: int,
    first: int,
    known: Floats,
    matrix: Floats,
) -> None:
    """Add S without virtual games; `known` is D by owner (empty where there are no parameters)."""
    items = len(matrix)
    h = np.zeros(items)
    longest = 0
    for k in range(begin, end):
        longest = max(longest, run[k + 1] - run[k])
    touched, values = np.empty(2 * longest, np.int64), np.empty(2 * longest)
    for k in range(begin, end):
        x = 1.0 if parameter is None else parameter[owner[k]]
        for r in range(run[k], run[k + 1]):
            i, j = winner[r] - first, loser[r] - first
            alpha, _ = slopes(law, x, score[winner[r]] - score[loser[r]])
            value = alpha * alpha if weight is None else weight[r] * alpha * alpha
            matrix[i, i] += value
            matrix[j, j] += value
            matrix[i, j] -= value
            matrix[j, i] -= value
        if parameter is not None and known[owner[k]] > 0.0:
            noted = _ties(run[k], run[k + 1], winner, loser, weight, score, x, law, first, h, touched)
            count = _distinct(h, touched, noted, values)
            inverse = 1.0 / known[owner[k]]
            for s in range(count):
                factor = values[s] * inverse
                row = matrix[touched[s]]
                for t in range(count):
                    row[touched[t]] -= factor * values[t]


@kernel
def _factor(matrix: Floats) -> None:
    """matrix = L L': row j of L' takes the place of row j, on and right of the diagonal."""
    n = len(matrix)
    for j in range(n):
        upper = matrix[j]
        pivot = math.sqrt(max(upper[j], 1e-300))
        for t in range(j, n):
            upper[t] /= pivot
        for i in range(j + 1, n):
            factor, row = upper[i], matrix[i]
            for t in range(i, n):
                row[t] -= factor * upper[t]


@kernel
def invert(matrix: Floats, inverse: Floats) -> None:
    """The inverse of a positive definite matrix, whose place is taken. All inner loops run along rows.

    L^-1 is found row by row, and the inverse is the sum of the outer products of its rows.
    """
    n = len(matrix)
    _factor(matrix)
    root = np.zeros((n, n))  # L^-1
    for i in range(n):
        row = root[i]
        row[i] = 1.0
        for j in range(i):
            factor, other = matrix[j, i], root[j]
            for t in range(j + 1):
                row[t] -= factor * other[t]
        pivot = matrix[i, i]
        for t in range(i + 1):
            row[t] /= pivot
    inverse[:, :] = 0.0
    for k in range(n):
        row = root[k]
        for i in range(k + 1):
            factor, goal = row[i], inverse[i]
            for t in range(i + 1):
                goal[t] += factor * row[t]
    for i in range(n):
        for t in range(i):
            inverse[t, i] = inverse[i, t]


@kernel
def centre_covariance(covariance: Floats) -> None:
    """The covariance of the distances from the mean of all, in place."""
    n = len(covariance)
    means, grand = np.zeros(n), 0.0
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += covariance[i, j]
        means[i] = total / n
        grand += means[i] / n
    for i in range(n):
        for j in range(n):
            covariance[i, j] += grand - means[i] - means[j]
