"""Grades from an order: the truth as a ranking, for measures that want grades.  [Niu12]

    kappa(r) = (n - r) / n        r = 0, 1, ...: how many judged items of the query are more relevant

With these grades NDCG becomes kappa-NDCG, which only looks at the order of the relevances: gold may be ages, or ranks
from the last backwards, and 2^relevance need not exist. Equal relevances have equal grades.

[Niu12] Niu, Guo, Lan, Cheng: Top-k learning to rank: labeling, ranking and evaluation. SIGIR 2012.
"""

from __future__ import annotations

import numpy as np

from distrank.kernels import kernel
from distrank.metrics.queries import RankedLists
from distrank.records import Array


@kernel
def _kappa(offsets: Array, values: Array, gold_offsets: Array, gold: Array) -> Array:
    """The grade of every value; `gold` is sorted, highest first. Unknown values stay unknown."""
    result = np.full(len(values), np.nan)
    for q in range(len(offsets) - 1):
        best = gold[gold_offsets[q] : gold_offsets[q + 1]]
        rising = best[::-1].copy()
        for i in range(offsets[q], offsets[q + 1]):
            if not np.isnan(values[i]):
                result[i] = np.searchsorted(rising, values[i], side="right") / len(best)
    return result


def kappa_lists(lists: RankedLists) -> RankedLists:
    """The same lists with kappa in place of relevance."""
    return RankedLists(
        lists.offsets,
        _kappa(lists.offsets, lists.relevance, lists.gold_offsets, lists.gold),
        lists.gold_offsets,
        _kappa(lists.gold_offsets, lists.gold, lists.gold_offsets, lists.gold),
    )
