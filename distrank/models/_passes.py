"""One pass over the preferences of a shard: the likelihood of a law (`kernels.laws`) and its derivatives.

The kernels of the logistic law, equation 6 of [Chen13], read odds from a table with one entry per item. Scores too
large for such a table (long chains of items that were only compared with their neighbours) get a table with one entry
per side of every preference instead. The kernels of the other laws read scores, of any size.

[Chen13] Chen, Bennett, Collins-Thompson, Horvitz: Pairwise ranking aggregation in a crowdsourced setting. WSDM 2013.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from distrank.kernels import laws, ties
from distrank.kernels import preferences as kernels
from distrank.models._pairwise import Rows, by_annotator, fitted_rows
from distrank.records import Array, Record


class Evaluation(NamedTuple):
    """What a pass found."""

    objective: float
    gradient: Array
    curvature: Array | None  # expected, by item
    annotators: Record  # first and (negative) second derivatives in the annotators' parameter
    ties: Record  # `ties`: slope and curvature in log nu, where ties are an outcome of their own


class _Odds(NamedTuple):
    """Odds, the preferences that index them, and what cutting them left out of the objective."""

    rows: Rows
    table: Array
    beyond: float
    by_item: bool

    def to_items(self, shard: Record, found: Array, items: int) -> Array:
        if self.by_item:
            return found
        rows, sums = fitted_rows(shard), np.zeros(items)
        kernels.gather_pairs(rows.winner, rows.loser, found, sums)
        return sums


def _odds(shard: Record, score: Array, eta: Array | None) -> _Odds:
    rows, table = fitted_rows(shard), np.empty(len(score))
    if kernels.odds_table(score, table):
        return _Odds(rows, table, 0.0, by_item=True)
    table = np.empty(2 * len(rows.winner))
    beyond = kernels.pair_odds(*rows, score, eta, table)
    first_sides = np.arange(0, len(table), 2, dtype=np.uint32)
    return _Odds(rows._replace(winner=first_sides, loser=first_sides + np.uint32(1)), table, beyond, by_item=False)


def evaluate(
    shard: Record, score: Array, quality: Array | None, law: int, *, curvature: bool, log_nu: Array | None = None
) -> Evaluation:
    """Objective and derivatives in scores and quality (the parameter of the law), which is None where all are 1.

    `log_nu` is the parameter of ties where they are an outcome of their own (`kernels.ties`).
    """
    codes = shard["annotator.code"]
    parameter = None if quality is None else quality[codes]
    first, second = np.zeros(len(codes)), np.zeros(len(codes))
    diagonal = None
    if law == laws.LOGISTIC:
        odds = _odds(shard, score, parameter)
        gradient = np.zeros(len(odds.table))
        objective = kernels.log_likelihood(*odds.rows, odds.table, parameter, gradient, first, second) + odds.beyond
        gradient = odds.to_items(shard, gradient, len(score))
        if curvature:
            diagonal = np.zeros(len(odds.table))
            kernels.information(*odds.rows, odds.table, parameter, diagonal)
            diagonal = odds.to_items(shard, diagonal, len(score))
    else:
        rows, gradient = fitted_rows(shard), np.zeros(len(score))
        objective = laws.log_likelihood(*rows, score, parameter, law, gradient, first, second)
        if curvature:
            diagonal = np.zeros(len(score))
            laws.information(*rows, score, parameter, law, diagonal)
    annotators = {} if quality is None else by_annotator(shard, len(quality), first=first, second=second)
    tied: Record = {}
    if log_nu is not None:
        value, tied = _ties(shard, score, float(log_nu), gradient, diagonal)
        objective += value
    return Evaluation(objective, gradient, diagonal, annotators, tied)


def _ties(shard: Record, score: Array, log_nu: float, gradient: Array, diagonal: Array | None) -> tuple[float, Record]:
    """Which pairs were tied and which were not: adds to gradient and diagonal."""
    rows = fitted_rows(shard)
    untied = ties.log_likelihood(rows.winner, rows.loser, rows.weight, score, log_nu, False, gradient, diagonal)
    tied = ties.log_likelihood(
        shard["tie.one"], shard["tie.other"], shard.get("tie.weight"), score, log_nu, True, gradient, diagonal
    )
    return untied[0] + tied[0], {"ties": np.array([untied[1] + tied[1], untied[2] + tied[2]])}


def evaluate_quality(shard: Record, score: Array, quality: Array, law: int) -> Record:
    """First and (negative) second derivatives in the parameters of the shard's annotators, alone."""
    if law != laws.LOGISTIC:  # what costs is P itself: a pass for less would not be faster
        return evaluate(shard, score, quality, law, curvature=False).annotators
    eta = quality[shard["annotator.code"]]
    odds = _odds(shard, score, eta)
    first, second = np.zeros(len(eta)), np.zeros(len(eta))
    kernels.quality_derivatives(*odds.rows, odds.table, eta, first, second)
    return by_annotator(shard, len(quality), first=first, second=second)
