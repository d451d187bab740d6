"""The expected information written out: one row at a time, by finite differences of the probability of a report."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from distrank.kernels.laws import LOGISTIC, PROBIT

Floats = NDArray[np.float64]


def probability(law: int, x: float, d: float) -> float:
    """P(an annotator with parameter x reports the one that is d better)."""
    if law == LOGISTIC:
        above = 1.0 / (1.0 + math.exp(-d))
    elif law == PROBIT:
        above = 0.5 * math.erfc(-d / 2.0)
    else:
        return 1.0 / (1.0 + math.exp(-x * d))
    return x * above + (1.0 - x) * (1.0 - above)


def slope(function: Callable[[float], float], at: float, step: float = 1e-6) -> float:
    return (function(at + step) - function(at - step)) / (2.0 * step)


def joint_information(
    rows: list[tuple[int, int, int, float]], score: Floats, parameter: Floats | None, law: int
) -> Floats:
    """Over items, then annotators; rows are (annotator, winner, loser, weight)."""
    items = len(score)
    size = items + (len(parameter) if parameter is not None else 0)
    total = np.zeros((size, size))
    for annotator, winner, loser, weight in rows:
        x, d = 1.0 if parameter is None else float(parameter[annotator]), float(score[winner] - score[loser])
        p = probability(law, x, d)
        u = np.zeros(size)
        along = slope(lambda value, x=x: probability(law, x, value), d)
        u[winner], u[loser] = along, -along
        if parameter is not None:
            u[items + annotator] = slope(lambda value, d=d: probability(law, value, d), x)
        total += weight * np.outer(u, u) / (p * (1.0 - p))
    return total


def centred_deviations(information: Floats, items: int) -> Floats:
    """Deviations of the distances from the mean of all items, from the inverse of the whole information."""
    covariance = np.linalg.inv(information)[:items, :items]
    centre = np.eye(items) - 1.0 / items
    return np.sqrt(np.diag(centre @ covariance @ centre))
