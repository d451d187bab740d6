"""TPP written down literally: loops over preferences, scipy's normal law, no shards. Slow on purpose."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import integrate
from scipy.stats import norm

from distrank.records import Array


@dataclass(frozen=True)
class Toy:
    """Preferences by query, annotator, winner, loser (codes); items are numbered over all queries."""

    rows: list[tuple[int, int, int, int]]
    weight: list[float]
    unit_of_item: list[int]

    @property
    def units(self) -> int:
        return max(self.unit_of_item) + 1


def random_toy(seed: int, *, units: int = 3, items: int = 4, annotators: int = 3, rows: int = 40) -> Toy:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(rows):
        unit, annotator = int(rng.integers(units)), int(rng.integers(annotators))
        one, other = rng.choice(items, 2, replace=False)
        found.append((unit, annotator, unit * items + int(one), unit * items + int(other)))
    return Toy(sorted(found), rng.choice([1.0, 2.0, 0.5], rows).tolist(), np.repeat(np.arange(units), items).tolist())


def certainty(tau: float, hardness: float) -> float:
    return tau / math.sqrt(2.0 * (1.0 + tau**2 * math.exp(hardness)))


def domain_log_likelihood(toy: Toy, score: Array, hardness: Array, tau: Array) -> Array:
    """log P(preferences of a query | domain), perceived scores integrated out pair by pair."""
    total = np.zeros((toy.units, tau.shape[1]))
    for (unit, k, i, j), weight in zip(toy.rows, toy.weight, strict=True):
        for m in range(tau.shape[1]):
            z = certainty(tau[k, m], hardness[unit]) * (score[i] - score[j])
            total[unit, m] += weight * norm.logcdf(z)
    return total


def expected(toy: Toy, score: Array, hardness: Array, tau: Array, posterior: Array) -> float:
    return float((posterior * domain_log_likelihood(toy, score, hardness, tau)).sum())


def pair_probability(tau: float, s_i: float, s_j: float, variance: float) -> float:
    """P(i over j) by integrating over the difference of the perceived scores: what the closed form must give."""
    spread = math.sqrt(2.0 * variance)

    def integrand(d: float) -> float:
        return norm.cdf(tau * d / math.sqrt(2.0)) * norm.pdf(d, s_i - s_j, spread)

    centre = s_i - s_j
    return integrate.quad(integrand, centre - 12 * spread, centre + 12 * spread, points=[centre, 0.0], limit=200)[0]


def two_item_domain_posterior(counts: Array, tau: Array, share: Array, gap: float, variance: float) -> Array:
    """The exact posterior of the domain of a query with two items.

    counts[k] are how often annotator k preferred the first and the second item. All comparisons of an annotator share
    one perceived difference d ~ N(gap, 2 delta^2): one integral per annotator and domain.
    """
    log = np.log(share)
    spread = math.sqrt(2.0 * variance)
    for m in range(tau.shape[1]):
        for k in range(len(tau)):

            def integrand(d: float, k: int = k, m: int = m) -> float:
                y = tau[k, m] * d / math.sqrt(2.0)
                return norm.cdf(y) ** counts[k, 0] * norm.cdf(-y) ** counts[k, 1] * norm.pdf(d, gap, spread)

            log[m] += math.log(integrate.quad(integrand, gap - 12 * spread, gap + 12 * spread, limit=400)[0])
    weights = np.exp(log - log.max())
    return weights / weights.sum()
