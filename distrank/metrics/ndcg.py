"""Normalised discounted cumulative gain.  [Jarvelin02], gain as in [Burges05]

    DCG@k = sum over ranks r = 1..k of gain(relevance_r) / log2(1 + r)        NDCG@k = DCG@k / DCG@k of the best list

The best list holds every known relevance of the query, also of items that the ranking does not have.

[Jarvelin02] Jarvelin, Kekalainen: Cumulated gain-based evaluation of IR techniques. ACM TOIS 20, 2002.
[Burges05] Burges et al.: Learning to rank using gradient descent. ICML 2005.
"""

from __future__ import annotations

import numpy as np

from distrank.kernels import kernel
from distrank.metrics.queries import RankedLists
from distrank.records import Array


@kernel
def _gain(relevance: float, top: float, exponential: bool) -> float:
    """2^relevance - 1, divided by 2^top so that grades above 1,000 stay finite (it cancels); or relevance itself.

    Unknown (NaN) and negative grades gain nothing.
    """
    if not relevance > 0.0:
        return 0.0
    return np.exp2(relevance - top) - np.exp2(-top) if exponential else relevance


@kernel
def _dcg(relevance: Array, k: int, top: float, exponential: bool) -> float:
    total = 0.0
    for r in range(min(k, len(relevance))):
        total += _gain(relevance[r], top, exponential) / np.log2(2.0 + r)
    return total


@kernel
def _ndcg_by_query(
    offsets: Array, relevance: Array, gold_offsets: Array, gold: Array, k: int, exponential: bool
) -> Array:
    values = np.zeros(len(offsets) - 1)
    for q in range(len(values)):
        best = gold[gold_offsets[q] : gold_offsets[q + 1]]
        if len(best) and best[0] > 0.0:
            top = np.ceil(best[0])
            found = _dcg(relevance[offsets[q] : offsets[q + 1]], k, top, exponential)
            values[q] = found / _dcg(best, k, top, exponential)
    return values


def ndcg(lists: RankedLists, k: int | None = None, *, exponential: bool = True) -> Array:
    """NDCG at rank k (None: the whole list) of every query, from 0 to 1.

    A query without an item of positive relevance has 0 and counts in a mean, as in trec_eval.
    """
    cut = np.iinfo(np.int64).max if k is None else k
    return _ndcg_by_query(lists.offsets, lists.relevance, lists.gold_offsets, lists.gold, cut, exponential)
