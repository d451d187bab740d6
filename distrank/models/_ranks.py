"""Columns of intervals from scores and their deviations."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from distrank.kernels.ranks import POINTS, ranks, separate_rank_bounds
from distrank.records import Array, Record


def quantile(level: float) -> float:
    """How many deviations an interval of this level reaches to either side."""
    return NormalDist().inv_cdf(0.5 + 0.5 * level)


def score_bounds(score: Array, deviation: Array, z: float) -> Record:
    """`score_sd`, `score_low`, `score_high`."""
    reach = z * deviation
    return {"score_low": score - reach, "score_high": score + reach, "score_sd": deviation}


def rank_bounds(score: Array, deviation: Array, queries: Array, z: float) -> Record:
    """`rank_low` and `rank_high` where scores are taken as independent; `queries` are offsets into the items."""
    low, high, rank = (np.zeros(len(score), np.int64) for _ in range(3))
    points = np.array([NormalDist().inv_cdf((m + 0.5) / POINTS) for m in range(POINTS)])
    for begin, end in zip(queries[:-1].tolist(), queries[1:].tolist(), strict=True):
        here = slice(begin, end)
        ranks(score[here], rank[here])
        separate_rank_bounds(score[here], rank[here], deviation[here], points, z, low[here], high[here])
    return {"rank_low": low, "rank_high": high}
