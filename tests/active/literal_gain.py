"""Equation 10 of [Chen13] as printed, in Python floats and scipy's special functions; and every triple looked at."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from literal_updates import updated
from scipy.special import betaln, digamma


def normal_divergence(mean: float, variance: float, old_mean: float, old_variance: float) -> float:
    """KL(N(mean, variance) || N(old))."""
    ratio = variance / old_variance
    return 0.5 * (ratio - 1.0 - math.log(ratio) + (mean - old_mean) ** 2 / old_variance)


def beta_divergence(alpha: float, beta: float, old_alpha: float, old_beta: float) -> float:
    """KL(Beta(alpha, beta) || Beta(old))."""
    total = float(betaln(old_alpha, old_beta) - betaln(alpha, beta))
    total += (alpha - old_alpha) * float(digamma(alpha)) + (beta - old_beta) * float(digamma(beta))
    return total + (old_alpha - alpha + old_beta - beta) * float(digamma(alpha + beta))


def chance(i: tuple[float, float], j: tuple[float, float], k: tuple[float, float]) -> float:
    """Pr(annotator k reports i over j): equations 16 and 19."""
    a, b = math.exp(i[0]), math.exp(j[0])
    c1 = a / (a + b) + 0.5 * (i[1] + j[1]) * a * b * (b - a) / (a + b) ** 3
    c1 = min(max(c1, 1e-6), 1.0 - 1e-6)
    return (c1 * k[0] + (1.0 - c1) * k[1]) / (k[0] + k[1])


def expected_gain(
    i: tuple[float, float], j: tuple[float, float], k: tuple[float, float], gamma: float, kappa: float = 1e-4
) -> float:
    """Equation 10."""
    total = 0.0
    for winner, loser in ((i, j), (j, i)):
        new_winner, new_loser, new_k = updated(winner, loser, k, kappa)
        gain = normal_divergence(*new_winner, *winner) + normal_divergence(*new_loser, *loser)
        total += chance(winner, loser, k) * (gain + gamma * beta_divergence(*new_k, *k))
    return total


def triples(queries: Any, annotators: Any) -> Iterator[tuple[int, int, int]]:
    """Every pair of items of a query with every annotator."""
    for begin, end in pairwise(queries):
        for i in range(begin, end):
            for j in range(i + 1, end):
                for k in annotators:
                    yield i, j, k
