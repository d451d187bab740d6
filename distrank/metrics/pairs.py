"""Agreement over pairs of items: pair accuracy and Kendall's tau-b, both from one exact count.

    right   pairs with different truth that the scores put in the true order       (ties in score are not right)
    wrong   pairs with different truth that the scores put in the opposite order   (ties in score are not wrong either)
    true_pairs, score_pairs   pairs with different truth; pairs with different scores

Items of unknown relevance are left out. The count takes O(n log n) per query and is exact: whole numbers throughout.

[Chen13] Chen, Bennett, Collins-Thompson, Horvitz: Pairwise ranking aggregation in a crowdsourced setting. WSDM 2013.
[Knight66] Knight: A computer method for calculating Kendall's tau with ungrouped data. JASA 61, 1966.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.kernels import kernel
from distrank.metrics.queries import JudgedQueries
from distrank.records import Array


@dataclass(frozen=True)
class PairCounts:
    """Numbers of pairs, one entry per query."""

    right: Array
    wrong: Array
    true_pairs: Array
    score_pairs: Array


@kernel
def _rising_pairs(values: Array) -> int:
    """Pairs i < j with values[i] < values[j], by a bottom-up merge sort; sorts the array in place."""
    n = len(values)
    source, target = values, np.empty_like(values)
    count, width = 0, 1
    while width < n:
        for start in range(0, n, 2 * width):
            middle, end = min(start + width, n), min(start + 2 * width, n)
            left, right = start, middle
            for place in range(start, end):
                if right == end or (left < middle and source[left] < source[right]):
                    target[place] = source[left]
                    count += end - right  # all that is left on the right is larger
                    left += 1
                else:
                    target[place] = source[right]
                    right += 1
        source, target = target, source
        width *= 2
    values[:] = source
    return count


@kernel
def _tied_pairs(ordered: Array) -> int:
    """Pairs of equal values in a sorted array."""
    count, run = 0, 1
    for i in range(1, len(ordered) + 1):
        if i < len(ordered) and ordered[i] == ordered[i - 1]:
            run += 1
        else:
            count += run * (run - 1) // 2
            run = 1
    return count


@kernel
def _count_pairs(score: Array, truth: Array) -> tuple[int, int, int, int]:
    """right, wrong, true_pairs, score_pairs of one query [Knight66]."""
    n = len(score)
    by_score = np.argsort(-score, kind="mergesort")
    order = by_score[np.argsort(truth[by_score], kind="mergesort")]
    # Truth rises; within equal truth scores fall, so that no pair of equal truth is a rising pair of scores.
    s, y = score[order], truth[order]
    pairs = n * (n - 1) // 2
    true_ties, both_ties, start = _tied_pairs(y), 0, 0
    for i in range(1, n + 1):
        if i == n or y[i] != y[start]:
            both_ties += _tied_pairs(s[start:i])
            start = i
    right = _rising_pairs(s)  # s is sorted from here on
    score_ties = _tied_pairs(s)
    wrong = pairs - true_ties - score_ties + both_ties - right
    return right, wrong, pairs - true_ties, pairs - score_ties


@kernel
def _count_by_query(offsets: Array, score: Array, relevance: Array) -> Array:
    counts = np.zeros((4, len(offsets) - 1), np.int64)
    for q in range(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        known = ~np.isnan(relevance[low:high])
        counted = _count_pairs(score[low:high][known], relevance[low:high][known])
        for row in range(4):
            counts[row, q] = counted[row]
    return counts


def pair_counts(queries: JudgedQueries) -> PairCounts:
    """Count every query's pairs of judged items."""
    return PairCounts(*_count_by_query(queries.offsets, queries.score, queries.relevance))


def pair_accuracy(counts: PairCounts) -> Array:
    """Share of the pairs with different truth whose scores are strictly in the true order, [Chen13] Eq. (20).

    NaN for a query whose judged items are all equally relevant: there is nothing to get right.
    """
    return _share(counts.right.astype(np.float64), counts.true_pairs.astype(np.float64))


def kendall_tau(counts: PairCounts) -> Array:
    """Kendall's tau-b: (right - wrong) / sqrt(true_pairs * score_pairs), from -1 to 1.

    NaN for a query whose judged items are all equally relevant or all have the same score.
    """
    # In floats before the product: two counts of 1e10 overflow a 64-bit integer.
    whole = np.sqrt(counts.true_pairs.astype(np.float64) * counts.score_pairs.astype(np.float64))
    return _share((counts.right - counts.wrong).astype(np.float64), whole)


def _share(part: Array, whole: Array) -> Array:
    return np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
