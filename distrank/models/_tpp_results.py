"""What a fit of `tpp` says, whatever found it: agreement, implied quality, and the columns of the tables.

Shown to the steps: `tau`, `sign` and `order` (of the domains, largest first), `count` of annotators, `z` (deviations to
either end of an interval, 0 for none), `precision` of the priors of scores and log delta^2, and the split queries.
"""

from __future__ import annotations

import numpy as np

from distrank.contract import PARTS, Run, Tables
from distrank.kernels import clusters
from distrank.kernels.normal import lower_tails
from distrank.kernels.normal_table import log_cdf_table
from distrank.models._pairwise import (
    INTERVALS,
    by_annotator,
    measure_agreement,
    measure_part_agreement,
    rows_of,
    shares,
    split_slice,
)
from distrank.models._tpp_intervals import sandwich_bounds, split_bounds
from distrank.models._tpp_steps import gold_votes, rows_of_tau, vote_parts
from distrank.records import Array, Record, scalar
from distrank.stats import dense

BY_ANNOTATOR = ("judged", "right", "lift")


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
    if float(theta["z"]) > 0.0:
        result |= sandwich_bounds(shard, score, hardness, posterior, theta)
    return result, {**sums, **_accuracy(shard, score, hardness, posterior, theta)}


def conclude_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:
    """The same for a part of a split query: what its annotators say."""
    unit, here = int(shard["part.unit"]), split_slice(shard, theta["split.offsets"])
    score, hardness = theta["split.score"][here], theta["split.hardness"][unit : unit + 1]
    posterior = theta["split.posterior"][unit : unit + 1]
    _, sums = measure_part_agreement(shard, local, theta, key)
    return None, {**sums, **_accuracy(shard, score, hardness, posterior, theta)}


def _accuracy(shard: Record, score: Array, hardness: Array, posterior: Array, theta: Record) -> Record:
    mine = theta["tau"][rows_of_tau(shard, theta["tau"])]
    found = [np.zeros(mine.shape) for _ in BY_ANNOTATOR]
    clusters.implied_accuracy(
        shard["pair.unit"], *rows_of(shard), score, hardness, mine, posterior, log_cdf_table(), *found
    )
    return by_annotator(shard, int(theta["count"]), **dict(zip(BY_ANNOTATOR, found, strict=True)))


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
    theta |= {"split.agreement": shares(split), **split_bounds(run, shown)}
    return theta


def finalized(shard: Record, local: Record, theta: Record) -> Tables:
    """Rankings and queries of a shard, or of a split query."""
    if "part.unit" not in shard:
        found = local
    else:
        unit, here = int(shard["part.unit"]), split_slice(shard, theta["split.offsets"])
        found = {name: theta[f"split.{name}"][here] for name in ("score", *INTERVALS) if f"split.{name}" in theta}
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
    return {"rankings": {name: found[name] for name in ("score", *INTERVALS) if name in found}, "queries": queries}


def annotator_columns(theta: Record, z: float) -> Record:
    """`quality` with its interval, agreement, P(malicious), and tau with its own P(malicious) by domain."""
    judged, right, lift = (theta[name] for name in BY_ANNOTATOR)
    shape = judged.shape
    tau, deviation = (np.broadcast_to(theta[name], shape) for name in ("tau", "tau_deviation"))
    total = judged.sum(axis=1)
    known = np.maximum(total, np.finfo(float).tiny)
    weight = np.where((total > 0.0)[:, None], judged / known[:, None], 1.0 / shape[1])
    quality = np.where(total > 0.0, right.sum(axis=1) / known, 0.5)
    malicious = lower_tails(tau / deviation)
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
    names = ("tau", "sign", "split.offsets", "split.score", "split.hardness", "split.posterior")
    more = {"order": order, "count": scalar(len(theta["agreement"])), "z": scalar(z), "precision": np.array(precision)}
    return {name: theta[name] for name in names if name in theta} | more
