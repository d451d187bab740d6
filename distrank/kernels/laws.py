"""Passes over preferences for laws that need the difference d of two scores, not their odds.

    PROBIT     P = eta Phi(d / sqrt 2) + (1 - eta) Phi(-d / sqrt 2)           equation 7 of [Chen13] within equation 5
    SCALED     P = sigma(g d)                                                 annotator-specific scale, [Volkovs12]

LOGISTIC, the law of equation 5 itself, has passes of its own in `preferences`, which read odds from a table.
The parameter of an annotator is eta or g; both laws are concave in it. It is None where it is 1 for everyone. Rows and
results are laid out as in `preferences`.

[Chen13]    Chen, Bennett, Collins-Thompson, Horvitz: Pairwise ranking aggregation in a crowdsourced setting. WSDM 2013.
[Volkovs12] Volkovs, Zemel: A flexible generative model for preference aggregation. WWW 2012.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel
from distrank.kernels.normal import ROOT_HALF, density, hazard, log_cdf, lower_tail

Floats = NDArray[np.float64]
Codes = NDArray[np.uint32]
Offsets = NDArray[np.int64]

LOGISTIC, PROBIT, SCALED = 0, 1, 2
_WIDEST = 21.0  # standard deviations; beyond, a tail is below 1e-97: nothing beside any eta that is not 0 or 1 exactly


@kernel
def _probit(eta: float, difference: float) -> tuple[float, float, float, float]:
    """log P, its derivative in d, its derivative in eta, and minus its second derivative in eta."""
    z = ROOT_HALF * difference
    size = min(abs(z), _WIDEST)
    small = lower_tail(size)
    above, below = (1.0 - small, small) if z >= 0.0 else (small, 1.0 - small)  # Phi(z), Phi(-z)
    probability = eta * above + (1.0 - eta) * below
    lift = (above - below) / probability
    if eta == 1.0:  # exact in the tail, where the likelihood goes on falling with the difference
        value, force = log_cdf(z), ROOT_HALF * hazard(z)
    elif eta == 0.0:
        value, force = log_cdf(-z), -ROOT_HALF * hazard(-z)
    else:
        value, force = math.log(probability), ROOT_HALF * (2.0 * eta - 1.0) * density(size) / probability
    return value, force, lift, lift * lift


@kernel
def _scaled(gain: float, difference: float) -> tuple[float, float, float, float]:
    """log P, its derivative in d, its derivative in g, and minus its second derivative in g."""
    odds = math.exp(-abs(gain * difference))
    inverse = 1.0 / (1.0 + odds)
    if difference >= 0.0:
        value, miss = -math.log1p(odds), odds * inverse
    else:
        value, miss = -abs(gain * difference) - math.log1p(odds), inverse
    return value, gain * miss, difference * miss, difference * difference * odds * inverse * inverse


@kernel
def log_likelihood(
    run: Offsets,
    owner: Codes,
    winner: Codes,
    loser: Codes,
    weight: Floats | None,
    score: Floats,
    parameter: Floats | None,
    law: int,
    gradient: Floats,
    first: Floats,
    second: Floats,
) -> float:
    """The log-likelihood, its gradient in the scores, first and (negative) second derivatives in the parameters."""
    total = 0.0
    for k in range(len(owner)):
        x = 1.0 if parameter is None else parameter[owner[k]]
        slope, curvature = 0.0, 0.0
        for r in range(run[k], run[k + 1]):
            i, j = winner[r], loser[r]
            value, force, lift, bend = (
                _probit(x, score[i] - score[j]) if law == PROBIT else _scaled(x, score[i] - score[j])
            )
            counted = 1.0 if weight is None else weight[r]
            total += counted * value
            slope += counted * lift
            curvature += counted * bend
            gradient[i] += counted * force
            gradient[j] -= counted * force
        if parameter is not None:
            first[owner[k]] += slope
            second[owner[k]] += curvature
    return total


@kernel
def information(
    run: Offsets,
    owner: Codes,
    winner: Codes,
    loser: Codes,
    weight: Floats | None,
    score: Floats,
    parameter: Floats | None,
    law: int,
    diagonal: Floats,
) -> None:
    """The diagonal of the Fisher information in the scores: the expected curvature, never negative."""
    for k in range(len(owner)):
        x = 1.0 if parameter is None else parameter[owner[k]]
        for r in range(run[k], run[k + 1]):
            i, j = winner[r], loser[r]
            difference = score[i] - score[j]
            if law == PROBIT:
                size = min(ROOT_HALF * abs(difference), _WIDEST)
                small = lower_tail(size)
                slope = (2.0 * x - 1.0) * density(size)
                either = (x * small + (1.0 - x) * (1.0 - small)) * (x * (1.0 - small) + (1.0 - x) * small)
                value = 0.5 * slope * slope / either  # (d P / d s)^2 / (P (1 - P))
            else:
                odds = math.exp(-abs(x * difference))
                value = x * x * odds / ((1.0 + odds) * (1.0 + odds))
            if weight is not None:
                value *= weight[r]
            diagonal[i] += value
            diagonal[j] += value
