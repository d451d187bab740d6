"""Equation 8 of [Chen13] written down row by row, and its maximum found by other people's optimiser."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from scipy.optimize import minimize

from distrank.records import Array
from distrank.tables.judgments import Judgments, judgments_from_codes


@dataclass(frozen=True)
class Crowd:
    """Preferences as plain columns; items of all queries share one numbering."""

    query: Array
    annotator: Array
    winner: Array
    loser: Array
    items: int
    annotators: int
    tie: Array | None = None
    weight: Array | None = None
    true_score: Array = field(default_factory=lambda: np.zeros(0))
    true_quality: Array = field(default_factory=lambda: np.zeros(0))

    def judgments(self) -> Judgments:
        columns = {name: getattr(self, name) for name in ("query", "annotator", "winner", "loser")}
        columns |= {name: value for name in ("tie", "weight") if (value := getattr(self, name)) is not None}
        return judgments_from_codes(
            "preferences",
            queries=pa.array(np.arange(self.query.max(initial=0) + 1)),
            items=pa.array(np.arange(self.items)),
            annotators=pa.array(np.arange(self.annotators)),
            **columns,
        )

    def wins(self) -> list[tuple[int, int, int, float]]:
        """(annotator, winner, loser, weight); a tie is half a win each way."""
        found = []
        for r in range(len(self.winner)):
            k, i, j = int(self.annotator[r]), int(self.winner[r]), int(self.loser[r])
            w = 1.0 if self.weight is None else float(self.weight[r])
            if self.tie is not None and self.tie[r]:
                found += [(k, i, j, 0.5 * w), (k, j, i, 0.5 * w)]
            else:
                found.append((k, i, j, w))
        return found


def crowd(
    seed: int, *, queries: int = 1, items: int = 12, annotators: int = 7, rows: int = 500, a: float = 5, b: float = 2
) -> Crowd:
    """Judgments by equation 5; scores N(0, 1.5^2), quality Beta(a, b)."""
    rng = np.random.default_rng(seed)
    s, eta = rng.normal(scale=1.5, size=queries * items), rng.beta(a, b, annotators)
    q, k = rng.integers(queries, size=rows), rng.integers(annotators, size=rows)
    i = rng.integers(items, size=rows)
    j = (i + rng.integers(1, items, size=rows)) % items
    i, j = i + q * items, j + q * items
    p = 1.0 / (1.0 + np.exp(s[j] - s[i]))
    reported = rng.random(rows) < eta[k] * p + (1.0 - eta[k]) * (1.0 - p)
    winner, loser = np.where(reported, i, j), np.where(reported, j, i)
    return Crowd(q, k, winner, loser, queries * items, annotators, true_score=s, true_quality=eta)


def log_sigma(d: float) -> float:
    """log of 1 / (1 + exp(-d))."""
    return -math.log1p(math.exp(-d)) if d >= 0 else d - math.log1p(math.exp(d))


def log_probability(eta: float, d: float) -> float:
    """Logarithm of equation 5."""
    honest = math.log(eta) + log_sigma(d) if eta > 0 else -math.inf
    turned = math.log(1.0 - eta) + log_sigma(-d) if eta < 1 else -math.inf
    return float(np.logaddexp(honest, turned))


def objective(data: Crowd, s: Array, eta: Array, regularization: float) -> float:
    """Equation 8."""
    total = math.fsum(w * log_probability(float(eta[k]), float(s[i] - s[j])) for k, i, j, w in data.wins() if w > 0)
    return total + regularization * math.fsum(log_sigma(float(x)) + log_sigma(float(-x)) for x in s)


def _value_and_gradient(data: Crowd, s: Array, eta: Array, regularization: float) -> tuple[float, Array, Array]:
    wins = data.wins()
    k, i, j = (np.array([win[column] for win in wins], int) for column in range(3))
    w = np.array([win[3] for win in wins])
    sigma = 1.0 / (1.0 + np.exp(s[j] - s[i]))
    p = eta[k] * sigma + (1.0 - eta[k]) * (1.0 - sigma)
    force = w * (2.0 * eta[k] - 1.0) * sigma * (1.0 - sigma) / p
    in_s = np.bincount(i, force, len(s)) - np.bincount(j, force, len(s)) - regularization * np.tanh(0.5 * s)
    in_eta = np.bincount(k, w * (2.0 * sigma - 1.0) / p, len(eta))
    reg = -regularization * (np.logaddexp(0.0, s) + np.logaddexp(0.0, -s)).sum()
    return float((w * np.log(p)).sum() + reg), in_s, in_eta


def maximum(data: Crowd, regularization: float, *, quality: bool) -> tuple[Array, Array]:
    """Scores and quality at the maximum of equation 8, started from quality 1; quality stays 1 if not asked for."""
    n, annotators = data.items, data.annotators

    def scores_only(x: Array) -> tuple[float, Array]:
        f, g, _ = _value_and_gradient(data, x, np.ones(annotators), regularization)
        return -f, -g

    def both(x: Array) -> tuple[float, Array]:
        f, g, h = _value_and_gradient(data, x[:n], x[n:], regularization)
        return -f, -np.concatenate([g, h])

    tight = {"maxiter": 20_000, "maxfun": 100_000, "ftol": 1e-16, "gtol": 1e-11, "maxcor": 30}
    s = minimize(scores_only, np.zeros(n), jac=True, method="L-BFGS-B", options=tight).x
    if not quality:
        return _polished(scores_only, s, np.full(n, -np.inf), np.full(n, np.inf)), np.ones(annotators)
    low = np.concatenate([np.full(n, -np.inf), np.zeros(annotators)])
    high = np.concatenate([np.full(n, np.inf), np.ones(annotators)])
    bounds = list(zip(low, high, strict=True))
    x = minimize(
        both, np.append(s, np.full(annotators, 0.99)), jac=True, method="L-BFGS-B", bounds=bounds, options=tight
    ).x
    x = _polished(both, x, low, high)
    return x[:n], x[n:]


def _polished(function: object, x: Array, low: Array, high: Array) -> Array:
    """Newton's method on the variables that are not at a bound, with the Hessian from differences of the gradient."""
    for _ in range(4):
        gradient = function(x)[1]  # type: ignore[operator]
        free = np.flatnonzero(~((x <= low) & (gradient > 0)) & ~((x >= high) & (gradient < 0)))
        hessian = np.empty((len(free), len(free)))
        for column, v in enumerate(free):
            h = 1e-6 if low[v] < x[v] - 1e-6 and x[v] + 1e-6 < high[v] else 0.0
            up, down = x.copy(), x.copy()
            up[v] += h or (1e-6 if x[v] < 0.5 else 0.0)
            down[v] -= h or (0.0 if x[v] < 0.5 else 1e-6)
            hessian[:, column] = (function(up)[1] - function(down)[1])[free] / (up[v] - down[v])  # type: ignore[operator]
        x = x.copy()
        x[free] = np.clip(x[free] - np.linalg.solve(hessian, gradient[free]), low[free], high[free])
    return x
