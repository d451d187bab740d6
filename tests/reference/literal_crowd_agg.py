"""CrowdAgg written down line by line from the paper: dictionaries and loops, every rank distribution in full."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Contests = dict[tuple[Any, Any], int]  # (s, t) -> 1: s was put before t; each contest once


@dataclass
class LiteralResult:
    scores: dict[tuple[Any, Any], float]
    quality: dict[Any, float]
    iterations: int


def contests_of_preferences(rows: Iterable[tuple[Any, Any, Any, Any]]) -> dict[Any, dict[Any, Contests]]:
    """query -> annotator -> contests, from rows (query, annotator, winner, loser)."""
    lead: dict[Any, Any] = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    for query, annotator, winner, loser in rows:
        lead[query][annotator][winner, loser] += 1
        lead[query][annotator][loser, winner] -= 1
    return {
        query: {a: {pair: 1 for pair, value in pairs.items() if value > 0} for a, pairs in annotators.items()}
        for query, annotators in lead.items()
    }


def contests_of_ratings(rows: Iterable[tuple[Any, Any, Any, float]]) -> dict[Any, dict[Any, Contests]]:
    """query -> annotator -> contests, from rows (query, annotator, item, rating), each item at most once (Eq. 5)."""
    values: dict[Any, Any] = defaultdict(lambda: defaultdict(dict))
    for query, annotator, item, rating in rows:
        values[query][annotator][item] = rating
    return {
        query: {a: {(s, t): 1 for s in r for t in r if r[s] > r[t]} for a, r in annotators.items()}
        for query, annotators in values.items()
    }


def rank_distribution(lose: list[float]) -> list[float]:
    """Algorithm 1."""
    pmf = [1.0]
    for p in lose:
        pmf = [
            (pmf[r] * (1 - p) if r < len(pmf) else 0.0) + (pmf[r - 1] * p if r > 0 else 0.0)
            for r in range(len(pmf) + 1)
        ]
    return pmf


def literal_crowd_agg(
    data: dict[Any, dict[Any, Contests]],
    items: dict[Any, list[Any]],
    *,
    measure: str = "ndcg",
    persistence: float = 0.95,
    pair_model: str = "difference",
    scope: str = "all",
    prior: tuple[float, float] = (1.0, 1.0),
    equal: bool = False,
) -> LiteralResult:
    """Sections 4 and 5 of the paper, in the readings that the model's docstring lists."""
    eta: dict[Any, float] = defaultdict(lambda: 1.0)
    seen: list[Any] = []
    iteration = 0
    while True:
        scores = {q: _scores(data[q], items[q], q, eta, measure, persistence, pair_model, scope) for q in data}
        orders = {q: sorted(items[q], key=lambda x, q=q: (-round(scores[q][x], 12), x)) for q in data}
        counts: dict[Any, list[float]] = defaultdict(lambda: [prior[0] - 1, prior[0] + prior[1] - 2])
        plain: dict[Any, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for q, annotators in data.items():
            for a, contests in annotators.items():
                for s, t in contests:
                    mine, theirs = round(scores[q][s], 12), round(scores[q][t], 12)
                    agrees = 1.0 if mine > theirs else 0.5 if mine == theirs else 0.0
                    for tally in (counts[(q, a) if scope == "query" else a], plain[a]):
                        tally[0] += agrees
                        tally[1] += 1
        found = plain if scope == "query" or equal else counts
        done = orders in seen or equal
        seen.append(orders)
        if done:
            quality = {a: found[a][0] / found[a][1] if found[a][1] else 0.5 for q in data for a in data[q]}
            flat = {(q, x): score for q in scores for x, score in scores[q].items()}
            return LiteralResult(flat, quality, iteration)
        eta = defaultdict(lambda: 0.5, {k: n / t for k, (n, t) in counts.items() if t})
        iteration += 1


def _scores(
    annotators: dict[Any, Contests],
    items: list[Any],
    query: Any,
    eta: dict[Any, float],
    measure: str,
    persistence: float,
    pair_model: str,
    scope: str,
) -> dict[Any, float]:
    n = len(items)
    total = dict.fromkeys(items, 0.0)
    for a, contests in annotators.items():
        quality = eta[(query, a) if scope == "query" else a]
        wins = {x: sum(1 for s, _ in contests if s == x) for x in items}
        for j in items:
            lose = []
            for other in items:
                if other == j:
                    continue
                p = 0.5
                if (j, other) in contests or (other, j) in contests:
                    p = 0.5 + (wins[j] - wins[other]) / (2 * n)  # Eq. (6), as read
                    if pair_model == "step":
                        before = wins[j] > wins[other] or (wins[j] == wins[other] and (j, other) in contests)
                        p = 1.0 if before else 0.0
                lose.append(1 - (quality * p + (1 - quality) * (1 - p)))  # Eq. (9)
            pmf = rank_distribution(lose)
            discount = [1 / math.log2(2 + r) if measure == "ndcg" else persistence**r for r in range(n)]
            total[j] += sum(x * y for x, y in zip(pmf, discount, strict=True))
    return {x: value / len(annotators) for x, value in total.items()}
