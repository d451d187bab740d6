"""Agreement over pairs of items: pair accuracy and Kendall's tau-b, both from one exact count.

    right   pairs with different truth that the scores put in the true order       (ties in score are not right)
    wrong   pairs with different truth that the scores put in the opposite order   (ties in score are not wrong either)
    true_pairs, score_pairs   pairs with different truth; pairs with different scores

Items of unknown relevance are left out. The counts (`kernels.pair_counts`) are whole numbers, and exact.

[Chen13] Chen, Bennett, Collins-Thompson, Horvitz: Pairwise ranking aggregation in a crowdsourced setting. WSDM 2013.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.kernels.pair_counts import count_by_query
from distrank.metrics.queries import JudgedQueries
from distrank.records import Array


@dataclass(frozen=True)
class PairCounts:
    """Numbers of pairs, one entry per query."""

    right: Array
    wrong: Array
    true_pairs: Array
    score_pairs: Array


def pair_counts(queries: JudgedQueries) -> PairCounts:
    """Count every query's pairs of judged items."""
    return PairCounts(*count_by_query(queries.offsets, queries.score, queries.relevance))


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
