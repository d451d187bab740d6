"""The expected (Fisher) information of preferences in scores and annotators' parameters, a row at a time.

A report is a coin with probability p, so the information of a row is of rank one: u u' with

    u = (alpha, -alpha, beta)     alpha = dp/dd / sqrt(p (1 - p))     beta = dp/dx / sqrt(p (1 - p))

for the winner's score, the loser's score and the annotator's parameter x, where d is the difference of the scores. It
is never indefinite, whatever the parameters. `extra` is what else is known, on the diagonal: virtual games, a prior,
and what an annotator's judgments elsewhere say of x.

The unknowns of a query are its items and then its runs (an annotator has one run in a query, see `preferences`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel
from distrank.kernels.laws import LOGISTIC, PROBIT
from distrank.kernels.normal import ROOT_HALF, density, lower_tail
from distrank.kernels.random import threefry

Floats = NDArray[np.float64]
Codes = NDArray[np.uint32]
Offsets = NDArray[np.int64]

_FARTHEST = 40.0  # a larger difference has no information that could be seen beside any other
_LEAST = 1e-30  # of p (1 - p)


@kernel
def slopes(law: int, x: float, difference: float) -> tuple[float, float]:
    """alpha and beta of a row."""
    d = min(max(difference, -_FARTHEST), _FARTHEST)
    if law == PROBIT:
        z = ROOT_HALF * d
        small = lower_tail(abs(z))
        above = 1.0 - small if z >= 0.0 else small
        slope = ROOT_HALF * density(z)
        lift = 1.0 - 2.0 * small if z >= 0.0 else 2.0 * small - 1.0
    else:
        t = d if law == LOGISTIC else x * d
        odds = math.exp(-abs(t))
        inverse = 1.0 / (1.0 + odds)
        slope = odds * inverse * inverse
        if law != LOGISTIC:
            root = math.sqrt(slope)  # p' / sqrt(p (1 - p)) of the logistic law itself
            return x * root, d * root
        above = inverse if t >= 0.0 else odds * inverse
        lift = (1.0 - odds) * inverse if t >= 0.0 else (odds - 1.0) * inverse
    skill = 2.0 * x - 1.0
    p = x * above + (1.0 - x) * (1.0 - above)
    q = x * (1.0 - above) + (1.0 - x) * above
    scale = 1.0 / math.sqrt(max(p * q, _LEAST))
    return skill * slope * scale, lift * scale


@kernel
def annotator_information(
    run: Offsets,
    owner: Codes,
    winner: Codes,
    loser: Codes,
    weight: Floats | None,
    score: Floats,
    parameter: Floats,
    law: int,
    found: Floats,
) -> None:
    """Add, by owner, the information of its rows in its parameter."""
    for k in range(len(owner)):
        x, total = parameter[owner[k]], 0.0
        for r in range(run[k], run[k + 1]):
            _, beta = slopes(law, x, score[winner[r]] - score[loser[r]])
            total += beta * beta if weight is None else weight[r] * beta * beta
        found[owner[k]] += total


@kernel
def product(
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
    vectors: Floats,
    result: Floats,
) -> None:
    """Add the information times every column of `vectors`: one pass over the rows for all of them."""
    draws = vectors.shape[1]
    items = len(vectors) - (end - begin if parameter is not None else 0)
    shared, total = np.zeros(draws), np.zeros(draws)
    for k in range(begin, end):
        x = 1.0 if parameter is None else parameter[owner[k]]
        if parameter is not None:
            for m in range(draws):
                shared[m] = vectors[items + k - begin, m]
                total[m] = 0.0
        for r in range(run[k], run[k + 1]):
            i, j = winner[r], loser[r]
            alpha, beta = slopes(law, x, score[i] - score[j])
            counted = 1.0 if weight is None else weight[r]
            high, low = vectors[i - first], vectors[j - first]
            up, down = result[i - first], result[j - first]
            squared = counted * alpha * alpha
            if parameter is None:
                for m in range(draws):
                    along = squared * (high[m] - low[m])
                    up[m] += along
                    down[m] -= along
            else:
                cross, own = counted * alpha * beta, counted * beta * beta
                for m in range(draws):
                    difference = high[m] - low[m]
                    along = squared * difference + cross * shared[m]
                    up[m] += along
                    down[m] -= along
                    total[m] += cross * difference + own * shared[m]
        if parameter is not None:
            for m in range(draws):
                result[items + k - begin, m] += total[m]


@kernel
def _sign(word: np.uint64, place: int) -> float:
    return 1.0 - 2.0 * np.float64(np.int64((word >> np.uint64(place)) & np.uint64(1)))


@kernel
def noise(
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
    key: NDArray[np.uint64],
    stream: np.uint64,
    diagonal: Floats,
    result: Floats,
) -> None:
    """Add the information's diagonal, and random vectors (up to 64) whose covariance it is: u of every row with a
    random sign.

    Items and runs are those from `first` and from `begin` to `end`.
    """
    draws = result.shape[1]
    items = len(result) - (end - begin if parameter is not None else 0)
    for k in range(begin, end):
        x = 1.0 if parameter is None else parameter[owner[k]]
        for r in range(run[k], run[k + 1]):
            i, j = winner[r], loser[r]
            alpha, beta = slopes(law, x, score[i] - score[j])
            if weight is not None:
                root = math.sqrt(weight[r])
                alpha, beta = alpha * root, beta * root
            diagonal[i - first] += alpha * alpha
            diagonal[j - first] += alpha * alpha
            if parameter is not None:
                diagonal[items + k - begin] += beta * beta
            word, _ = threefry(key[0], key[1], stream, np.uint64(r - run[begin]))
            up, down = result[i - first], result[j - first]
            for m in range(draws):
                step = _sign(word, m) * alpha
                up[m] += step
                down[m] -= step
            if parameter is not None:
                own = result[items + k - begin]
                for m in range(draws):
                    own[m] += _sign(word, m) * beta


@kernel
def extra_noise(extra: Floats, key: NDArray[np.uint64], stream: np.uint64, result: Floats) -> None:
    """The same for what is on the diagonal only."""
    for i in range(len(extra)):
        word, _ = threefry(key[1], key[0], stream, np.uint64(i))
        root = math.sqrt(max(extra[i], 0.0))
        for m in range(result.shape[1]):
            result[i, m] += root * _sign(word, m)


@kernel
def column_dots(left: Floats, right: Floats) -> Floats:
    """The inner products of equal columns, in one order."""
    total = np.zeros(left.shape[1])
    for i in range(left.shape[0]):
        for m in range(left.shape[1]):
            total[m] += left[i, m] * right[i, m]
    return total
