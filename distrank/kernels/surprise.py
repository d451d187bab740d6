"""The judgments that weigh most against an annotator.

The weight of a judgment is log (1/2 / P), where P is the probability that a typical annotator judges so: how much
better a coin explains it than somebody who knows. Only judgments that a coin explains better weigh against anyone.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel
from distrank.kernels.laws import LOGISTIC, PROBIT
from distrank.kernels.normal import ROOT_HALF, log_cdf, lower_tail

Floats = NDArray[np.float64]
Codes = NDArray[np.uint32]
Offsets = NDArray[np.int64]

_LOG_HALF = math.log(0.5)


@kernel
def against(law: int, typical: float, difference: float) -> float:
    """The weight of one judgment; `typical` is the parameter of a typical annotator."""
    if law == PROBIT:
        if typical == 1.0:
            return _LOG_HALF - log_cdf(ROOT_HALF * difference)
        small = lower_tail(ROOT_HALF * abs(difference))
        above = 1.0 - small if difference >= 0.0 else small
    else:
        t = difference if law == LOGISTIC else typical * difference
        odds = math.exp(-abs(t))
        if law != LOGISTIC or typical == 1.0:
            return _LOG_HALF + math.log1p(odds) + max(-t, 0.0)
        above = 1.0 / (1.0 + odds) if t >= 0.0 else odds / (1.0 + odds)
    return _LOG_HALF - math.log(typical * above + (1.0 - typical) * (1.0 - above))


@kernel
def _offer(weight: float, row: int, weights: Floats, rows: Offsets) -> None:
    """Keep a row if it is among the heaviest, heaviest first; of equal ones the first to come."""
    last = len(weights) - 1
    if not weight > weights[last]:
        return
    place = last
    while place > 0 and weight > weights[place - 1]:
        weights[place], rows[place] = weights[place - 1], rows[place - 1]
        place -= 1
    weights[place], rows[place] = weight, row


@kernel
def heaviest_in_runs(
    run: Offsets,
    owner: Codes,
    winner: Codes,
    loser: Codes,
    weight: Floats | None,
    score: Floats,
    law: int,
    typical: float,
    place: Offsets,
    weights: Floats,
    rows: Offsets,
) -> None:
    """The heaviest rows of the suspects; `place` of an owner is its row in the results, or -1."""
    for k in range(len(owner)):
        here = place[owner[k]]
        if here >= 0:
            for r in range(run[k], run[k + 1]):
                value = against(law, typical, score[winner[r]] - score[loser[r]])
                _offer(value if weight is None else weight[r] * value, r, weights[here], rows[here])
