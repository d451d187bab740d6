"""The regulariser of section 3.2 of [Chen13]: every item wins once and loses once against a virtual item of score 0.

The games follow the model's own law: the normal one for PROBIT, the logistic one for all others.

[Chen13] Chen, Bennett, Collins-Thompson, Horvitz: Pairwise ranking aggregation in a crowdsourced setting. WSDM 2013.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel
from distrank.kernels.laws import PROBIT
from distrank.kernels.normal import ROOT_HALF, hazard, log_cdf

Floats = NDArray[np.float64]
Offsets = NDArray[np.int64]

_FAR = 100.0  # a win from here is certain
_TINY = 1e-30  # a product of probabilities is turned into a logarithm before it can underflow


@kernel
def _pull(score: float, law: int) -> tuple[float, float]:
    """How hard the two games pull an item back to 0, and how that grows with the score."""
    if law == PROBIT:
        z = ROOT_HALF * score
        lost, won = hazard(-z), hazard(z)
        return ROOT_HALF * (lost - won), 0.5 * (lost * (lost - z) + won * (won + z))  # h'(z) = -h(z) (h(z) + z)
    odds = math.exp(-abs(score))
    side = (1.0 - odds) / (1.0 + odds)  # tanh(|s| / 2)
    return math.copysign(side, score), 2.0 * odds / ((1.0 + odds) * (1.0 + odds))


@kernel
def virtual_games(score: Floats, strength: float, law: int, gradient: Floats) -> float:
    """Logarithm of the probability of all games, and its gradient."""
    total, product = 0.0, 1.0
    for i in range(len(score)):
        size = abs(score[i])
        if law == PROBIT:
            total += log_cdf(ROOT_HALF * size) + log_cdf(-ROOT_HALF * size)
            gradient[i] -= strength * _pull(score[i], law)[0]
        elif size > _FAR:
            total -= size
            gradient[i] -= math.copysign(strength, score[i])
        else:
            odds = math.exp(-size)
            inverse = 1.0 / (1.0 + odds)
            product *= odds * inverse * inverse
            gradient[i] -= math.copysign(strength * (1.0 - odds) * inverse, score[i])
            if product < _TINY:
                total += math.log(product)
                product = 1.0
    return strength * (total + math.log(product))


@kernel
def virtual_information(score: Floats, strength: float, law: int, diagonal: Floats) -> None:
    """Curvature of `virtual_games`."""
    for i in range(len(score)):
        diagonal[i] += strength * _pull(score[i], law)[1]


@kernel
def centre(score: Floats, unit: Offsets, law: int) -> None:
    """Shift the scores of every unit to where the virtual games like them best; preferences do not see a shift.

    Only the virtual games curve the objective along a shift, thousands of times less than preferences curve it along
    anything else: left to a general method, this one direction would be the last to converge.
    """
    for u in range(len(unit) - 1):
        begin, end = unit[u], unit[u + 1]
        low, high = -np.inf, np.inf
        shift, step = 0.0, 1.0
        while abs(step) > 1e-4 and end > begin:  # Newton's error is the square of its last step
            excess, slope = 0.0, 0.0
            for i in range(begin, end):
                pull, growth = _pull(score[i] + shift, law)
                excess += pull
                slope += growth
            if excess > 0.0:
                high = shift
            elif excess < 0.0:
                low = shift
            step = -min(max(excess / max(slope, 1e-3), -2.0), 2.0)
            if not low < shift + step < high:
                step = 0.5 * (low + high) - shift if low > -np.inf and high < np.inf else 0.0
            shift += step
        for i in range(begin, end):
            score[i] += shift
