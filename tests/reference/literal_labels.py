"""Models of labels written down as the papers have them, one item and one label at a time."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Labelled:
    """Labels (item, annotator, grade) by code, of items whose true grade may be known."""

    labels: list[tuple[int, int, int]]
    items: int
    annotators: int
    grades: int
    known: dict[int, int]

    def of(self, item: int) -> list[tuple[int, int]]:
        return [(w, k) for i, w, k in self.labels if i == item]

    def frame(self) -> pd.DataFrame:
        rows = [("q", f"i{i:04d}", f"a{w:03d}", float(k)) for i, w, k in self.labels]
        return pd.DataFrame(rows, columns=["query", "item", "annotator", "rating"])

    def gold(self) -> pd.DataFrame:
        rows = [("q", f"i{i:04d}", float(c)) for i, c in self.known.items()]
        return pd.DataFrame(rows, columns=["query", "item", "relevance"])


def simulated(
    seed: int, *, items: int = 40, annotators: int = 6, grades: int = 3, per_item: int = 4, honeypots: int = 0
) -> tuple[Labelled, list[int], np.ndarray]:
    """Labels from random confusion matrices, the true grades and the matrices; every annotator and grade occurs."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.arange(items) % grades)
    matrices = 0.3 * rng.dirichlet(np.ones(grades), (annotators, grades)) + 0.7 * np.eye(grades)
    labels = [
        (i, int(w), int(rng.choice(grades, p=matrices[w, truth[i]])))
        for i in range(items)
        for w in rng.choice(annotators, per_item, replace=False)
    ]
    known = {int(i): int(truth[i]) for i in range(honeypots)}
    return Labelled(labels, items, annotators, grades, known), truth.tolist(), matrices


def dawid_skene_likelihood(data: Labelled, prior: np.ndarray, confusion: np.ndarray) -> float:
    """sum_i log sum_c p_c prod_w pi_w(c, l): the prior of the grade once per item."""
    total = 0.0
    for item in range(data.items):
        terms = [
            prior[c] * np.prod([confusion[w, c, k] for w, k in data.of(item)])
            for c in range(data.grades)
            if data.known.get(item, c) == c
        ]
        total += log(sum(terms))
    return total


def dawid_skene_posterior(data: Labelled, prior: np.ndarray, confusion: np.ndarray) -> np.ndarray:
    posterior = np.zeros((data.items, data.grades))
    for item in range(data.items):
        for c in range(data.grades):
            if data.known.get(item, c) == c:
                posterior[item, c] = prior[c] * np.prod([confusion[w, c, k] for w, k in data.of(item)])
    return posterior / posterior.sum(axis=1, keepdims=True)


def dawid_skene_step(
    data: Labelled, posterior: np.ndarray, right: float, wrong: float, per_grade: float
) -> tuple[np.ndarray, np.ndarray]:
    """p and pi from posteriors, `right` and `wrong` labels being imagined per grade, and `per_grade` items."""
    counts = np.full((data.annotators, data.grades, data.grades), wrong / max(data.grades - 1, 1))
    for c in range(data.grades):
        counts[:, c, c] = right
    for item, w, k in data.labels:
        counts[w, :, k] += posterior[item]
    classes = posterior.sum(axis=0) + per_grade
    return classes / classes.sum(), counts / counts.sum(axis=2, keepdims=True)


def dawid_skene_em(data: Labelled, right: float, wrong: float, per_grade: float, steps: int = 3000) -> tuple:
    """Plain EM from the votes."""
    posterior = np.zeros((data.items, data.grades))
    for item, _, k in data.labels:
        posterior[item, k] += 1.0
    posterior /= posterior.sum(axis=1, keepdims=True)
    for item, grade in data.known.items():
        posterior[item] = np.eye(data.grades)[grade]
    for _ in range(steps):
        prior, confusion = dawid_skene_step(data, posterior, right, wrong, per_grade)
        posterior = dawid_skene_posterior(data, prior, confusion)
    return prior, confusion, posterior


def glad_objective(data: Labelled, prior: np.ndarray, ability: np.ndarray, easiness: np.ndarray) -> float:
    """The log-likelihood with the normal priors of abilities and log easiness, and one imagined item per grade."""
    total = sum(log(p) for p in prior)
    total -= 0.5 * sum((a - 1.0) ** 2 for a in ability) + 0.5 * sum(b * b for b in easiness)
    for item in range(data.items):
        terms = []
        for c in range(data.grades):
            if data.known.get(item, c) != c:
                continue
            term = prior[c]
            for w, k in data.of(item):
                right = 1.0 / (1.0 + exp(-ability[w] * exp(easiness[item])))
                term *= right if k == c else (1.0 - right) / (data.grades - 1)
            terms.append(term)
        total += log(sum(terms))
    return total


def order_quality(confusion: np.ndarray, weight: np.ndarray) -> float:
    """P(two labels are in the order of their true grades | the grades differ), by going through all pairs."""
    agreed = total = 0.0
    grades = len(weight)
    for low in range(grades):
        for high in range(low + 1, grades):
            total += weight[low] * weight[high]
            for k in range(grades):
                for other in range(grades):
                    chance = weight[low] * weight[high] * confusion[low, k] * confusion[high, other]
                    agreed += chance * (1.0 if k < other else 0.5 if k == other else 0.0)
    return agreed / total
