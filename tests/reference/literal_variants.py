"""The objectives of the variants of Crowd-BT, written down row by row, and their maxima by other people's optimiser."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from literal_pairwise import Crowd, log_sigma
from scipy.optimize import minimize
from scipy.special import log_ndtr

from distrank.records import Array


@dataclass(frozen=True)
class Law:
    """log P of a report, given the annotator's parameter x and the difference of the scores, and of a virtual win."""

    log_p: Callable[[float, float], float]
    log_win: Callable[[float], float]


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _mixed(log_win: Callable[[float], float]) -> Law:
    """Equation 5 with any link."""
    return Law(lambda eta, d: float(np.logaddexp(_log(eta) + log_win(d), _log(1.0 - eta) + log_win(-d))), log_win)


def log_phi(d: float) -> float:
    """Logarithm of equation 7."""
    return float(log_ndtr(d / math.sqrt(2.0)))


LOGISTIC = _mixed(log_sigma)
PROBIT = _mixed(log_phi)
SCALED = Law(lambda g, d: log_sigma(g * d), log_sigma)

Prior = Callable[[float], float]


def flat(x: float) -> float:
    """No prior."""
    return 0.0 * x


def beta_prior(a: float, b: float) -> Prior:
    """Logarithm of Beta(a, b), without its constant."""
    return lambda x: (a - 1.0) * _log(x) + (b - 1.0) * _log(1.0 - x)


def gamma_prior(strength: float) -> Prior:
    """Logarithm of a Gamma density with mode 1, in units of its value there."""
    return lambda x: strength * (_log(x) - x + 1.0)


def objective(data: Crowd, s: Array, x: Array, law: Law, regularization: float, prior: Prior = flat) -> float:
    """Log-likelihood, virtual games and prior."""
    rows = math.fsum(w * law.log_p(float(x[k]), float(s[i] - s[j])) for k, i, j, w in data.wins() if w > 0)
    games = math.fsum(law.log_win(float(v)) + law.log_win(-float(v)) for v in s)
    return rows + regularization * games + math.fsum(prior(float(v)) for v in x)


def climbs(function: Callable[[Array], float], at: Array) -> Array:
    """The gradient by central differences."""
    found = np.empty(len(at))
    for v in range(len(at)):
        up, down = at.copy(), at.copy()
        up[v] += 1e-5
        down[v] -= 1e-5
        found[v] = (function(up) - function(down)) / (up[v] - down[v])
    return found


def maximum(
    data: Crowd, law: Law, regularization: float, prior: Prior, start: float, upper: float
) -> tuple[Array, Array]:
    """Scores and parameters at the maximum inside (0, upper), the scores fitted to `start` first."""
    n = data.items
    fixed = np.full(data.annotators, start)
    tight = {"maxiter": 2_000, "ftol": 1e-15, "gtol": 1e-8, "maxcor": 30}

    def scores(at: Array) -> tuple[float, Array]:
        def value(s: Array) -> float:
            return -objective(data, s, fixed, law, regularization)

        return value(at), climbs(value, at)

    def both(at: Array) -> tuple[float, Array]:
        def value(sx: Array) -> float:
            return -objective(data, sx[:n], sx[n:], law, regularization, prior)

        return value(at), climbs(value, at)

    s = minimize(scores, np.zeros(n), jac=True, method="L-BFGS-B", options=tight).x
    low = np.concatenate([np.full(n, -np.inf), np.full(data.annotators, 1e-3)])
    high = np.concatenate([np.full(n, np.inf), np.full(data.annotators, upper - 1e-3)])
    bounds = list(zip(low, high, strict=True))
    first = np.append(s, np.full(data.annotators, min(start, 0.95)))
    at = minimize(both, first, jac=True, method="L-BFGS-B", bounds=bounds, options=tight).x
    return at[:n], at[n:]
