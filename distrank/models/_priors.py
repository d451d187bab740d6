"""What is believed of every annotator before a judgment is seen, as a term of the objective by annotator.

    prior(x) = alpha log x + beta log(1 - x) - gamma (x - 1)

of the annotator's parameter x, alpha, beta, gamma >= 0: concave, as the likelihood is. Beta(a, b) on a quality is
(a - 1, b - 1, 0), up to a constant; Gamma with mode 1 on a scale is (c, 0, c), and 0 at 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from distrank.kernels.lbfgs import dot
from distrank.records import Array

INSIDE = 0.95  # share of the way to a bound that a step may go where the prior forbids the bound itself


class Belief(NamedTuple):
    """The prior at the parameters of all annotators: its sum, and first and (negative) second derivatives of each."""

    total: float
    first: Array
    second: Array


def believed(prior: Array, x: Array) -> Belief:
    """The prior at x; a term whose strength is 0 is left out, so that x may be at the bound it says nothing about."""
    alpha, beta, gamma = (float(strength) for strength in prior)
    value, first, second = -gamma * (x - 1.0), np.full(len(x), -gamma), np.zeros(len(x))
    if alpha > 0.0:
        value, first, second = value + alpha * np.log(x), first + alpha / x, second + alpha / (x * x)
    if beta > 0.0:
        rest = 1.0 - x
        value, first, second = value + beta * np.log(rest), first - beta / rest, second + beta / (rest * rest)
    return Belief(dot(value, np.ones(len(x))), first, second)


def room(prior: Array | None, x: Array, upper: float) -> tuple[Array, Array]:
    """How far a step from x may go down and up: to the bounds 0 and `upper`, or not quite where log x forbids them."""
    alpha, beta = (0.0, 0.0) if prior is None else (float(prior[0]), float(prior[1]))
    down, up = -x, upper - x
    return (INSIDE * down if alpha > 0.0 else down), (INSIDE * up if beta > 0.0 else up)
