"""Deviations of scores and bounds of ranks in all small units of a shard, in one call."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel
from distrank.kernels.covariance import centre_covariance, invert, schur_complement
from distrank.kernels.leave_out import question_runs
from distrank.kernels.ranks import joint_rank_bounds, ranks
from distrank.kernels.virtual import virtual_information

Floats = NDArray[np.float64]
Codes = NDArray[np.uint32]
Offsets = NDArray[np.int64]

LEAST_PULL = 1e-3  # share of `strength` that the virtual games curve at least: far out they hardly do


@kernel
def virtual_diagonal(score: Floats, strength: float, law: int) -> Floats:
    """What the virtual games know of every score."""
    found = np.zeros(len(score))
    virtual_information(score, strength, law, found)
    for i in range(len(score)):
        found[i] = max(found[i], LEAST_PULL * strength)
    return found


@kernel
def small_units(
    run: Offsets,
    owner: Codes,
    winner: Codes,
    loser: Codes,
    weight: Floats | None,
    score: Floats,
    parameter: Floats | None,
    law: int,
    unit: Offsets,
    nodes: Offsets,
    largest: int,
    strength: float,
    z: float,
    known: Floats,
    deviation: Floats,
    low: Offsets,
    high: Offsets,
    window: Floats,
    answers: Floats,
) -> None:
    """Units of at most `largest` items; `unit` are offsets into runs, `nodes` into items, z the quantile.

    `known` is what is known of the parameter of every owner; `window` and `answers` are those of `leave_out`, and empty
    where no quality is asked for.
    """
    for u in range(len(unit) - 1):
        first, n = nodes[u], nodes[u + 1] - nodes[u]
        begin, end = unit[u], unit[u + 1]
        if n > largest:
            continue
        here = score[first : first + n]
        matrix, covariance = np.zeros((n, n)), np.empty((n, n))
        pull = virtual_diagonal(here, strength, law)
        for i in range(n):
            matrix[i, i] = pull[i]
        schur_complement(run, owner, winner, loser, weight, score, parameter, law, begin, end, first, known, matrix)
        invert(matrix, covariance)
        if parameter is not None:
            questioned = end if len(answers) else begin
            question_runs(
                run,
                owner,
                winner,
                loser,
                weight,
                score,
                parameter,
                law,
                begin,
                questioned,
                first,
                covariance,
                pull[:0],
                window,
                answers,
            )
        centre_covariance(covariance)
        for i in range(n):
            deviation[first + i] = math.sqrt(max(covariance[i, i], 0.0))
        rank = np.empty(n, np.int64)
        ranks(here, rank)
        joint_rank_bounds(here, rank, covariance, z, low[first : first + n], high[first : first + n])
