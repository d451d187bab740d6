"""Equations 12-19 of [Chen13], s^mu read as e^mu, for one preference."""

from __future__ import annotations

import math

Pair = tuple[float, float]


def updated(i: Pair, j: Pair, k: Pair, kappa: float) -> tuple[Pair, Pair, Pair]:
    """The beliefs of the winner i, the loser j and the annotator k after k reported i over j."""
    (mu_i, var_i), (mu_j, var_j), (alpha, beta) = i, j, k
    a, b = math.exp(mu_i), math.exp(mu_j)
    force = alpha * a / (alpha * a + beta * b) - a / (a + b)
    bend = alpha * a * beta * b / (alpha * a + beta * b) ** 2 - a * b / (a + b) ** 2
    new_i = (mu_i + var_i * force, var_i * max(1.0 + var_i * bend, kappa))  # 12, 14
    new_j = (mu_j - var_j * force, var_j * max(1.0 + var_j * bend, kappa))  # 13, 15
    c1 = a / (a + b) + 0.5 * (var_i + var_j) * a * b * (b - a) / (a + b) ** 3  # 19
    c1 = min(max(c1, 1e-6), 1.0 - 1e-6)
    c2, total = 1.0 - c1, alpha + beta
    c = (c1 * alpha + c2 * beta) / total  # 16
    first = (c1 * (alpha + 1) * alpha + c2 * alpha * beta) / (c * (total + 1) * total)
    second = (c1 * (alpha + 2) * (alpha + 1) * alpha + c2 * (alpha + 1) * alpha * beta) / (
        c * (total + 2) * (total + 1) * total
    )
    size = (first - second) / (second - first * first)
    return new_i, new_j, (size * first, size * (1.0 - first))  # 17, 18
