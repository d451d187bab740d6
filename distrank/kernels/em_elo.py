"""Which side of every pair is better, by a vote in which annotators count by their quality; and Elo ratings."""

from __future__ import annotations

import numpy as np

from distrank.kernels import kernel
from distrank.records import Array


@kernel
def expectation(pair: Array, forward: Array, annotator: Array, size: Array, eta: Array, logit: Array) -> float:
    """Log odds that the first item of every pair is better; returns the log-likelihood of all reports.

    P(reports of a pair) = (prod of P(report | first is better) + prod of P(report | second is better)) / 2.
    """
    first = np.zeros(len(logit))  # log-likelihood of the reports if the first item is better, and if the second is
    second = np.zeros(len(logit))
    for row in range(len(pair)):
        right, wrong = np.log(eta[annotator[row]]), np.log1p(-eta[annotator[row]])
        first[pair[row]] += size[row] * (right if forward[row] else wrong)
        second[pair[row]] += size[row] * (wrong if forward[row] else right)
    total = 0.0
    for p in range(len(logit)):
        logit[p] = first[p] - second[p]
        total += max(first[p], second[p]) + np.log1p(np.exp(-abs(logit[p]))) - np.log(2.0)
    return total


@kernel
def credit(pair: Array, forward: Array, annotator: Array, size: Array, logit: Array, counts: Array) -> None:
    """Add up, by annotator, the expected number of right reports, and of all."""
    for row in range(len(pair)):
        odds = logit[pair[row]] if forward[row] else -logit[pair[row]]
        counts[annotator[row], 0] += size[row] / (1.0 + np.exp(-odds))
        counts[annotator[row], 1] += size[row]


@kernel
def elo_pass(winner: Array, loser: Array, result: Array, size: Array, step: float, scale: float, rating: Array) -> None:
    """Ratings after all matches, in turn: a match of result r moves both by step * (r - expected). NaN: no match."""
    for row in range(len(winner)):
        if np.isnan(result[row]):
            continue
        i, j = winner[row], loser[row]
        expected = 1.0 / (1.0 + 10.0 ** ((rating[j] - rating[i]) / scale))
        moved = step * size[row] * (result[row] - expected)
        rating[i] += moved
        rating[j] -= moved


@kernel
def probabilities(odds: Array) -> Array:
    """Log odds as probabilities."""
    result = np.empty(len(odds))
    for i in range(len(odds)):
        result[i] = 1.0 / (1.0 + np.exp(-odds[i]))
    return result
