"""The layout that every metric reads: many queries in flat arrays, and their items put into ranked order.

Queries follow each other; `offsets` has one entry more than there are queries, and the items of query q are
`offsets[q]:offsets[q + 1]`. A relevance that is NaN is unknown: the item was ranked but never judged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.errors import InputError
from distrank.kernels import kernel
from distrank.records import Array


@dataclass(frozen=True)
class JudgedQueries:
    """Ranked items with what is known about their relevance, and all that is known, ranked or not."""

    offsets: Array  # into score, rank and relevance
    score: Array  # higher is better
    rank: Array | None  # breaks ties in score, lower first; without it tied items stay in the order of the rows
    relevance: Array  # of the ranked items, NaN where unknown
    gold_offsets: Array  # into gold
    gold: Array  # every known relevance of the query, also of items that are not ranked


@dataclass(frozen=True)
class RankedLists:
    """What a reader going down each list would see, beside the best that there was to see."""

    offsets: Array
    relevance: Array  # best item first
    gold_offsets: Array
    gold: Array  # highest first


def judged_queries(
    offsets: Array,
    score: Array,
    relevance: Array,
    rank: Array | None = None,
    unranked: tuple[Array, Array] | None = None,
) -> JudgedQueries:
    """Check the arrays and collect what is known; `unranked` is (offsets, relevance) of judged items not ranked."""
    offsets = np.asarray(offsets, np.int64)
    score, relevance = np.asarray(score, np.float64), np.asarray(relevance, np.float64)
    order = None if rank is None else np.asarray(rank, np.float64)
    for name, values in (("score", score), ("relevance", relevance), ("rank", order)):
        if values is not None and values.shape != (int(offsets[-1]),):
            raise InputError(f"{name} has shape {values.shape}, but the offsets end at {offsets[-1]}")
        if values is not None and name != "relevance" and np.isnan(values).any():
            raise InputError(f"{name} of item {int(np.isnan(values).argmax())} is not a number: give every item one")
    if unranked is None:
        more_offsets, more = np.zeros_like(offsets), np.empty(0)
    else:
        more_offsets, more = np.asarray(unranked[0], np.int64), np.asarray(unranked[1], np.float64)
    gold_offsets, gold = _known(offsets, relevance, more_offsets, more)
    return JudgedQueries(offsets, score, order, relevance, gold_offsets, gold)


def ranked_lists(queries: JudgedQueries, *, judged_only: bool = False) -> RankedLists:
    """Every query's items, best first: by score, ties by rank. `judged_only` drops items of unknown relevance first."""
    rank = np.zeros(len(queries.score)) if queries.rank is None else queries.rank
    relevance = queries.relevance[_best_first(queries.offsets, queries.score, rank)]
    offsets = queries.offsets
    if judged_only:
        known = ~np.isnan(relevance)
        offsets = np.concatenate(([0], np.cumsum(known)))[offsets]
        relevance = relevance[known]
    return RankedLists(offsets, relevance, queries.gold_offsets, _highest_first(queries.gold_offsets, queries.gold))


@kernel
def _best_first(offsets: Array, score: Array, rank: Array) -> Array:
    """Positions of every query's items by falling score, then rising rank, then as they came: both sorts are stable."""
    order = np.empty(len(score), np.int64)
    for q in range(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        by_rank = np.argsort(rank[low:high], kind="mergesort")
        by_score = np.argsort(-score[low:high][by_rank], kind="mergesort")
        order[low:high] = low + by_rank[by_score]
    return order


@kernel
def _highest_first(offsets: Array, values: Array) -> Array:
    result = np.empty_like(values)
    for q in range(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        result[low:high] = np.sort(values[low:high])[::-1]
    return result


@kernel
def _known(offsets: Array, relevance: Array, more_offsets: Array, more: Array) -> tuple[Array, Array]:
    """Known relevances of ranked items, followed by those of items that are not ranked, query by query."""
    known_offsets = np.zeros(len(offsets), np.int64)
    known = np.empty(len(relevance) + len(more), np.float64)
    end = 0
    for q in range(len(offsets) - 1):
        for i in range(offsets[q], offsets[q + 1]):
            if not np.isnan(relevance[i]):
                known[end] = relevance[i]
                end += 1
        for i in range(more_offsets[q], more_offsets[q + 1]):
            known[end] = more[i]
            end += 1
        known_offsets[q + 1] = end
    return known_offsets, known[:end].copy()
