"""LTRMA as the paper writes it, by enumeration of all rankings: slow, and close to its formulas."""

from __future__ import annotations

from itertools import permutations
from math import exp

import literal_lists as literal
import numpy as np
from scipy.optimize import brentq, minimize


class Crowd:
    """Queries with standardised features and lists by annotators (annotator -> item -> level)."""

    def __init__(self, features: list[np.ndarray], lists: list[dict[int, literal.Levels]], ridge: float) -> None:
        every = np.concatenate(features)
        self.features = [(x - every.mean(axis=0)) / every.std(axis=0) for x in features]
        self.lists, self.ridge = lists, ridge
        self.annotators = sorted({j for given in lists for j in given})

    def posterior(self, query: int, w: np.ndarray, theta: np.ndarray) -> literal.Posterior:
        given = self.lists[query]
        return literal.Posterior(self.features[query] @ w, list(given.values()), [theta[j] for j in given])

    def log_likelihood(self, w: np.ndarray, theta: np.ndarray) -> float:
        """(10) with the ridge on w."""
        total = -0.5 * self.ridge * len(self.lists) * float(w @ w)
        for query, given in enumerate(self.lists):
            total += self.posterior(query, w, theta).log_total
            total -= sum(log_normaliser(len(levels), theta[j]) for j, levels in given.items())
        return total

    def next_theta(self, w: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """(16), with the expectation of the distance by enumeration."""
        result = theta.copy()
        for j in self.annotators:
            mine = [q for q, given in enumerate(self.lists) if j in given]
            observed = sum(self.posterior(q, w, theta).expected_distance(self.lists[q][j]) for q in mine)
            sizes = [len(self.lists[q][j]) for q in mine]
            result[j] = brentq(
                lambda t, s=sizes, o=observed: sum(mean_distance(n, t) for n in s) - o, -15, 15, xtol=1e-13
            )
        return result

    def next_w(self, w: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """ListMLE on the most probable rankings (Algorithm 2, steps 3 and 4)."""
        truths = [self.posterior(q, w, theta).best for q in range(len(self.lists))]

        def loss(v: np.ndarray) -> float:
            fit = sum(literal.plackett_luce(y, x @ v) for y, x in zip(truths, self.features, strict=True))
            return -fit + 0.5 * self.ridge * len(self.lists) * float(v @ v)

        return minimize(loss, w, method="BFGS", options={"gtol": 1e-9}).x


def log_normaliser(items: int, theta: float) -> float:
    true = {item: item for item in range(items)}
    return float(np.log(sum(exp(theta * literal.kendall(y, true)) for y in permutations(range(items)))))


def mean_distance(items: int, theta: float) -> float:
    true = {item: item for item in range(items)}
    distance = np.array([literal.kendall(y, true) for y in permutations(range(items))], float)
    weight = np.exp(theta * distance - max(theta * distance.max(), 0.0))
    return float(weight @ distance / weight.sum())
