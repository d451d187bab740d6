"""What a fit of `tpp` says, whatever found it: agreement, implied quality, intervals, and the columns of the tables.

Shown to the steps: `tau`, `sign` and `order` (of the domains, largest first), `count` of annotators, `z` (deviations to
either end of an interval, 0 for none), `precision` of the priors of scores and log delta^2, and the split queries.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from distrank.contract import PARTS, Run, Tables
from distrank.kernels import clusters
from distrank.kernels.normal_table import log_cdf_table
from distrank.models._pairwise import (
    by_annotator,
    measure_agreement,
    measure_part_agreement,
    rows_of,
    shares,
    split_slice,
)
from distrank.models._tpp_steps import gold_votes, rows_of_tau, vote_parts
from distrank.records import Array, Record, scalar
from distrank.stats import dense

LARGEST = 300  # items: beyond, scores are taken as independent, because the sandwich costs n^3
BOUNDS = ("score_low", "score_high", "rank_low", "rank_high")
BY_ANNOTATOR = ("judged", "right", "lift")


def half_width(level: float | None) -> float:
    """How many deviations an interval of this level reaches to either side; 0 where none is asked for."""
    return 0.0 if level is None else NormalDist().inv_cdf(0.5 + 0.5 * level)


def signs_of(posterior: Array, sign: Array) -> Array:
    """The sign of the domain of every query."""
    return sign[posterior.argmax(axis=1)] if len(posterior) else np.zeros(0)


def decided_gold(run: Run, theta: Record) -> Array:
    """How scores stand to the gold, by domain, once local and theta hold scores and posteriors."""
    names = ("split.offsets", "split.score", "split.posterior")
    votes = np.zeros(len(theta["share"]))
    for sums in (run(vote_units, {}), run(vote_parts, {name: theta[name] for name in names}, on=PARTS)):
        if sums:
            votes = votes + sums["votes"]
    return votes


# Steps. --------------------------------------------------------------------------------------------------------------


def vote_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """Pairs of known order that the scores have right, minus those they have wrong, by domain."""
    votes = gold_votes(shard, local["score"])
    return None, {"votes": (votes[:, None] * local["posterior"]).sum(axis=0)}


def conclude_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:
    """Local as the tables need it; agreement and implied accuracy by annotator."""
    hardness, posterior = local["hardness"], local["posterior"][:, theta["order"]]
    score = np.repeat(signs_of(posterior, theta["sign"]), np.diff(shard["unit.nodes"])) * local["score"]
    agreed, sums = measure_agreement(shard, {"score": score}, theta, key)
    result = {**agreed, "hardness": hardness, "posterior": posterior}
    if "deviation" in local:
        result |= _separate_bounds(score, local["deviation"], shard["unit.nodes"], float(theta["z"]))
    elif float(theta["z"]) > 0.0:
        result |= _sandwich_bounds(shard, score, hardness, posterior, theta)
    return result, {**sums, **_accuracy(shard, score, hardness, posterior, theta)}


def conclude_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:
    """The same for a part of a split query: what its annotators say."""
    unit, here = int(shard["part.unit"]), split_slice(shard, theta["split.offsets"])
    score, hardness = theta["split.score"][here], theta["split.hardness"][unit : unit + 1]
    posterior = theta["split.posterior"][unit : unit + 1]
    _, sums = measure_part_agreement(shard, local, theta, key)
    squares = _square_offsets(theta["split.offsets"])
    bread, meat = np.zeros(int(squares[-1])), np.zeros(int(squares[-1]))
    runs = np.zeros(len(squares) - 1, np.int64)
    alone = np.zeros((2, len(theta["split.score"])))
    size = len(score) + 1
    if float(theta["z"]) > 0.0 and size > LARGEST + 1:
        alone[:, here] = _alone(shard, 0, score, float(hardness[0]), posterior[0], theta["tau"])
    elif float(theta["z"]) > 0.0:
        own = _both(shard, 0, score, float(hardness[0]), posterior[0], theta["tau"], len(score))
        place = slice(int(squares[unit]), int(squares[unit]) + size * size)
        bread[place], meat[place] = own[0].ravel(), own[1].ravel()
        runs[unit] = len(shard["pair.owner"])
    sums |= {"bread": bread, "meat": meat, "runs": runs, "alone": alone}
    return None, {**sums, **_accuracy(shard, score, hardness, posterior, theta)}


def _accuracy(shard: Record, score: Array, hardness: Array, posterior: Array, theta: Record) -> Record:
    mine = theta["tau"][rows_of_tau(shard, theta["tau"])]
    found = [np.zeros(mine.shape) for _ in BY_ANNOTATOR]
    clusters.implied_accuracy(
        shard["pair.unit"], *rows_of(shard), score, hardness, mine, posterior, log_cdf_table(), *found
    )
    return by_annotator(shard, int(theta["count"]), **dict(zip(BY_ANNOTATOR, found, strict=True)))


# Intervals of scores and ranks. --------------------------------------------------------------------------------------


def _sandwich_bounds(shard: Record, score: Array, hardness: Array, posterior: Array, theta: Record) -> Record:
    """Bounds of every query of a shard."""
    nodes, bounds = shard["unit.nodes"], _no_bounds(score)
    for unit in range(len(hardness)):
        here = slice(int(nodes[unit]), int(nodes[unit + 1]))
        size = here.stop - here.start
        if size > LARGEST:
            diagonals = _alone(shard, unit, score, float(hardness[unit]), posterior[unit], theta["tau"])
            found = _separate_bounds(score[here], _apart(*diagonals, theta), np.array([0, size]), float(theta["z"]))
        else:
            bread, meat = _both(shard, unit, score, float(hardness[unit]), posterior[unit], theta["tau"], size)
            runs = int(shard["pair.unit"][unit + 1] - shard["pair.unit"][unit])
            found = covered(score[here], bread, meat, runs, theta)
        for name in BOUNDS:
            bounds[name][here] = found[name]
    return bounds


def _both(
    shard: Record, unit: int, score: Array, hardness: float, posterior: Array, tau: Array, size: int
) -> tuple[Array, Array]:
    """H and J of one unit of a shard, priors apart."""
    first, last = (int(edge) for edge in shard["pair.unit"][unit : unit + 2])
    bread, meat = np.zeros((size + 1, size + 1)), np.zeros((size + 1, size + 1))
    mine, node = tau[rows_of_tau(shard, tau)], int(shard["unit.nodes"][unit])
    clusters.meat_and_bread(
        first, last, node, *rows_of(shard), score, hardness, mine, posterior, log_cdf_table(), bread, meat
    )
    return bread, meat


def _alone(
    shard: Record, unit: int, score: Array, hardness: float, posterior: Array, tau: Array
) -> tuple[Array, Array]:
    """The diagonals of H and J of the scores of one unit, priors apart."""
    first, last = (int(edge) for edge in shard["pair.unit"][unit : unit + 2])
    node, end = (int(edge) for edge in shard["unit.nodes"][unit : unit + 2])
    bread, meat = np.zeros(end - node), np.zeros(end - node)
    mine = tau[rows_of_tau(shard, tau)]
    clusters.diagonals(
        first, last, node, *rows_of(shard), score, hardness, mine, posterior, log_cdf_table(), bread, meat
    )
    return bread, meat


def _apart(bread: Array, meat: Array, theta: Record) -> Array:
    """Deviations of scores, every item for itself."""
    precision = float(theta["precision"][0])
    return np.sqrt(meat + precision) / (bread + precision)


def covered(score: Array, bread: Array, meat: Array, runs: int, theta: Record) -> Record:
    """Bounds of the scores of one query, about the mean of the query, and of its ranks."""
    precision = np.append(np.full(len(score), theta["precision"][0]), theta["precision"][1])
    covariance = clusters.sandwich(bread, meat, precision, runs)[:-1, :-1].copy()
    clusters.centre(covariance)
    reach = float(theta["z"]) * np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    low, high = np.zeros(len(score), np.int64), np.zeros(len(score), np.int64)
    clusters.rank_bounds(score, covariance, float(theta["z"]), low, high)
    return {"score_low": score - reach, "score_high": score + reach, "rank_low": low, "rank_high": high}


def _separate_bounds(score: Array, deviation: Array, nodes: Array, z: float) -> Record:
    """Bounds where the scores are taken as independent."""
    bounds = _no_bounds(score)
    bounds["score_low"], bounds["score_high"] = score - z * deviation, score + z * deviation
    for begin, end in zip(nodes[:-1].tolist(), nodes[1:].tolist(), strict=True):
        here = slice(begin, end)
        clusters.separate_rank_bounds(
            score[here], deviation[here], z, bounds["rank_low"][here], bounds["rank_high"][here]
        )
    return bounds


def _no_bounds(score: Array) -> Record:
    kinds = dict.fromkeys(BOUNDS[:2], np.float64) | dict.fromkeys(BOUNDS[2:], np.int64)
    return {name: np.zeros(len(score), kind) for name, kind in kinds.items()}


def _square_offsets(offsets: Array) -> Array:
    """Where the matrices of split queries begin in one array; none for very large ones."""
    sizes = np.diff(offsets) + 1
    return np.concatenate([[0], np.cumsum(np.where(sizes <= LARGEST + 1, sizes**2, 0))]).astype(np.int64)


# Between rounds, and tables. -----------------------------------------------------------------------------------------


def concluded(run: Run, theta: Record, shown: Record) -> Record:
    """Theta with agreement, implied quality and the split queries' columns; local as `finalized` takes it."""
    count = int(shown["count"])
    whole, parts = run(conclude_units, shown), run(conclude_parts, shown, on=PARTS)
    totals = {}
    for name in ("agreed", *BY_ANNOTATOR):
        both = [dense(sums, f"annotator/{name}", count) for sums in (whole, parts) if sums]
        totals[name] = sum(both[1:], both[0])
    theta = {**theta, **totals, "agreement": shares(totals["agreed"])}
    split = parts["split.agreed"] if parts else np.zeros((0, 2))
    theta |= {"split.agreement": shares(split), **_split_bounds(shown, parts)}
    return theta


def _split_bounds(shown: Record, parts: Record) -> Record:
    if not float(shown["z"]) > 0.0 or not parts:
        return {}
    score, offsets = shown["split.score"], shown["split.offsets"]
    if "split.deviation" in shown:
        found = _separate_bounds(score, shown["split.deviation"], offsets, float(shown["z"]))
        return {f"split.{name}": column for name, column in found.items()}
    bounds, squares = _no_bounds(score), _square_offsets(offsets)
    for unit, (begin, end) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        size, here = end - begin + 1, slice(begin, end)
        place = slice(int(squares[unit]), int(squares[unit + 1]))
        if end - begin > LARGEST:
            deviation = _apart(parts["alone"][0, here], parts["alone"][1, here], shown)
            found = _separate_bounds(score[here], deviation, np.array([0, end - begin]), float(shown["z"]))
        else:
            bread, meat = (parts[name][place].reshape(size, size) for name in ("bread", "meat"))
            found = covered(score[here], bread, meat, int(parts["runs"][unit]), shown)
        for name in BOUNDS:
            bounds[name][here] = found[name]
    return {f"split.{name}": column for name, column in bounds.items()}


def finalized(shard: Record, local: Record, theta: Record) -> Tables:
    """Rankings and queries of a shard, or of a split query."""
    if "part.unit" not in shard:
        found = local
    else:
        unit, here = int(shard["part.unit"]), split_slice(shard, theta["split.offsets"])
        found = {name: theta[f"split.{name}"][here] for name in ("score", *BOUNDS) if f"split.{name}" in theta}
        found |= {name: theta[f"split.{name}"][unit : unit + 1] for name in ("hardness", "posterior", "agreement")}
    posterior = found["posterior"]
    domain = posterior.argmax(axis=1) if len(posterior) else np.zeros(0, np.int64)
    queries = {
        "agreement": found["agreement"],
        "difficulty": np.exp(found["hardness"]),
        "domain": domain,
        "domain_probability": posterior.max(axis=1, initial=0.0),
        "sign_probability": theta["sign_probability"][domain],
        **{f"posterior.{m}": posterior[:, m] for m in range(posterior.shape[1])},
    }
    return {"rankings": {name: found[name] for name in ("score", *BOUNDS) if name in found}, "queries": queries}


def annotator_columns(theta: Record, z: float) -> Record:
    """`quality` with its interval, agreement, P(malicious), and tau with its own P(malicious) by domain."""
    judged, right, lift = (theta[name] for name in BY_ANNOTATOR)
    shape = judged.shape
    tau, deviation = (np.broadcast_to(theta[name], shape) for name in ("tau", "tau_deviation"))
    total = judged.sum(axis=1)
    known = np.maximum(total, np.finfo(float).tiny)
    weight = np.where((total > 0.0)[:, None], judged / known[:, None], 1.0 / shape[1])
    quality = np.where(total > 0.0, right.sum(axis=1) / known, 0.5)
    normal = np.vectorize(NormalDist().cdf, otypes=[float])
    malicious = normal(-tau / deviation)
    columns = {"quality": np.clip(quality, 0.0, 1.0), "agreement": theta["agreement"]}
    if z > 0.0:
        reach = z * np.sqrt(((lift / known[:, None] * deviation) ** 2).sum(axis=1))
        reach = np.where(total > 0.0, reach, 0.5)
        columns |= {
            "quality_low": np.clip(quality - reach, 0.0, 1.0),
            "quality_high": np.clip(quality + reach, 0.0, 1.0),
        }
    columns["malicious"] = (weight * malicious).sum(axis=1)
    columns |= {f"tau.{m}": tau[:, m] for m in range(shape[1])}
    return columns | {f"malicious.{m}": malicious[:, m] for m in range(shape[1])}


def sign_probability(odds: Array) -> Array:
    """P(a domain is the right way round) from the logarithm of the odds."""
    return 1.0 / (1.0 + np.exp(-np.minimum(odds, 700.0)))


def in_order(theta: Record, odds: Array) -> tuple[Record, Array]:
    """Theta with domains by size, each the way round that the odds favour, and the order that they had."""
    order = np.argsort(-theta["share"], kind="stable")
    sign = np.where(odds < 0.0, -1.0, 1.0)[order]
    posterior = theta["split.posterior"][:, order]
    way = np.repeat(signs_of(posterior, sign), np.diff(theta["split.offsets"]))
    changed = {
        "tau": theta["tau"][:, order] * sign,
        "tau_deviation": theta["tau_deviation"][:, order],
        "share": theta["share"][order],
        "sign": sign,
        "gold_votes": theta["gold_votes"][order] * sign,
        "sign_probability": sign_probability(np.abs(odds))[order],
        "split.posterior": posterior,
        "split.score": theta["split.score"] * way,
    }
    return {**theta, **changed}, order


def shown_to_all(theta: Record, order: Array, z: float, precision: tuple[float, float]) -> Record:
    """What the steps need of theta, after `in_order`."""
    names = ("tau", "sign", "split.offsets", "split.score", "split.hardness", "split.posterior", "split.deviation")
    more = {"order": order, "count": scalar(len(theta["agreement"])), "z": scalar(z), "precision": np.array(precision)}
    return {name: theta[name] for name in names if name in theta} | more
