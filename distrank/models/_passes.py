"""One pass over the preferences of a shard: the likelihood of equation 6 and its derivatives.  [Chen13]

The kernels read odds from a table with one entry per item. Scores too large for such a table (long chains of items
that were only compared with their neighbours) get a table with one entry per side of every preference instead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from distrank.kernels import preferences as kernels
from distrank.models._pairwise import Rows, by_annotator, rows_of
from distrank.records import Array, Record


class Evaluation(NamedTuple):
    """What a pass found."""

    objective: float
    gradient: Array
    curvature: Array | None  # expected, by item
    annotators: Record  # first and (negative) second derivatives in eta


class _Odds(NamedTuple):
    """Odds, the preferences that index them, and what cutting them left out of the objective."""

    rows: Rows
    table: Array
    beyond: float
    by_item: bool

    def to_items(self, shard: Record, found: Array, items: int) -> Array:
        if self.by_item:
            return found
        sums = np.zeros(items)
        kernels.gather_pairs(shard["pair.winner"], shard["pair.loser"], found, sums)
        return sums


def _odds(shard: Record, score: Array, eta: Array | None) -> _Odds:
    rows, table = rows_of(shard), np.empty(len(score))
    if kernels.odds_table(score, table):
        return _Odds(rows, table, 0.0, by_item=True)
    table = np.empty(2 * len(rows.winner))
    beyond = kernels.pair_odds(*rows, score, eta, table)
    first_sides = np.arange(0, len(table), 2, dtype=np.uint32)
    return _Odds(rows._replace(winner=first_sides, loser=first_sides + np.uint32(1)), table, beyond, by_item=False)


def evaluate(shard: Record, score: Array, quality: Array | None, *, curvature: bool) -> Evaluation:
    """Objective, gradient in the scores and derivatives in the quality; `quality` is None where every eta is 1."""
    eta = None if quality is None else quality[shard["annotator.code"]]
    odds = _odds(shard, score, eta)
    gradient = np.zeros(len(odds.table))
    first, second = np.zeros(len(shard["annotator.code"])), np.zeros(len(shard["annotator.code"]))
    objective = kernels.log_likelihood(*odds.rows, odds.table, eta, gradient, first, second)
    annotators = {} if quality is None else by_annotator(shard, len(quality), first=first, second=second)
    diagonal = None
    if curvature:
        diagonal = np.zeros(len(odds.table))
        kernels.information(*odds.rows, odds.table, eta, diagonal)
        diagonal = odds.to_items(shard, diagonal, len(score))
    return Evaluation(objective + odds.beyond, odds.to_items(shard, gradient, len(score)), diagonal, annotators)


def evaluate_quality(shard: Record, score: Array, quality: Array) -> Record:
    """First and (negative) second derivatives in the quality of the shard's annotators, alone."""
    eta = quality[shard["annotator.code"]]
    odds = _odds(shard, score, eta)
    first, second = np.zeros(len(eta)), np.zeros(len(eta))
    kernels.quality_derivatives(*odds.rows, odds.table, eta, first, second)
    return by_annotator(shard, len(quality), first=first, second=second)
