"""The aggregation baselines written down literally: dense matrices, dictionaries, all permutations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Row = tuple[Any, Any, Any, Any]  # query, annotator, winner, loser


def leads(rows: Sequence[Row], items: Sequence[Any]) -> Floats:
    """lead[i, j]: judgments for i over j minus those for j over i."""
    place = {item: k for k, item in enumerate(items)}
    matrix = np.zeros((len(items), len(items)))
    for _, _, winner, loser in rows:
        matrix[place[winner], place[loser]] += 1
        matrix[place[loser], place[winner]] -= 1
    return matrix


def greedy(lead: Floats) -> list[int]:
    """[Cohen99], Figure 2: the highest potential among what is left, by summing it anew each time."""
    left, order = list(range(len(lead))), []
    while left:
        best = max(left, key=lambda v: (sum(lead[v, u] for u in left), -v))
        order.append(best)
        left.remove(best)
    return order


def merge_sort(items: list[int], beats: Any) -> list[int]:
    """Halves of a power of two first, as a bottom-up merge sort has them."""
    if len(items) <= 1:
        return items
    half = 1
    while 2 * half < len(items):
        half *= 2
    left, right = merge_sort(items[:half], beats), merge_sort(items[half:], beats)
    result = []
    while left and right:
        result.append(right.pop(0) if beats(right[0], left[0]) else left.pop(0))
    return result + left + right


def svp(mean: Floats, known: Any, iterations: int) -> Floats:
    """Singular value projection with a halved step, on the whole matrix."""
    n = len(mean)
    x, step, error = np.zeros_like(mean), n * (n - 1) / known.sum(), 0.25 * (mean[known] ** 2).sum()
    for _ in range(iterations):
        while True:
            u, s, vt = np.linalg.svd(x + step * np.where(known, mean - x, 0.0))
            new = (u[:, :2] * s[:2]) @ vt[:2]
            found = 0.25 * ((mean - new)[known] ** 2).sum()
            if found <= error or step < 1e-6:
                break
            step /= 2
        if step < 1e-6:
            break
        x, error = new, found
    return x.mean(axis=1)


def mallows_normaliser(sizes: Sequence[int], phi: float) -> float:
    """Sum of e^(-phi d) over all distinct arrangements of blocks of tied items; d: strict pairs the other way round."""
    labels = [block for block, size in enumerate(sizes) for _ in range(size)]
    total = 0.0
    for arrangement in set(itertools.permutations(labels)):
        total += math.exp(-phi * sum(a > b for a, b in itertools.combinations(arrangement, 2)))
    return total


def kemeny(weight: Floats) -> float:
    """The least cost of an order, over all of them; weight[i, j]: what speaks for i before j."""
    n = len(weight)
    return min(
        sum(weight[order[b], order[a]] for a in range(n) for b in range(a + 1, n))
        for order in itertools.permutations(range(n))
    )


def mpm_objective(
    rows: Sequence[Row], v: dict[Any, float], theta: dict[Any, float], ridge: float, precision: float
) -> float:
    """The model's objective, pair by pair; v by (query, item)."""
    total = -0.5 * ridge * sum(x * x for x in v.values()) - 0.5 * precision * sum((t - 1) ** 2 for t in theta.values())
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault((row[0], row[1]), []).append(row)
    for (query, annotator), own in groups.items():
        items = sorted({item for _, _, w, x in own for item in (w, x)})
        t = theta[annotator]
        z = sum(math.exp(t * (v[query, i] - v[query, j])) for i in items for j in items if i != j)
        total += sum(t * (v[query, w] - v[query, x]) - math.log(z) for _, _, w, x in own)
    return total


def elo(rows: Sequence[Row], results: Sequence[float | None], step: float = 32.0) -> dict[Any, float]:
    """Ratings by (query, item) after all matches; None: left out."""
    rating: dict[Any, float] = {}
    for (query, _, winner, loser), result in zip(rows, results, strict=True):
        a, b = rating.setdefault((query, winner), 1500.0), rating.setdefault((query, loser), 1500.0)
        if result is not None:
            moved = step * (result - 1 / (1 + 10 ** ((b - a) / 400)))
            rating[query, winner], rating[query, loser] = a + moved, b - moved
    return rating


def settle(rows: Sequence[Row], iterations: int) -> tuple[dict[Any, float], dict[Any, float]]:
    """EM over pairs: P(the first item of (query, first, second) is better), and every annotator's quality before it."""
    eta = {row[1]: 0.75 for row in rows}
    pairs = {(q, min(w, x), max(w, x)) for q, _, w, x in rows}
    for turn in range(iterations + 1):
        posterior = {}
        for pair in pairs:
            first = second = 1.0
            for q, a, w, x in rows:
                if (q, min(w, x), max(w, x)) == pair:
                    first *= eta[a] if w < x else 1 - eta[a]
                    second *= 1 - eta[a] if w < x else eta[a]
            posterior[pair] = first / (first + second)
        if turn == iterations:
            break
        for annotator in eta:
            right = [
                posterior[q, min(w, x), max(w, x)] if w < x else 1 - posterior[q, min(w, x), max(w, x)]
                for q, a, w, x in rows
                if a == annotator
            ]
            eta[annotator] = min(max(sum(right) / len(right), 1e-6), 1 - 1e-6)
    return posterior, eta
