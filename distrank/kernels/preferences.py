"""Passes over preferences: likelihood, gradient and curvature of Bradley-Terry scores and annotator quality.  [Chen13]

    a, b     odds exp(s) of the winner and of the loser
    eta      P(the annotator reports the true order)      honest      eta a + (1 - eta) b
    sigma    a / (a + b)                                  reversed    (1 - eta) a + eta b

A preference has the probability honest / (a + b), equation 5; with eta = 1 it is equation 1.

Preferences lie in runs of one annotator (`run` are offsets, `owner` the annotator of each run), so that eta stays in
a register. `weight` is None where every preference counts once, and `quality` is None where every eta is 1: numba
compiles those cases apart, so that no weight is read and nothing is multiplied by 1. Results are added to the arrays
handed in.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel

Floats = NDArray[np.float64]
Codes = NDArray[np.uint32]
Offsets = NDArray[np.int64]

WIDEST_TABLE = 100.0  # scores up to this size have odds whose products and squared quotients stay far from overflow
WIDEST_PAIR = 230.0  # beyond this difference, sigma is below 1e-99: nothing beside any eta that is not 0 or 1 exactly
TIED = 1e-9  # scores nearer to each other are equal: the rest is the rounding of sums, and would make a coin flip count
_TINY = 1e-30  # a product of probabilities is turned into a logarithm before it can underflow


@kernel
def log_likelihood(
    run: Offsets,
    owner: Codes,
    winner: Codes,
    loser: Codes,
    weight: Floats | None,
    odds: Floats,
    quality: Floats | None,
    gradient: Floats,
    first: Floats,
    second: Floats,
) -> float:
    """Equation 6, its gradient in the scores, and its first and (negative) second derivatives in every eta.

    The derivatives in eta are left alone where `quality` is None.
    """
    total, product = 0.0, 1.0
    for k in range(len(owner)):
        if quality is not None:
            eta = quality[owner[k]]
            rest, skill = 1.0 - eta, 2.0 * eta - 1.0
            slope, curvature = 0.0, 0.0
        for r in range(run[k], run[k + 1]):
            i, j = winner[r], loser[r]
            a, b = odds[i], odds[j]
            if quality is None:
                inverse = 1.0 / (a + b)
                probability = a * inverse
                force = b * inverse  # d log p / d s_i = 1 - sigma
            else:
                honest = eta * a + rest * b  # not b + eta (a - b): that loses a small a at eta = 1
                inverse = 1.0 / (honest * (a + b))
                probability = honest * honest * inverse
                force = skill * (a * b) * inverse  # eta a / honest - sigma
                lift = (a - b) * (a + b) * inverse  # d log p / d eta; its derivative is minus its square
                if weight is None:
                    slope += lift
                    curvature += lift * lift
                else:
                    slope += weight[r] * lift
                    curvature += weight[r] * lift * lift
            if weight is None:
                product *= probability
                if product < _TINY:
                    total += math.log(product)
                    product = 1.0
            else:
                force *= weight[r]
                total += weight[r] * math.log(probability)
            gradient[i] += force
            gradient[j] -= force
        if quality is not None:
            first[owner[k]] += slope
            second[owner[k]] += curvature
    return total + math.log(product)


@kernel
def quality_derivatives(
    run: Offsets,
    owner: Codes,
    winner: Codes,
    loser: Codes,
    weight: Floats | None,
    odds: Floats,
    quality: Floats,
    first: Floats,
    second: Floats,
) -> None:
    """First and (negative) second derivatives of equation 6 in every eta, alone: less than half of a full pass."""
    for k in range(len(owner)):
        eta = quality[owner[k]]
        rest = 1.0 - eta
        slope, curvature = 0.0, 0.0
        for r in range(run[k], run[k + 1]):
            a, b = odds[winner[r]], odds[loser[r]]
            lift = (a - b) / (eta * a + rest * b)
            if weight is None:
                slope += lift
                curvature += lift * lift
            else:
                slope += weight[r] * lift
                curvature += weight[r] * lift * lift
        first[owner[k]] += slope
        second[owner[k]] += curvature


@kernel
def information(
    run: Offsets,
    owner: Codes,
    winner: Codes,
    loser: Codes,
    weight: Floats | None,
    odds: Floats,
    quality: Floats | None,
    diagonal: Floats,
) -> None:
    """The diagonal of the Fisher information in the scores: the expected curvature of equation 6, never negative."""
    for k in range(len(owner)):
        eta = 1.0 if quality is None else quality[owner[k]]
        rest, skill = 1.0 - eta, 2.0 * eta - 1.0
        for r in range(run[k], run[k + 1]):
            i, j = winner[r], loser[r]
            a, b = odds[i], odds[j]
            both = a + b
            force = skill * (a * b)
            # (d p / d s)^2 / (p (1 - p)), over the common denominator (a + b)^2
            value = force * force / ((eta * a + rest * b) * (rest * a + eta * b) * (both * both))
            if weight is not None:
                value *= weight[r]
            diagonal[i] += value
            diagonal[j] += value


@kernel
def odds_table(score: Floats, odds: Floats) -> bool:
    """exp of every score; False where a score is too large for a table and pairs must be taken one by one."""
    for i in range(len(score)):
        if not abs(score[i]) <= WIDEST_TABLE:
            return False
        odds[i] = math.exp(score[i])
    return True


@kernel
def pair_odds(
    run: Offsets,
    owner: Codes,
    winner: Codes,
    loser: Codes,
    weight: Floats | None,
    score: Floats,
    quality: Floats | None,
    odds: Floats,
) -> float:
    """Odds of both sides of every preference, from the difference of their scores: any scores will do.

    Differences are cut at 230; where the likelihood goes on falling with the difference (eta is 0 or 1 exactly), what
    the cut leaves out is returned, so that the sum of both is exact.
    """
    beyond = 0.0
    for k in range(len(owner)):
        eta = 1.0 if quality is None else quality[owner[k]]
        for r in range(run[k], run[k + 1]):
            difference = score[winner[r]] - score[loser[r]]
            excess = abs(difference) - WIDEST_PAIR
            if excess > 0.0 and ((eta == 1.0 and difference < 0.0) or (eta == 0.0 and difference > 0.0)):
                beyond -= excess * (1.0 if weight is None else weight[r])
            smaller = math.exp(-min(abs(difference), WIDEST_PAIR))
            odds[2 * r] = 1.0 if difference >= 0.0 else smaller
            odds[2 * r + 1] = smaller if difference >= 0.0 else 1.0
    return beyond


@kernel
def gather_pairs(winner: Codes, loser: Codes, sides: Floats, sums: Floats) -> None:
    """Add what was found for the two sides of every preference to their items."""
    for r in range(len(winner)):
        sums[winner[r]] += sides[2 * r]
        sums[loser[r]] += sides[2 * r + 1]


@kernel
def agreement(
    unit: Offsets,
    run: Offsets,
    owner: Codes,
    winner: Codes,
    loser: Codes,
    weight: Floats | None,
    score: Floats,
    of_annotator: Floats,
    of_unit: Floats,
) -> None:
    """Weight that agrees with the order of the scores (equal scores: half of it) and total weight, in two columns.

    `unit` are the offsets of units into runs.
    """
    for u in range(len(unit) - 1):
        for k in range(unit[u], unit[u + 1]):
            agreed, total = 0.0, 0.0
            for r in range(run[k], run[k + 1]):
                difference = score[winner[r]] - score[loser[r]]
                share = 0.5 if abs(difference) <= TIED else (1.0 if difference > 0.0 else 0.0)
                counted = 1.0 if weight is None else weight[r]
                agreed += counted * share
                total += counted
            of_annotator[owner[k], 0] += agreed
            of_annotator[owner[k], 1] += total
            of_unit[u, 0] += agreed
            of_unit[u, 1] += total


@kernel
def wins(winner: Codes, loser: Codes, weight: Floats | None, counts: Floats) -> None:
    """Weight of the comparisons won and of all comparisons, in two columns by item."""
    for r in range(len(winner)):
        counted = 1.0 if weight is None else weight[r]
        counts[winner[r], 0] += counted
        counts[winner[r], 1] += counted
        counts[loser[r], 1] += counted


@kernel
def gold_answers(
    run: Offsets,
    owner: Codes,
    winner: Codes,
    loser: Codes,
    weight: Floats | None,
    gold: Floats,
    answers: Floats,
) -> None:
    """Weight of the right answers and of all answers on pairs of different relevance, in two columns by annotator."""
    for k in range(len(owner)):
        for r in range(run[k], run[k + 1]):
            better, worse = gold[winner[r]], gold[loser[r]]
            if better > worse or better < worse:  # false where one of them is NaN
                counted = 1.0 if weight is None else weight[r]
                answers[owner[k], 1] += counted
                if better > worse:
                    answers[owner[k], 0] += counted
