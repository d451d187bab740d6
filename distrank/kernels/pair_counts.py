"""How many pairs of items two orders agree on, in O(n log n) per query.  [Knight66]

    right   pairs of different truth that the scores put in the true order       (ties in score are not right)
    wrong   pairs of different truth that the scores put in the opposite order   (ties in score are not wrong either)
    true_pairs, score_pairs   pairs of different truth; pairs of different scores

[Knight66] Knight: A computer method for calculating Kendall's tau with ungrouped data. JASA 61, 1966.
"""

from __future__ import annotations

import numpy as np

from distrank.kernels import kernel
from distrank.records import Array


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
def count_by_query(offsets: Array, score: Array, relevance: Array) -> Array:
    """right, wrong, true_pairs, score_pairs in rows, by query; items of unknown relevance (NaN) are left out."""
    counts = np.zeros((4, len(offsets) - 1), np.int64)
    for q in range(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        known = ~np.isnan(relevance[low:high])
        counted = _count_pairs(score[low:high][known], relevance[low:high][known])
        for row in range(4):
            counts[row, q] = counted[row]
    return counts
