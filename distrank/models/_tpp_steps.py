"""The rounds of `tpp` with the perceived scores integrated out: what a shard does with the queries that lie there.

local     a block (`_vectors`) over [scores of the items, log delta^2 of the queries]; `posterior` r (queries, domains);
          `kept.point`, `kept.posterior`: the best solution so far; `common`: the point that all starts begin from
theta     `shared.*`: a block over [tau (rows, domains), scores and log delta^2 of split queries]; `split.posterior`

With uniform expertise tau has one row for all annotators.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from distrank.kernels import expertise as kernels
from distrank.kernels.lbfgs import dot
from distrank.kernels.normal_table import log_cdf_table
from distrank.kernels.pair_counts import count_by_query
from distrank.models._pairwise import by_annotator, rows_of, split_slice
from distrank.models._vectors import BLOCK, evaluated, fresh_block, moved
from distrank.records import Array, Record, frozen, scalar

HARDNESS_SPREAD = 1.0  # standard deviation of log delta^2, a priori: a factor of e between queries is usual


class Found(NamedTuple):
    """What a pass over the preferences of a shard found."""

    value: float
    score: Array
    hardness: Array
    statistics: Record  # the slope (and curvature) in tau, by annotator
    score_curvature: Array | None
    hardness_curvature: Array | None


def rows_of_tau(shard: Record, tau: Array) -> Array:
    """The row of tau of every annotator of the shard."""
    return shard["annotator.code"] if len(tau) > 1 else np.zeros(len(shard["annotator.code"]), np.int64)


def evaluate(shard: Record, score: Array, hardness: Array, posterior: Array, theta: Record) -> Found:
    """The expected log-likelihood under the posterior of the domains, and its derivatives."""
    tau, rows = theta["tau"], rows_of(shard)
    mine = tau[rows_of_tau(shard, tau)]
    slopes = np.zeros(len(score)), np.zeros(len(hardness)), np.zeros(mine.shape)
    value = kernels.expected_likelihood(
        shard["pair.unit"], *rows, score, hardness, mine, posterior, log_cdf_table(), *slopes
    )
    columns = {"slope": slopes[2]}
    if not bool(theta["refresh"]):
        return Found(value, slopes[0], slopes[1], _by_row(shard, tau, columns), None, None)
    curvatures = np.zeros(len(score)), np.zeros(len(hardness)), np.zeros(mine.shape)
    kernels.expected_information(
        shard["pair.unit"], *rows, score, hardness, mine, posterior, log_cdf_table(), *curvatures
    )
    columns["curvature"] = curvatures[2]
    return Found(value, slopes[0], slopes[1], _by_row(shard, tau, columns), curvatures[0], curvatures[1])


def _by_row(shard: Record, tau: Array, columns: Record) -> Record:
    """Statistics by row of tau: sparse by annotator, or one row that all annotators add to."""
    if len(tau) > 1:
        return by_annotator(shard, len(tau), **columns)
    sums = {f"annotator/{name}": column.sum(axis=0, keepdims=True) for name, column in columns.items()}
    return {"annotator/index": np.zeros(1, np.int64), **sums}


def likelihood_of(shard: Record, score: Array, hardness: Array, tau: Array) -> Array:
    """log P(preferences | domain) of every unit of the shard."""
    mine = tau[rows_of_tau(shard, tau)]
    total = np.zeros((len(hardness), tau.shape[1]))
    kernels.domain_likelihood(shard["pair.unit"], *rows_of(shard), score, hardness, mine, log_cdf_table(), total)
    return total


class Believed(NamedTuple):
    """The priors of scores and difficulties at a point, and the derivatives of the pass with them."""

    prior: float
    slope: Array
    curvature: Array | None


def believed(point: Array, items: int, theta: Record, found: Found) -> Believed:
    """Scores are N(0, score_spread^2) about the mean of their query, log delta^2 is N(0, 1), or 0 if uniform."""
    score, hardness, precision = point[:items], point[items:], float(theta["score_spread"]) ** -2
    stiffness = HARDNESS_SPREAD**-2
    prior = -0.5 * precision * dot(score, score) - 0.5 * stiffness * dot(hardness, hardness)
    free = 0.0 if bool(theta["uniform_difficulty"]) else 1.0
    slope = np.concatenate([found.score - precision * score, free * (found.hardness - stiffness * hardness)])
    if found.score_curvature is None or found.hardness_curvature is None:
        return Believed(prior, slope, None)
    curvature = np.concatenate([found.score_curvature + precision, found.hardness_curvature + stiffness])
    return Believed(prior, slope, curvature)


def centred(score: Array, nodes: Array) -> Array:
    """The scores of every query with mean 0."""
    counts = np.diff(nodes)
    means = np.add.reduceat(np.append(score, 0.0), nodes[:-1]) if len(counts) else np.zeros(0)
    return score - np.repeat(np.where(counts > 0, means / np.maximum(counts, 1), 0.0), counts)


# Steps over whole queries. -------------------------------------------------------------------------------------------


def begin_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """All scores equal, all queries of usual difficulty, all of them in domain 0."""
    items, units = int(shard["unit.nodes"][-1]), len(shard["unit.nodes"]) - 1
    posterior = np.zeros((units, theta["tau"].shape[1]))
    posterior[:, 0] = 1.0
    return _settled(shard, {**fresh_block(np.zeros(items + units)), "posterior": posterior}, theta)


def advance_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """Move, then evaluate under the posterior at hand."""
    block = moved(local, theta)
    items, nodes = int(shard["unit.nodes"][-1]), shard["unit.nodes"]
    point = np.concatenate([centred(block["point"][:items], nodes), block["point"][items:]])
    return _settled(shard, {**block, "point": point}, theta)


def survey_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """The E-step: the domains of every query anew; then evaluate under them."""
    items = int(shard["unit.nodes"][-1])
    likelihood = likelihood_of(shard, local["point"][:items], local["point"][items:], theta["tau"])
    posterior = np.empty_like(likelihood)
    total = kernels.posterior_of(likelihood, theta["log_share"], float(theta["heat"]), posterior)
    changed = np.abs(posterior - local["posterior"]).sum()
    local, sums = _settled(shard, {**local, "posterior": posterior}, theta)
    sums |= {"likelihood": scalar(total), "changed": scalar(changed)}
    return local, {**sums, "members": posterior.sum(axis=0)}


def scatter_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:
    """A new start: the common point, and a random domain for every query."""
    block = {**local, **fresh_block(local["common"]), "posterior": random_domains(shard, theta["tau"].shape[1], key)}
    return _settled(shard, block, theta)


def remember_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """Keep the solution at hand as the best so far."""
    kept = {"kept.point": local["point"], "kept.posterior": local["posterior"]}
    return {**local, **kept, "common": local.get("common", local["point"])}, {}


def recall_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """Back to the best solution so far."""
    return _settled(shard, {**local, **fresh_block(local["kept.point"]), "posterior": local["kept.posterior"]}, theta)


def unpack_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """What outlives the fit: scores, log delta^2 and posteriors."""
    items = int(shard["unit.nodes"][-1])
    point = local["point"]
    return {"score": point[:items], "hardness": point[items:], "posterior": local["posterior"]}, {}


def turn_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """Every query the way round that fits the domains better: its scores as they are, or all with the other sign."""
    items, nodes = int(shard["unit.nodes"][-1]), shard["unit.nodes"]
    score, hardness = local["point"][:items], local["point"][items:]
    upright, turned = (likelihood_of(shard, sign * score, hardness, theta["tau"]) for sign in (1.0, -1.0))
    sign = np.repeat(signs(upright, turned, theta["log_share"]), np.diff(nodes))
    return _settled(shard, {**local, **fresh_block(np.concatenate([sign * score, hardness]))}, theta)


def signs(upright: Array, turned: Array, log_share: Array) -> Array:
    """-1 where the best domain of a unit fits its turned scores better, else 1."""
    return np.where((turned + log_share).max(axis=1) > (upright + log_share).max(axis=1), -1.0, 1.0)


def inspect_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """By domain: what the likelihood would lose without it, and how much it looks like two domains in one."""
    items = int(shard["unit.nodes"][-1])
    score, hardness, tau = local["point"][:items], local["point"][items:], theta["tau"]
    likelihood = likelihood_of(shard, score, hardness, tau) + theta["log_share"]
    return None, {"loss": losses(likelihood), "excess": _excess(shard, score, hardness, local["posterior"], theta)}


def rearrange_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:
    """The queries of one domain go to the others, and half of those of another take its place."""
    items = int(shard["unit.nodes"][-1])
    likelihood = likelihood_of(shard, local["point"][:items], local["point"][items:], theta["tau"])
    halves = random_domains(shard, 2, key)[:, 0] > 0.0
    return _settled(
        shard, {**local, **fresh_block(local["point"]), "posterior": rearranged(likelihood, halves, theta)}, theta
    )


def losses(likelihood: Array) -> Array:
    """What the units lose without the domain that is best for them, by domain."""
    if likelihood.shape[1] == 1:
        return np.zeros(1)
    ordered = np.sort(likelihood, axis=1)
    return np.bincount(likelihood.argmax(axis=1), ordered[:, -1] - ordered[:, -2], likelihood.shape[1])


def rearranged(likelihood: Array, halves: Array, theta: Record) -> Array:
    """Posteriors with domain `vacated` freed for a half of domain `divided`."""
    vacated, divided = int(theta["vacated"]), int(theta["divided"])
    log_share = theta["log_share"].copy()
    log_share[vacated] = -np.inf
    posterior = np.empty_like(likelihood)
    kernels.posterior_of(likelihood, log_share, 1.0, posterior)
    leaving = halves & (posterior.argmax(axis=1) == divided)
    posterior[leaving, vacated] = posterior[leaving, divided]
    posterior[leaving, divided] = 0.0
    return posterior


def _excess(shard: Record, score: Array, hardness: Array, posterior: Array, theta: Record) -> Array:
    tau = theta["tau"]
    mine, excess = tau[rows_of_tau(shard, tau)], np.zeros(tau.shape[1])
    floor = float(theta["expertise_prior"][1]) ** -2
    rows = rows_of(shard)
    kernels.dispersion(shard["pair.unit"], *rows, score, hardness, mine, posterior, floor, log_cdf_table(), excess)
    return excess


def vote_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """How the scores stand to the gold, by domain."""
    votes = gold_votes(shard, local["point"][: int(shard["unit.nodes"][-1])])
    return None, {"votes": (votes[:, None] * local["posterior"]).sum(axis=0)}


def gold_votes(shard: Record, score: Array) -> Array:
    """Pairs of known order that the scores have right, minus those they have wrong, of every unit."""
    right, wrong, _, _ = count_by_query(shard["unit.nodes"], score, shard["node.gold"])
    votes = (right - wrong).astype(np.float64)
    if "gold.winner" in shard:
        unit = np.searchsorted(shard["unit.nodes"], shard["gold.winner"], side="right") - 1
        lead = score[shard["gold.winner"]] - score[shard["gold.loser"]]
        votes += np.bincount(unit, np.sign(lead), len(votes))
    return votes


def random_domains(shard: Record, domains: int, key: Array) -> Array:
    """One domain for every unit, by the hash of its id."""
    posterior = np.zeros((len(shard["unit.hash"]), domains))
    kernels.random_domains(shard["unit.hash"], key, posterior)
    return posterior


def _settled(shard: Record, local: Record, theta: Record) -> tuple[Record, Record]:
    """The local state evaluated at its point, and its share of all sums."""
    items = int(shard["unit.nodes"][-1])
    point = local["point"]
    found = evaluate(shard, point[:items], point[items:], local["posterior"], theta)
    belief = believed(point, items, theta, found)
    block, products = evaluated({name: local[name] for name in BLOCK}, belief.slope, belief.curvature)
    sums = {"value": scalar(found.value), "prior": scalar(belief.prior), "products": products}
    return frozen({**local, **block}), {**sums, **found.statistics}


# Steps over the parts of split queries: their parameters are in theta. ------------------------------------------------


def evaluate_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """What a part adds to the value and the derivatives."""
    unit, here = int(shard["part.unit"]), split_slice(shard, theta["split.offsets"])
    score, hardness = theta["split.score"], theta["split.hardness"]
    posterior = theta["split.posterior"][unit : unit + 1]
    found = evaluate(shard, score[here], hardness[unit : unit + 1], posterior, theta)
    sums: Record = {"value": scalar(found.value), "score": np.zeros(len(score)), "hardness": np.zeros(len(hardness))}
    sums["score"][here], sums["hardness"][unit] = found.score, found.hardness[0]
    if found.score_curvature is not None and found.hardness_curvature is not None:
        sums |= {"score_curvature": np.zeros(len(score)), "hardness_curvature": np.zeros(len(hardness))}
        sums["score_curvature"][here] = found.score_curvature
        sums["hardness_curvature"][unit] = found.hardness_curvature[0]
    return None, {**sums, **found.statistics}


def survey_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """What a part says about the domain of its query."""
    unit, here = int(shard["part.unit"]), split_slice(shard, theta["split.offsets"])
    total = np.zeros((len(theta["split.hardness"]), theta["tau"].shape[1]))
    hardness = theta["split.hardness"][unit : unit + 1]
    total[unit] = likelihood_of(shard, theta["split.score"][here], hardness, theta["tau"])[0]
    return None, {"likelihood": total}


def scatter_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """A random domain for every split query, drawn where its first part lies."""
    posterior = np.zeros((len(theta["split.hardness"]), theta["tau"].shape[1]))
    if bool(shard["part.first"]):
        posterior[int(shard["part.unit"])] = random_domains(shard, theta["tau"].shape[1], key)[0]
    return None, {"posterior": posterior}


def vote_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """The same for split queries, on their first parts, which carry the gold."""
    votes = 0.0
    if bool(shard["part.first"]):
        votes = gold_votes(shard, theta["split.score"][split_slice(shard, theta["split.offsets"])])[0]
    return None, {"votes": votes * theta["split.posterior"][int(shard["part.unit"])]}


def inspect_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:
    """What a part says about the domain of its query, how much it looks like two, and a coin for its query."""
    unit, here = int(shard["part.unit"]), split_slice(shard, theta["split.offsets"])
    _, sums = survey_parts(shard, local, theta, key)
    hardness, posterior = theta["split.hardness"][unit : unit + 1], theta["split.posterior"][unit : unit + 1]
    coin = np.zeros(len(theta["split.hardness"]))
    if bool(shard["part.first"]):
        coin[unit] = random_domains(shard, 2, key)[0, 0]
    excess = _excess(shard, theta["split.score"][here], hardness, posterior, theta)
    return None, {**sums, "excess": excess, "coin": coin}
