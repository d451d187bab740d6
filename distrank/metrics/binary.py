"""Metrics of relevant or not: average precision, precision at k, rank-biased precision.  [Moffat08]

An item is relevant when its relevance is known and reaches the threshold. With hit_r = 1 where the item at rank r is
relevant, and R relevant items known for the query, ranked or not:

    AP = 1/R sum_r hit_r (hit_1 + ... + hit_r) / r
    P@k = 1/k sum_{r <= k} hit_r
    RBP = (1-p) sum_r hit_r p^(r-1)

Conventions of trec_eval: a query without relevant items has 0 and counts in a mean; P@k divides by k, however short
the list. The largest RBP that R relevant items allow is 1 - p^R, not 1.

[Moffat08] Moffat, Zobel: Rank-biased precision for measurement of retrieval effectiveness. ACM TOIS 27, 2008.
"""

from __future__ import annotations

import numpy as np

from distrank.kernels import kernel
from distrank.metrics.queries import RankedLists
from distrank.records import Array


@kernel
def _average_precision(offsets: Array, relevance: Array, gold_offsets: Array, gold: Array, threshold: float) -> Array:
    values = np.zeros(len(offsets) - 1)
    for q in range(len(values)):
        hits, total, relevant = 0, 0.0, 0
        for r in range(offsets[q + 1] - offsets[q]):
            if relevance[offsets[q] + r] >= threshold:  # false for NaN
                hits += 1
                total += hits / (r + 1)
        for i in range(gold_offsets[q], gold_offsets[q + 1]):
            relevant += gold[i] >= threshold
        if relevant:
            values[q] = total / relevant
    return values


@kernel
def _precision_at(offsets: Array, relevance: Array, k: int, threshold: float) -> Array:
    values = np.zeros(len(offsets) - 1)
    for q in range(len(values)):
        hits = 0
        for i in range(offsets[q], min(offsets[q] + k, offsets[q + 1])):
            hits += relevance[i] >= threshold
        values[q] = hits / k
    return values


@kernel
def _rank_biased_precision(offsets: Array, relevance: Array, persistence: float, threshold: float) -> Array:
    values = np.zeros(len(offsets) - 1)
    for q in range(len(values)):
        total, weight = 0.0, 1.0
        for i in range(offsets[q], offsets[q + 1]):
            if relevance[i] >= threshold:
                total += weight
            weight *= persistence
        values[q] = (1.0 - persistence) * total
    return values


def average_precision(lists: RankedLists, *, threshold: float = 1.0) -> Array:
    """Average precision of every query, from 0 to 1; its mean over queries is MAP."""
    return _average_precision(lists.offsets, lists.relevance, lists.gold_offsets, lists.gold, threshold)


def precision_at(lists: RankedLists, k: int, *, threshold: float = 1.0) -> Array:
    """Share of relevant items among the first k of every query."""
    return _precision_at(lists.offsets, lists.relevance, k, threshold)


def rank_biased_precision(lists: RankedLists, *, persistence: float = 0.95, threshold: float = 1.0) -> Array:
    """RBP of every query: what a reader sees who goes on to the next item with probability `persistence` (p)."""
    return _rank_biased_precision(lists.offsets, lists.relevance, persistence, threshold)
