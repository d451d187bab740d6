"""What a shard does in a sweep of the Gibbs sampler of `tpp`, and in the M-step; the rounds are in `_tpp_gibbs`.

local     score, hardness (log delta^2); the chain: perceived, difference, domain; `sums`, `squares` over the sweeps of
          an iteration; `mean.*`: totals over the samples
theta     tau, log_share, and flags; for split queries `split.*`. Their domains are drawn by all their parts, from the
          same weights and the same key
"""

from __future__ import annotations

import math

import numpy as np

from distrank.kernels import gibbs as kernels
from distrank.kernels.normal_table import log_cdf_table
from distrank.models._pairwise import by_annotator, rows_of, split_slice
from distrank.models._tpp_steps import centred, random_domains, rows_of_tau
from distrank.records import Array, Record, frozen, scalar

SWEEPS = 4  # per iteration
START_SPAN = 6.0  # distance of an item that won everything from one that lost everything, at the start
SMALLEST_VARIANCE, LARGEST_VARIANCE = 1e-4, 1e4  # of delta^2: the closed form has no finite maximum on some data
NEWTON = 8  # steps for log delta^2
AVERAGED = ("score", "hardness", "posterior")


def with_slots(shard: Record) -> Record:
    """A prepared shard with the slots of its runs."""
    rows = rows_of(shard)
    slot, node, first, second = kernels.slots_of(rows.run, rows.winner, rows.loser, int(shard["unit.nodes"][-1]))
    edges, edge = kernels.edges_of(first, second, len(node))
    counts = np.bincount(node, minlength=int(shard["unit.nodes"][-1])).astype(np.float64)
    names: Record = {"slot.run": slot, "slot.node": node, "slot.first": first, "slot.second": second}
    return {**shard, **names, "slot.edges": edges, "slot.edge": edge, "slot.count": counts}


# What one shard does, whole queries and parts alike. ------------------------------------------------------------------


def _weights(shard: Record, chain: Record, theta: Record) -> Array:
    rows, tau = rows_of(shard), theta["tau"]
    total = np.zeros((len(shard["pair.unit"]) - 1, tau.shape[1]))
    slots = shard["slot.first"], shard["slot.second"]
    mine = tau[rows_of_tau(shard, tau)]
    kernels.domain_weights(
        shard["pair.unit"], rows.run, rows.owner, rows.weight, *slots, mine, chain["perceived"], chain["difference"],
        bool(theta["collapsed"]), log_cdf_table(), total,
    )  # fmt: skip
    return total


def _swept(
    shard: Record, chain: Record, theta: Record, key: Array, score: Array, hardness: Array, weights: Array
) -> tuple[Record, Record]:
    """The chain after a sweep, and what the sample says: `sums` and `squares` by node, statistics by annotator."""
    rows, tau, unit = rows_of(shard), theta["tau"], shard["pair.unit"]
    mine = tau[rows_of_tau(shard, tau)]
    slots = shard["slot.first"], shard["slot.second"]
    domain, perceived = chain["domain"].copy(), chain["perceived"].copy()
    difference = np.empty_like(chain["difference"])
    if bool(theta["mixing"]):
        kernels.draw_domains(shard["unit.hash"], key, weights, theta["log_share"], domain)
    stream = (shard["unit.hash"], shard["annotator.code"].astype(np.int64), key)
    kernels.draw_differences(
        *stream, unit, rows.run, rows.owner, rows.weight, *slots, mine, domain, perceived, log_cdf_table(), difference
    )
    kernels.draw_perceived(
        *stream, unit, rows.owner, rows.weight, shard["slot.run"], shard["slot.node"], *slots, shard["slot.edges"],
        shard["slot.edge"], mine, domain, score, hardness, difference, perceived,
    )  # fmt: skip
    by_node = np.zeros(len(score)), np.zeros(len(score))
    slope, curvature = np.zeros(mine.shape), np.zeros(mine.shape)
    value = kernels.collect(
        unit, rows.run, rows.owner, rows.weight, shard["slot.run"], shard["slot.node"], *slots, mine, domain, score,
        hardness, perceived, log_cdf_table(), *by_node, slope, curvature,
    )  # fmt: skip
    chain = {**chain, "domain": domain, "perceived": perceived, "difference": difference}
    columns = {"slope": slope, "curvature": curvature}
    if len(tau) > 1:
        statistics = by_annotator(shard, len(tau), **columns)
    else:
        statistics = {f"annotator/{name}": column.sum(axis=0, keepdims=True) for name, column in columns.items()}
        statistics["annotator/index"] = np.zeros(1, np.int64)
    return chain, {"sums": by_node[0], "squares": by_node[1], "value": scalar(value), **statistics}


def _rescaled(chain: Record, scale: float) -> Record:
    return chain if scale == 1.0 else {
        **chain, "perceived": scale * chain["perceived"], "difference": scale * chain["difference"]
    }  # fmt: skip


def maximised(
    score: Array, hardness: Array, nodes: Array, sums: Array, squares: Array, count: Array, theta: Record
) -> tuple[Array, Array]:
    """Scores (18) and log delta^2 (19) from sums over SWEEPS sweeps; `squares` are about the scores before.

    `spread` (of the scores) and `stiffness` (of log delta^2) are what is believed; inf and 0 for the closed forms of
    the paper. With beliefs, log delta^2 maximises -n/2 log delta^2 - S / (2 delta^2) - stiffness/2 (log delta^2)^2.
    """
    sizes = np.diff(nodes)
    pull = np.exp(np.repeat(hardness, sizes)) / float(theta["spread"]) ** 2  # of the prior, in perceived scores
    weight = SWEEPS * count + SWEEPS * pull
    best = np.where(weight > 0.0, sums / np.where(weight > 0.0, weight, 1.0), score)
    left = squares + SWEEPS * count * (best - score) ** 2 - 2.0 * (best - score) * (sums - SWEEPS * count * score)
    units = np.repeat(np.arange(len(sizes)), sizes)
    total, seen = (np.bincount(units, column, len(sizes)) for column in (left / SWEEPS, count))
    if bool(theta["uniform_difficulty"]):
        return best, np.zeros(len(sizes))
    closed = np.log(np.clip(total / np.maximum(seen, 1.0), SMALLEST_VARIANCE, LARGEST_VARIANCE))
    stiffness, found = float(theta["stiffness"]), np.where(seen > 0.0, closed, 0.0)
    for _ in range(NEWTON if stiffness > 0.0 else 0):
        slope = 0.5 * (total * np.exp(-found) - seen) - stiffness * found
        found = found + np.clip(slope / (0.5 * total * np.exp(-found) + stiffness), -1.0, 1.0)
    return best, found


# Steps over whole queries. -------------------------------------------------------------------------------------------


def start_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:
    """Borda scores, queries of equal difficulty, random domains."""
    score = START_SPAN * (local["score"] - 0.5)
    score = centred(score, shard["unit.nodes"])
    units, domains = len(shard["unit.nodes"]) - 1, theta["tau"].shape[1]
    chain = _started(shard, score, random_domains(shard, domains, key).argmax(axis=1))
    nothing = {"mean.score": np.zeros(len(score)), "mean.hardness": np.zeros(units)}
    nothing["mean.posterior"] = np.zeros((units, domains))
    sums = {"sums": np.zeros(len(score)), "squares": np.zeros(len(score))}
    return {"score": score, "hardness": np.zeros(units), **chain, **sums, **nothing}, {}


def _started(shard: Record, score: Array, domain: Array) -> Record:
    return {
        "perceived": score[shard["slot.node"]],
        "difference": np.ones(len(shard["pair.winner"])),
        "domain": domain.astype(np.int64),
    }


def sweep_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:
    """One sweep; what it says adds to that of the sweeps before it."""
    weights = _weights(shard, local, theta) if bool(theta["mixing"]) else np.zeros((len(shard["unit.hash"]), 1))
    chain, found = _swept(shard, local, theta, key, local["score"], local["hardness"], weights)
    added = {name: local[name] + found.pop(name) for name in ("sums", "squares")}
    members = np.bincount(chain["domain"], minlength=theta["tau"].shape[1]).astype(np.float64)
    return {**chain, **added}, {**found, "members": members}


def update_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """The M-step of scores and difficulty."""
    nodes, count = shard["unit.nodes"], shard["slot.count"]
    found = maximised(local["score"], local["hardness"], nodes, local["sums"], local["squares"], count, theta)
    new = {"score": found[0], "hardness": found[1], "sums": np.zeros(len(count)), "squares": np.zeros(len(count))}
    return {**local, **new}, {"variance": scalar(float(np.exp(found[1]).sum()))}


def rescale_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """The unit of length (16) and the zero of every query; then, if asked for, one more sample for the means."""
    scale = float(theta["scale"])
    score, hardness = scale * local["score"], local["hardness"] + 2.0 * math.log(scale)
    shift = centred(score, shard["unit.nodes"]) - score
    chain = _rescaled(local, scale)
    chain = {**chain, "perceived": chain["perceived"] + shift[shard["slot.node"]]}
    local = {**chain, "score": score + shift, "hardness": hardness}
    if bool(theta["restart"]):
        local |= {f"mean.{name}": np.zeros_like(local[f"mean.{name}"]) for name in AVERAGED}
    if bool(theta["sampling"]):
        sample = {name: local[name] for name in ("score", "hardness")} | {"posterior": one_hot(local["domain"], theta)}
        local |= {f"mean.{name}": local[f"mean.{name}"] + value for name, value in sample.items()}
    return frozen(local), {}


def one_hot(domain: Array, theta: Record) -> Array:
    """The domains of one sample as posteriors."""
    return np.eye(theta["tau"].shape[1])[domain]


def conclude_chain(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """Means over the samples (the last state where there are none): local as `_tpp_results` takes it."""
    count = float(theta["taken"])
    if count == 0.0:
        last = {name: local[name] for name in ("score", "hardness")}
        return {**last, "posterior": one_hot(local["domain"], theta)}, {}
    return {name: local[f"mean.{name}"] / count for name in AVERAGED}, {}


# Steps over the parts of split queries. ------------------------------------------------------------------------------


def start_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """The chain of a part: the same random domain in all parts of a query."""
    here = split_slice(shard, theta["split.offsets"])
    domain = random_domains(shard, theta["tau"].shape[1], key).argmax(axis=1)
    counts = np.zeros(len(theta["split.score"]))
    counts[here] = shard["slot.count"]
    domains = np.zeros(len(theta["split.hardness"]), np.int64)
    if bool(shard["part.first"]):
        domains[int(shard["part.unit"])] = domain[0]
    return _started(shard, theta["split.score"][here], domain), {"count": counts, "domain": domains}


def weigh_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """What a part says about the domain of its query."""
    total = np.zeros((len(theta["split.hardness"]), theta["tau"].shape[1]))
    total[int(shard["part.unit"])] = _weights(shard, local, theta)[0]
    return None, {"weights": total}


def sweep_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:
    """One sweep over a part."""
    unit, here = int(shard["part.unit"]), split_slice(shard, theta["split.offsets"])
    score, hardness = theta["split.score"][here], theta["split.hardness"][unit : unit + 1]
    chain, found = _swept(shard, local, theta, key, score, hardness, theta["split.weights"][unit : unit + 1])
    for name in ("sums", "squares"):
        whole = np.zeros(len(theta["split.score"]))
        whole[here] = found[name]
        found[name] = whole
    domain = np.zeros(len(theta["split.hardness"]), np.int64)
    if bool(shard["part.first"]):
        domain[unit] = chain["domain"][0]
    return chain, {**found, "domain": domain}


def rescale_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """The chain in the new unit of length, and about the new zero of its query."""
    here = split_slice(shard, theta["split.offsets"])
    chain = _rescaled(local, float(theta["scale"]))
    return {**chain, "perceived": chain["perceived"] + theta["split.shift"][here][shard["slot.node"]]}, {}
