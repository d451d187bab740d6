"""The normal distribution where its tails matter: log Phi and the hazard phi / Phi, to the last digits everywhere.

Up to 20 standard deviations erfc of the C library is exact to its last digits; beyond, it nears the smallest numbers
there are, and the asymptotic series of Mills' ratio takes over, whose ninth term is below 1e-16 there.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel

ROOT_HALF = math.sqrt(0.5)
LOG_ROOT_2_PI = 0.5 * math.log(2.0 * math.pi)
FAR = 20.0  # where the series takes over


@kernel
def density(z: float) -> float:
    """phi(z)."""
    return math.exp(-0.5 * z * z - LOG_ROOT_2_PI)


@kernel
def lower_tail(t: float) -> float:
    """Phi(-t) for t >= 0; relative accuracy until it underflows at t = 38."""
    return 0.5 * math.erfc(ROOT_HALF * t)


@kernel
def lower_tails(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Phi(-t) of every number, of either sign."""
    result = np.empty(t.shape)
    for place, value in np.ndenumerate(t):
        result[place] = 0.5 * math.erfc(ROOT_HALF * value)
    return result


@kernel
def _mills_series(t: float) -> float:
    """t times Mills' ratio (1 - Phi(t)) / phi(t), for t >= FAR: 1 - 1/t^2 + 1*3/t^4 - 1*3*5/t^6 + ..."""
    inverse = 1.0 / (t * t)
    total, term = 1.0, 1.0
    for n in range(1, 9):
        term *= -(2 * n - 1) * inverse
        total += term
    return total


@kernel
def log_cdf(z: float) -> float:
    """log Phi(z)."""
    if z > 0.0:
        return math.log1p(-lower_tail(z))
    if z > -FAR:
        return math.log(lower_tail(-z))
    return -0.5 * z * z - LOG_ROOT_2_PI - math.log(-z) + math.log(_mills_series(-z))


@kernel
def hazard(z: float) -> float:
    """phi(z) / Phi(z): the derivative of `log_cdf`."""
    if z > 0.0:
        return density(z) / (1.0 - lower_tail(z))
    if z > -FAR:
        return density(z) / lower_tail(-z)
    return -z / _mills_series(-z)
