"""Intervals of the scores and ranks of `tpp`: per query, from the sandwich of `kernels.clusters`.

Theta holds `tau`, `z` (deviations to either end, 0 for no intervals), `precision` of the priors of scores and log
delta^2. H and J of a split query are summed over its parts, in two rounds: J needs the inverse of the whole H.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from distrank.contract import PARTS, Run
from distrank.kernels import clusters
from distrank.kernels.normal_table import log_cdf_table
from distrank.kernels.ranks import joint_rank_bounds, ranks
from distrank.models._pairwise import INTERVALS, rows_of, split_slice
from distrank.models._ranks import quantile, rank_bounds, score_bounds
from distrank.models._tpp_steps import rows_of_tau
from distrank.records import Array, Record

LARGEST = 300  # items: beyond, every score is taken for itself, because the sandwich costs n^3


def half_width(level: float | None) -> float:
    """How many deviations an interval of this level reaches to either side; 0 where none is asked for."""
    return 0.0 if level is None else quantile(level)


def sandwich_bounds(shard: Record, score: Array, hardness: Array, posterior: Array, theta: Record) -> Record:
    """Bounds of every query of a shard."""
    nodes, bounds = shard["unit.nodes"], _no_bounds(score)
    for unit in range(len(hardness)):
        here = slice(int(nodes[unit]), int(nodes[unit + 1]))
        size = here.stop - here.start
        if size > LARGEST:
            diagonals = _alone(shard, unit, score, float(hardness[unit]), posterior[unit], theta["tau"])
            found = separate_bounds(score[here], _apart(*diagonals, theta), np.array([0, size]), float(theta["z"]))
        else:
            precision = precisions(size, theta)
            bread = _bread(shard, unit, score, float(hardness[unit]), posterior[unit], theta["tau"], size)
            whole, inverse = clusters.believed(bread, precision)
            own = (float(hardness[unit]), posterior[unit], theta["tau"])
            meat = _meat(shard, unit, score, *own, whole, inverse)
            found = covered(score[here], clusters.sandwich(inverse, meat, precision), float(theta["z"]))
        for name in INTERVALS:
            bounds[name][here] = found[name]
    return bounds


def _runs_of(shard: Record, unit: int, tau: Array) -> tuple[int, int, int, Array]:
    """The runs of a unit and its first node, and the expertise of the shard's annotators."""
    first, last = (int(edge) for edge in shard["pair.unit"][unit : unit + 2])
    return first, last, int(shard["unit.nodes"][unit]), tau[rows_of_tau(shard, tau)]


def _bread(shard: Record, unit: int, score: Array, hardness: float, posterior: Array, tau: Array, size: int) -> Array:
    """H of one unit of a shard, priors apart."""
    bread = np.zeros((size + 1, size + 1))
    first, last, node, mine = _runs_of(shard, unit, tau)
    clusters.add_bread(first, last, node, *rows_of(shard), score, hardness, mine, posterior, log_cdf_table(), bread)
    return bread


def _meat(
    shard: Record, unit: int, score: Array, hardness: float, posterior: Array, tau: Array, whole: Array, inverse: Array
) -> Array:
    """J of one unit of a shard."""
    meat = np.zeros(whole.shape)
    first, last, node, mine = _runs_of(shard, unit, tau)
    clusters.add_meat(
        first, last, node, *rows_of(shard), score, hardness, mine, posterior, log_cdf_table(), whole, inverse, meat
    )
    return meat


def _alone(
    shard: Record, unit: int, score: Array, hardness: float, posterior: Array, tau: Array
) -> tuple[Array, Array]:
    """The diagonals of H and J of the scores of one unit, priors apart."""
    size = int(np.diff(shard["unit.nodes"])[unit])
    bread, meat = np.zeros(size), np.zeros(size)
    first, last, node, mine = _runs_of(shard, unit, tau)
    clusters.diagonals(
        first, last, node, *rows_of(shard), score, hardness, mine, posterior, log_cdf_table(), bread, meat
    )
    return bread, meat


def _apart(bread: Array, meat: Array, theta: Record) -> Array:
    """Deviations of scores, every item for itself."""
    precision = float(theta["precision"][0])
    return np.sqrt(meat + precision) / (bread + precision)


def precisions(size: int, theta: Record) -> Array:
    """Of the priors of a query's scores, and of its log delta^2."""
    return np.append(np.full(size, theta["precision"][0]), theta["precision"][1])


def covered(score: Array, covariance: Array, z: float) -> Record:
    """Bounds of the scores of one query, about the mean of the query, and of its ranks."""
    covariance = covariance[:-1, :-1].copy()  # without log delta^2
    clusters.centre(covariance)
    low, high, rank = (np.zeros(len(score), np.int64) for _ in range(3))
    ranks(score, rank)
    joint_rank_bounds(score, rank, covariance, z, low, high)
    deviation = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    return {**score_bounds(score, deviation, z), "rank_low": low, "rank_high": high}


def separate_bounds(score: Array, deviation: Array, nodes: Array, z: float) -> Record:
    """Bounds where the scores are taken as independent."""
    return {**score_bounds(score, deviation, z), **rank_bounds(score, deviation, nodes, z)}


def _no_bounds(score: Array) -> Record:
    return {name: np.zeros(len(score), np.int64 if name.startswith("rank") else np.float64) for name in INTERVALS}


# Split queries. ------------------------------------------------------------------------------------------------------


def bread_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """What a part adds to H of its query; of a very large one, to the diagonals of H and J."""
    unit, here = int(shard["part.unit"]), split_slice(shard, theta["split.offsets"])
    own = _own(theta, unit, here)
    squares = _square_offsets(theta["split.offsets"])
    sums = {"bread": np.zeros(int(squares[-1])), "alone": np.zeros((2, len(theta["split.score"])))}
    size = here.stop - here.start
    if size > LARGEST:
        sums["alone"][:, here] = _alone(shard, 0, *own)
    else:
        sums["bread"][int(squares[unit]) : int(squares[unit + 1])] = _bread(shard, 0, *own, size).ravel()
    return None, sums


def meat_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """What a part adds to J of its query."""
    unit, here = int(shard["part.unit"]), split_slice(shard, theta["split.offsets"])
    squares = _square_offsets(theta["split.offsets"])
    meat, size = np.zeros(int(squares[-1])), here.stop - here.start + 1
    place = slice(int(squares[unit]), int(squares[unit + 1]))
    if size <= LARGEST + 1:
        whole, inverse = (theta[name][place].reshape(size, size) for name in ("whole", "inverse"))
        meat[place] = _meat(shard, 0, *_own(theta, unit, here), whole, inverse).ravel()
    return None, {"meat": meat}


def split_bounds(run: Run, theta: Record) -> Record:
    """`split.*` columns of the split queries."""
    z, score, offsets = float(theta["z"]), theta["split.score"], theta["split.offsets"]
    if z == 0.0 or len(score) == 0:
        return {}
    found = run(bread_parts, theta, on=PARTS)
    squares, sizes = _square_offsets(offsets), np.diff(offsets)
    whole, inverse = np.zeros(len(found["bread"])), np.zeros(len(found["bread"]))
    places = [slice(int(begin), int(end)) for begin, end in pairwise(squares)]
    for size, place in zip(sizes, places, strict=True):
        if size <= LARGEST:
            both = clusters.believed(found["bread"][place].reshape(size + 1, size + 1), precisions(size, theta))
            whole[place], inverse[place] = both[0].ravel(), both[1].ravel()
    meat = run(meat_parts, {**theta, "whole": whole, "inverse": inverse}, on=PARTS)["meat"]
    bounds = _no_bounds(score)
    for unit, (size, place) in enumerate(zip(sizes, places, strict=True)):
        here = slice(int(offsets[unit]), int(offsets[unit + 1]))
        if size <= LARGEST:
            square = (size + 1, size + 1)
            matrices = inverse[place].reshape(square), meat[place].reshape(square)
            columns = covered(score[here], clusters.sandwich(*matrices, precisions(size, theta)), z)
        else:
            deviation = _apart(found["alone"][0, here], found["alone"][1, here], theta)
            columns = separate_bounds(score[here], deviation, np.array([0, size]), z)
        for name in INTERVALS:
            bounds[name][here] = columns[name]
    return _named(bounds)


def _own(theta: Record, unit: int, here: slice) -> tuple[Array, float, Array, Array]:
    """Scores, log delta^2 and posterior of a split query, and tau."""
    hardness, posterior = float(theta["split.hardness"][unit]), theta["split.posterior"][unit]
    return theta["split.score"][here], hardness, posterior, theta["tau"]


def _named(bounds: Record) -> Record:
    return {f"split.{name}": column for name, column in bounds.items()}


def _square_offsets(offsets: Array) -> Array:
    """Where the matrices of split queries begin in one array; very large queries have none."""
    sizes = np.diff(offsets)
    return np.concatenate([[0], np.cumsum(np.where(sizes <= LARGEST, (sizes + 1) ** 2, 0))]).astype(np.int64)
