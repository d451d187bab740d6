"""What the judgments of an annotator say of their quality, each held against what all *other* judgments say.

A judgment has pulled the scores towards itself, so at the fitted scores annotators look better than they are, and more
so where judgments are few. Without it (to first order, with v the variance of the difference d of the two scores)

    d' = d - v force / (1 - v alpha^2)        v' = v / (1 - v alpha^2)        force = d log p / dd

and the probability that the winner is the better one is the mean of the law over N(d', v'), called `above` here. The
likelihood of a quality x is then the product of x above + (1 - x) (1 - above) over the judgments: kept as its logarithm
at NODES points of a window around the estimate, which adds up over queries and shards.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel
from distrank.kernels.information import slopes
from distrank.kernels.laws import PROBIT
from distrank.kernels.normal import lower_tail

Floats = NDArray[np.float64]
Codes = NDArray[np.uint32]
Offsets = NDArray[np.int64]

NODES = 32
_OFTEN = 32  # rows after which a product becomes a logarithm: each factor is at least 1e-9
_LEAST = 1e-9
_LARGEST_LEVERAGE = 0.9


@kernel
def _above(law: int, x: float, d: float, v: float) -> float:
    """P(the winner is the better one), from the other judgments."""
    alpha, _ = slopes(law, x, d)
    rest = 1.0 / (1.0 - min(v * alpha * alpha, _LARGEST_LEVERAGE))
    if law == PROBIT:
        small = lower_tail(math.sqrt(0.5) * abs(d))
        above = 1.0 - small if d >= 0.0 else small
        density = math.exp(-0.25 * d * d) * 0.28209479177387814  # of d / sqrt 2, over sqrt 2
    else:
        odds = math.exp(-abs(d))
        above = 1.0 / (1.0 + odds) if d >= 0.0 else odds / (1.0 + odds)
        density = above * (1.0 - above)
    force = (2.0 * x - 1.0) * density / max(x * above + (1.0 - x) * (1.0 - above), _LEAST)
    d -= v * force * rest
    v *= rest
    if law == PROBIT:
        z = d / math.sqrt(2.0 + v)
        return 1.0 - lower_tail(z) if z >= 0.0 else lower_tail(-z)
    z = d / math.sqrt(1.0 + 0.125 * math.pi * v)  # the logistic law over a normal one, near enough
    odds = math.exp(-min(abs(z), 700.0))
    return 1.0 / (1.0 + odds) if z >= 0.0 else odds / (1.0 + odds)


@kernel
def question_runs(
    run: Offsets,
    owner: Codes,
    winner: Codes,
    loser: Codes,
    weight: Floats | None,
    score: Floats,
    parameter: Floats,
    law: int,
    begin: int,
    end: int,
    first: int,
    covariance: Floats,
    variance: Floats,
    window: Floats,
    answers: Floats,
) -> None:
    """Add, by owner, the log-likelihood of the runs `begin` to `end` at NODES points of the owner's window.

    The variance of a difference is from `covariance`, or, where that is empty, the sum of the two in `variance`; both
    are of the items from `first` on.
    """
    products = np.ones(NODES)
    for k in range(begin, end):
        x, found = parameter[owner[k]], answers[owner[k]]
        low = window[owner[k], 0]
        step = (window[owner[k], 1] - low) / (NODES - 1)
        since = 0
        for r in range(run[k], run[k + 1]):
            i, j = winner[r] - first, loser[r] - first
            if len(covariance):
                v = covariance[i, i] + covariance[j, j] - 2.0 * covariance[i, j]
            else:
                v = variance[i] + variance[j]
            above = _above(law, x, score[winner[r]] - score[loser[r]], max(v, 0.0))
            lift = 2.0 * above - 1.0
            base, lift = 1.0 - above + low * lift, step * lift
            if weight is None:
                for node in range(NODES):
                    products[node] *= max(base + node * lift, _LEAST)
                since += 1
                if since == _OFTEN:
                    since = 0
                    for node in range(NODES):
                        found[node] += math.log(products[node])
                        products[node] = 1.0
            else:
                for node in range(NODES):
                    found[node] += weight[r] * math.log(max(base + node * lift, _LEAST))
        for node in range(NODES):
            found[node] += math.log(products[node])
            products[node] = 1.0
