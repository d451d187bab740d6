"""Ties as an outcome of their own: Davidson's model.  [Davidson70]

    P(tie of i and j) = nu / (e^(d/2) + e^(-d/2) + nu)           d = s_i - s_j

and what is left goes to the two orders as without ties. So a likelihood with ties is the likelihood of the orders,
whatever law they follow, times that of *whether* a pair was tied: a coin with odds

    log odds = log nu - log(2 cosh(d / 2))

which even items win more often than uneven ones. Only this second factor is here; quality has no part in it.

[Davidson70] Davidson: On extending the Bradley-Terry model to accommodate ties in paired comparison experiments.
             JASA 65, 1970.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel

Floats = NDArray[np.float64]
Codes = NDArray[np.uint32]


@kernel
def tie_log_odds(difference: float, log_nu: float) -> float:
    """log nu - log(2 cosh(d / 2)), for differences of any size."""
    size = abs(difference)
    return log_nu - 0.5 * size - math.log1p(math.exp(-size))


@kernel
def log_likelihood(
    one: Codes,
    other: Codes,
    weight: Floats | None,
    score: Floats,
    log_nu: float,
    tied: bool,
    gradient: Floats,
    diagonal: Floats | None,
) -> tuple[float, float, float]:
    """Of pairs that were all tied, or all not: the log-likelihood, its slope in log nu and its curvature there.

    Adds the gradient in the scores and, where asked for, the diagonal of the Fisher information.
    """
    total, slope, curvature = 0.0, 0.0, 0.0
    for r in range(len(one)):
        i, j = one[r], other[r]
        difference = score[i] - score[j]
        x = tie_log_odds(difference, log_nu)
        small = math.exp(-abs(x))
        chance = 1.0 / (1.0 + small) if x >= 0.0 else small / (1.0 + small)  # of a tie
        softplus = max(x, 0.0) + math.log1p(small)
        counted = 1.0 if weight is None else weight[r]
        total += counted * ((x if tied else 0.0) - softplus)
        rest = counted * ((1.0 if tied else 0.0) - chance)
        bend = counted * chance * (1.0 - chance)
        lean = -0.5 * math.tanh(0.5 * difference)  # of the log odds in the score of i
        gradient[i] += rest * lean
        gradient[j] -= rest * lean
        slope += rest
        curvature += bend
        if diagonal is not None:
            diagonal[i] += bend * lean * lean
            diagonal[j] += bend * lean * lean
    return total, slope, curvature
