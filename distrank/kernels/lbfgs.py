"""L-BFGS in coefficients: the direction from inner products, the vectors wherever they are.  [Nocedal80]

The direction is a combination of vectors that never have to be in one place: it takes their inner products, which add
up over shards, and hands back coefficients, with which every shard moves its own scores.

    x_i, g_i   the last m + 1 points and their gradients, oldest first: `path` holds all x, then all g
    s_i, y_i   the steps x_(i+1) - x_i between them, and how much the gradient fell, g_i - g_(i+1)
    H          diagonal scaling: inverse of the expected curvature
    products   inner products of the rows s_i, H y_i, H g with the columns y_j, g

[Nocedal80] Nocedal: Updating quasi-Newton matrices with limited storage. Mathematics of Computation 35, 1980.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel

Floats = NDArray[np.float64]
Path = tuple[Floats, ...]  # 2 m + 2 vectors of one type, so that numba can pick one by its number

PAIRS = 6  # m
_CHUNK = 256  # entries at a time: 3 m + 1 vectors of them stay in the first-level cache
_FLATTEST = 1e-8  # a pair whose scaled curvature is outside (0, 1 / this) says nothing about the optimum


@kernel
def dot(x: Floats, y: Floats) -> float:
    """x . y with four sums, in one order on every machine."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    fours = len(x) - len(x) % 4
    for i in range(0, fours, 4):
        a += x[i] * y[i]
        b += x[i + 1] * y[i + 1]
        c += x[i + 2] * y[i + 2]
        d += x[i + 3] * y[i + 3]
    for i in range(fours, len(x)):
        a += x[i] * y[i]
    return (a + b) + (c + d)


@kernel
def inner_products(path: Path, inverse: Floats) -> Floats:
    """The products that `direction` needs; those of a step with an older change of the gradient are left at 0."""
    m = len(path) // 2 - 1
    products = np.zeros((2 * m + 1, m + 1))
    rows = np.empty((3 * m + 1, _CHUNK))  # s, y, H y, H g
    for begin in range(0, len(inverse), _CHUNK):
        width = min(_CHUNK, len(inverse) - begin)
        for i in range(m):
            before, after = path[i], path[i + 1]
            for n in range(width):
                rows[i, n] = after[begin + n] - before[begin + n]
            before, after = path[m + 1 + i], path[m + 2 + i]
            for n in range(width):
                rows[m + i, n] = before[begin + n] - after[begin + n]
                rows[2 * m + i, n] = inverse[begin + n] * rows[m + i, n]
        gradient = path[2 * m + 1][begin : begin + width]
        for n in range(width):
            rows[3 * m, n] = inverse[begin + n] * gradient[n]
        for i in range(2 * m + 1):
            row = rows[i if i < m else i + m, :width]
            for j in range(i % m if i < 2 * m else m, m):
                products[i, j] += dot(row, rows[m + j, :width])
            products[i, m] += dot(row, gradient)
    return products


@kernel
def direction(products: Floats, usable: int) -> tuple[Floats, float]:
    """Coefficients of the ascent direction in the rows s_i, H y_i, H g, and its slope; `usable` pairs, the newest."""
    m = products.shape[1] - 1
    step_gradient, change_gradient = products[:m, m], products[m : 2 * m, m]
    coefficients = np.zeros(2 * m + 1)
    taken = np.zeros(m, np.bool_)
    scale = 1.0
    for i in range(m - usable, m):
        curvature = products[i, i]
        if curvature > _FLATTEST * products[m + i, i] and products[m + i, i] > 0.0:
            taken[i] = True
            scale = curvature / products[m + i, i]
    first = np.zeros(m)  # the two loops of the recursion, on coefficients
    for i in range(m - 1, -1, -1):
        if taken[i]:
            along = step_gradient[i]
            for j in range(i + 1, m):
                along -= first[j] * products[i, j]
            first[i] = along / products[i, i]
    for i in range(m):
        if taken[i]:
            along = scale * change_gradient[i]
            for j in range(m):
                along -= scale * first[j] * products[m + min(i, j), max(i, j)]
            for j in range(i):
                along += coefficients[j] * products[j, i]
            coefficients[i] = first[i] - along / products[i, i]
    slope = scale * products[2 * m, m]
    for i in range(m):
        coefficients[m + i] = -scale * first[i]
        slope += coefficients[i] * step_gradient[i] + coefficients[m + i] * change_gradient[i]
    coefficients[2 * m] = scale
    return coefficients, slope


@kernel
def moved(path: Path, inverse: Floats, coefficients: Floats, farthest: float) -> Floats:
    """The newest point plus the direction with these coefficients, no entry by more than `farthest`."""
    m = len(path) // 2 - 1
    point, gradient = path[m], path[2 * m + 1]
    result = np.empty(len(point))
    for begin in range(0, len(point), _CHUNK):
        end = min(begin + _CHUNK, len(point))
        for n in range(begin, end):
            result[n] = coefficients[2 * m] * gradient[n]
        for i in range(m):
            if coefficients[m + i] != 0.0:
                before, after = path[m + 1 + i], path[m + 2 + i]
                for n in range(begin, end):
                    result[n] += coefficients[m + i] * (before[n] - after[n])
        for n in range(begin, end):
            result[n] *= inverse[n]
        for i in range(m):
            if coefficients[i] != 0.0:
                before, after = path[i], path[i + 1]
                for n in range(begin, end):
                    result[n] += coefficients[i] * (after[n] - before[n])
        for n in range(begin, end):
            result[n] = point[n] + min(max(result[n], -farthest), farthest)
    return result
