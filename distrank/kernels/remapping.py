"""Weights and relevance values of samples from their label features, and the sums that their derivatives need.
[Ustinovskiy16]

    y_r    label features of sample r        w_r = sigma(y_r . alpha)    l_r = sigma(y_r . beta)               (3)

The samples of one item share its ranking features, so the items' sums are all that the linear ranker sees.
"""

from __future__ import annotations

import math

import numpy as np

from distrank.kernels import kernel
from distrank.kernels.labels import Codes, Floats


@kernel
def _sigmoid(x: float) -> float:
    tail = math.exp(-abs(x))
    return 1.0 / (1.0 + tail) if x >= 0.0 else tail / (1.0 + tail)


@kernel
def _value(r: int, y: Floats, alpha: Floats, beta: Floats, fixed: Floats | None) -> tuple[float, float]:
    """Weight and relevance value of a sample, equation 3; the value may be given."""
    a, b = 0.0, 0.0
    for j in range(len(alpha)):
        a += y[r, j] * alpha[j]
        if fixed is None:
            b += y[r, j] * beta[j]
    return _sigmoid(a), _sigmoid(b) if fixed is None else fixed[r]


@kernel
def item_sums(
    item: Codes, y: Floats, alpha: Floats, beta: Floats, fixed: Floats | None, weight: Floats, label: Floats
) -> None:
    """By item: the sum of w, and of w l."""
    for r in range(len(item)):
        w, value = _value(r, y, alpha, beta, fixed)
        weight[item[r]] += w
        label[item[r]] += w * value


@kernel
def adjoint_sums(
    item: Codes,
    y: Floats,
    alpha: Floats,
    beta: Floats,
    fixed: Floats | None,
    pull: Floats,
    fitted: Floats,
    up_alpha: Floats,
    up_beta: Floats,
) -> None:
    """The derivatives in alpha and beta, equations 8 and 9 within 5; those in beta are left alone where values are
    given.

    `pull` is x . z by item, z being the solution of Z z = dM/db: one solve in place of one per parameter. `fitted` is
    x . b.
    """
    for r in range(len(item)):
        w, value = _value(r, y, alpha, beta, fixed)
        for_alpha = pull[item[r]] * (value - fitted[item[r]]) * w * (1.0 - w)  # (8)
        for_beta = pull[item[r]] * w * value * (1.0 - value)  # (9)
        for j in range(len(alpha)):
            up_alpha[j] += for_alpha * y[r, j]
            if fixed is None:
                up_beta[j] += for_beta * y[r, j]


@kernel
def values_of(y: Floats, alpha: Floats, beta: Floats) -> tuple[Floats, Floats]:
    """Weight and relevance value of every sample, equation 3."""
    weight, label = np.empty(len(y)), np.empty(len(y))
    for r in range(len(y)):
        weight[r], label[r] = _value(r, y, alpha, beta, None)
    return weight, label
