"""Deviations of scores in large queries: the inverse of the information by random vectors, never as a matrix.

    b ~ (0, H)      random signs on the information of every row (`kernels.information.noise`)
    H z = b         by conjugate gradients; then z ~ (0, H^-1)

A variance is not taken from the z alone. Given all other unknowns, unknown i has the variance 1 / H_ii and the mean
m_i = z_i - b_i / H_ii, so that

    var z_i = 1 / H_ii + E m_i^2

and only the second term is estimated: what reaches an item through its neighbours, the smaller the more of them there
are. A few draws are therefore enough, and the equations may be solved loosely.

The unknowns are the items of a query and the annotators who judged it (none where all are trusted alike). The same
loop runs inside a step for a whole query, and between rounds for all split queries together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from distrank.kernels.information import column_dots
from distrank.records import Array

MOST_DRAWS = 64  # bits of a random word
FEWEST_DRAWS = 8
WORK = 1 << 20  # rows times draws that are cheap beside a fit
LOOSE = 0.02  # of the right-hand side, in the norm of the preconditioner, may be left
MOST_ITERATIONS = 200

Product: TypeAlias = Callable[[Array], Array]


class Judged(NamedTuple):
    """Preferences with the scores and parameters that give them their probabilities, as the kernels take them."""

    run: Array
    owner: Array
    winner: Array
    loser: Array
    weight: Array | None
    score: Array
    parameter: Array | None
    law: int


class Span(NamedTuple):
    """The runs of one unit, and its first item."""

    begin: int
    end: int
    first: int


def draws_for(rows: int) -> int:
    """More draws where rows are few: a power of two."""
    draws = FEWEST_DRAWS
    while 2 * draws <= MOST_DRAWS and 2 * draws * rows <= WORK:
        draws *= 2
    return draws


def solved(product: Product, right: Array, diagonal: Array) -> Array:
    """Conjugate gradients on all columns at once, preconditioned by the diagonal."""
    scale = 1.0 / diagonal[:, None]
    x, left = np.zeros_like(right), right
    toward = scaled = left * scale
    size = column_dots(left, scaled)
    goal = LOOSE**2 * size
    for _ in range(MOST_ITERATIONS):
        image = product(toward)
        bend = column_dots(toward, image)
        step = np.divide(size, bend, out=np.zeros_like(size), where=bend > 0.0)
        x = x + step * toward
        left = left - step * image
        scaled = left * scale
        new = column_dots(left, scaled)
        if (new <= goal).all():
            break
        turn = np.divide(new, size, out=np.zeros_like(size), where=size > 0.0)
        toward, size = scaled + turn * toward, new
    return x


def variances(product: Product, right: Array, diagonal: Array, queries: Array) -> Array:
    """The variance of every item's distance from the mean of its query, from `right` ~ (0, H).

    `queries` are offsets into the items, which come before the annotators.
    """
    diagonal = np.maximum(diagonal, 1e-300)  # an annotator may have no information at all
    z, items = solved(product, right, diagonal), int(queries[-1])
    mean = (z - right / diagonal[:, None])[:items]
    sizes = np.diff(queries)
    query, count = np.repeat(np.arange(len(sizes)), sizes), np.repeat(sizes, sizes).astype(np.float64)
    total = np.zeros((len(sizes), z.shape[1]))
    np.add.at(total, query, z[:items])
    # the distance from the mean of the query, given all others: z_i is replaced by its mean in it
    centred = mean - (total[query] - z[:items] + mean) / count[:, None]
    share = 1.0 - 1.0 / count
    return share * share / diagonal[:items] + _mean_square(centred)


def _mean_square(values: Array) -> Array:
    squares = np.zeros(len(values))
    for column in values.T:
        squares = squares + column * column
    return squares / max(values.shape[1], 1)
