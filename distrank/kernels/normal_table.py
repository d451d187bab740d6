"""log Phi by table: cubic Hermite interpolation, exact in value and derivative where cells meet.

Between -40 and 9 the error of the value is below 2e-12 and of the derivative below 1e-9, at a fifth of the cost of the
exact functions. The derivative is that of the interpolant itself: a line search sees one smooth function. Above 9 both
are 0 to the last digit that counts (1e-18); below -40 the exact functions take over.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel
from distrank.kernels.normal import hazard, log_cdf

Floats = NDArray[np.float64]

LOWEST, HIGHEST = -40.0, 9.0
_PER_UNIT = 128  # nodes: the fourth derivative of log Phi is at most 0.2, so h^4 / 384 * 0.2 is 2e-12
_WIDTH = 1.0 / _PER_UNIT


@cache
def log_cdf_table() -> Floats:
    """The cubic of every cell: four coefficients in the place within the cell, from 0 to 1. Read-only, made once."""
    table = _cubics(int(HIGHEST - LOWEST) * _PER_UNIT + 1)
    table.flags.writeable = False
    return table


@kernel
def _cubics(cells: int) -> Floats:
    table = np.empty((cells, 4))
    for cell in range(cells):
        left, right = cell * _WIDTH + LOWEST, (cell + 1) * _WIDTH + LOWEST
        value, rise = log_cdf(left), log_cdf(right) - log_cdf(left)
        begin, end = hazard(left) * _WIDTH, hazard(right) * _WIDTH
        table[cell, 0], table[cell, 1] = value, begin
        table[cell, 2], table[cell, 3] = 3.0 * rise - 2.0 * begin - end, begin + end - 2.0 * rise
    return table


@kernel
def log_cdf_of(table: Floats, z: float) -> float:
    """log Phi(z)."""
    if z < LOWEST:
        return log_cdf(z)
    place = (min(z, HIGHEST) - LOWEST) * _PER_UNIT
    cell = np.uint32(place)
    t = place - cell
    return table[cell, 0] + t * (table[cell, 1] + t * (table[cell, 2] + t * table[cell, 3]))


@kernel
def log_cdf_and_slope(table: Floats, z: float) -> tuple[float, float]:
    """log Phi(z) and its derivative."""
    if z < LOWEST:
        return log_cdf(z), hazard(z)
    place = (min(z, HIGHEST) - LOWEST) * _PER_UNIT
    cell = np.uint32(place)
    t = place - cell
    first, second, third = table[cell, 1], table[cell, 2], table[cell, 3]
    value = table[cell, 0] + t * (first + t * (second + t * third))
    return value, (first + t * (2.0 * second + 3.0 * t * third)) * _PER_UNIT


@kernel
def information_of(table: Floats, z: float) -> float:
    """phi^2 / (Phi (1 - Phi)): the expected curvature of log Phi(z) over both answers; a bell that ends at 0."""
    if abs(z) > HIGHEST:
        return 0.0
    return log_cdf_and_slope(table, z)[1] * log_cdf_and_slope(table, -z)[1]


@kernel
def quantile(p: float) -> float:
    """The z with Phi(z) = p, for 0 < p < 1, to 16 digits.  [Wichura88], algorithm AS 241

    [Wichura88] Wichura: The percentage points of the normal distribution. Applied Statistics 37, 1988.
    """
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        top = 2509.0809287301226727
        top = top * r + 33430.575583588128105
        top = top * r + 67265.770927008700853
        top = top * r + 45921.953931549871457
        top = top * r + 13731.693765509461125
        top = top * r + 1971.5909503065514427
        top = top * r + 133.14166789178437745
        top = top * r + 3.387132872796366608
        low = 5226.495278852545925
        low = low * r + 28729.085735721942674
        low = low * r + 39307.89580009271061
        low = low * r + 21213.794301586595867
        low = low * r + 5394.1960214247511077
        low = low * r + 687.1870074920579083
        low = low * r + 42.313330701600911252
        low = low * r + 1.0
        return q * top / low
    r = math.sqrt(-math.log(min(p, 1.0 - p)))
    z = _middle_tail(r - 1.6) if r <= 5.0 else _far_tail(r - 5.0)
    return z if q > 0.0 else -z


@kernel
def _middle_tail(r: float) -> float:
    top = 7.7454501427834140764e-4
    top = top * r + 0.0227238449892691845833
    top = top * r + 0.24178072517745061177
    top = top * r + 1.27045825245236838258
    top = top * r + 3.64784832476320460504
    top = top * r + 5.7694972214606914055
    top = top * r + 4.6303378461565452959
    top = top * r + 1.42343711074968357734
    low = 1.05075007164441684324e-9
    low = low * r + 5.475938084995344946e-4
    low = low * r + 0.0151986665636164571966
    low = low * r + 0.14810397642748007459
    low = low * r + 0.68976733498510000455
    low = low * r + 1.6763848301838038494
    low = low * r + 2.05319162663775882187
    low = low * r + 1.0
    return top / low


@kernel
def _far_tail(r: float) -> float:
    top = 2.01033439929228813265e-7
    top = top * r + 2.71155556874348757815e-5
    top = top * r + 0.0012426609473880784386
    top = top * r + 0.026532189526576123093
    top = top * r + 0.29656057182850489123
    top = top * r + 1.7848265399172913358
    top = top * r + 5.4637849111641143699
    top = top * r + 6.6579046435011037772
    low = 2.04426310338993978564e-15
    low = low * r + 1.4215117583164458887e-7
    low = low * r + 1.8463183175100546818e-5
    low = low * r + 7.868691311456132591e-4
    low = low * r + 0.0148753612908506148525
    low = low * r + 0.13692988092273580531
    low = low * r + 0.59983220655588793769
    low = low * r + 1.0
    return top / low
