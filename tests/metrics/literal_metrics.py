"""The metrics written down as their definitions say, slowly and without any shared code."""

from __future__ import annotations

import math
from itertools import combinations


def known(items):
    return [item for item in items if item["relevance"] is not None]


def best_first(items):
    """Items by falling score, then rising rank, then as they came."""
    return sorted(items, key=lambda item: (-item["score"], item["rank"]))


def accuracy(items):
    """[Chen13] Eq. (20), as a double loop."""
    right = counted = 0
    for a in known(items):
        for b in known(items):
            if a["relevance"] > b["relevance"]:
                counted += 1
                right += a["score"] > b["score"]
    return right, counted


def tau_b(items):
    concordant = discordant = truth_differs = score_differs = 0
    for a, b in combinations(known(items), 2):
        dy, ds = a["relevance"] - b["relevance"], a["score"] - b["score"]
        concordant += dy * ds > 0
        discordant += dy * ds < 0
        truth_differs += dy != 0
        score_differs += ds != 0
    if not truth_differs or not score_differs:
        return math.nan
    return (concordant - discordant) / math.sqrt(truth_differs * score_differs)


def gain(relevance, linear):
    if relevance is None or relevance <= 0:
        return 0.0
    return relevance if linear else 2.0**relevance - 1


def dcg(relevances, k, linear):
    return sum(gain(y, linear) / math.log2(1 + rank) for rank, y in enumerate(relevances[:k], start=1))


def ndcg(items, unranked, k=None, linear=False):
    best = sorted([item["relevance"] for item in known(items)] + unranked, reverse=True)
    ideal = dcg(best, k, linear)
    return dcg([item["relevance"] for item in best_first(items)], k, linear) / ideal if ideal > 0 else 0.0


def hits(items, threshold):
    return [item["relevance"] is not None and item["relevance"] >= threshold for item in best_first(items)]


def average_precision(items, unranked, threshold=1.0):
    found = hits(items, threshold)
    relevant = sum(found) + sum(y >= threshold for y in unranked)
    return sum(sum(found[: r + 1]) / (r + 1) for r in range(len(found)) if found[r]) / relevant if relevant else 0.0


def precision_at(items, k, threshold=1.0):
    return sum(hits(items, threshold)[:k]) / k


def rbp(items, p=0.95, threshold=1.0):
    return (1 - p) * sum(p**r for r, hit in enumerate(hits(items, threshold)) if hit)
