"""The true ranking of every query as the hidden variable: steps over shards for LTRMA and its relatives.  [Wu16]

Local state, all in the layout of the nodes:

    chain, order    the sampler's state, and the most probable ranking
    kept            states of the sampler that stand for the posterior (none where nothing needs them)

What the steps see of theta: the ranker (`_ranker.shown_ranker`), `expertise` of all annotators, and `limits`: longest
list that is summed over, steps of a chain, states kept, k (0 for whole rankings).
"""

from __future__ import annotations

import numpy as np

from distrank.kernels import truth as kernels
from distrank.kernels.plackett_luce import ranking_likelihood
from distrank.models._lists import borda_orders, by_annotator
from distrank.models._ranker import item_scores, weight_gradient
from distrank.records import Array, Record, scalar

SUMS = ("joint", "exact", "accepted", "steps", "effective", "chains")


def stages_of(shard: Record, top_k: int) -> Array:
    """How many choices of every ranking count."""
    sizes = np.diff(shard["unit.nodes"])
    return np.minimum(sizes, top_k) if top_k else sizes


def start_rankings(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """The first rankings."""
    order = borda_orders(shard, shard["node.gold"])
    kept = np.tile(order, (int(theta["limits"][2]), 1))
    return {"chain": order, "order": order, "kept": kept}, {}


def infer_truth(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:
    """The E-step: posterior rankings at the parameters, and the annotators' expected distances from them."""
    exact, steps, _, top_k = (int(limit) for limit in theta["limits"])
    chain, order, kept = local["chain"].copy(), local["order"].copy(), local["kept"].copy()
    distance = np.zeros(len(shard["annotator.code"]))
    of_list = theta["expertise"][shard["annotator.code"]]
    score = item_scores(shard, theta)
    lists = (shard["unit.nodes"], shard["unit.lists"], shard["list.rows"], shard["list.owner"], shard["item.place"])
    states = (key, shard["unit.hash"], chain, order, kept, distance)
    grade = shard["node.gold"]
    if top_k:
        sums = kernels.infer_top(*lists, of_list, grade, shard["node.higher"], score, top_k, steps, *states)
    else:
        known = (shard["item.level"], of_list, grade, gold_pairs(shard))
        sums = kernels.infer(*lists, *known, score, exact, steps, *states)
    stats = {name: scalar(value) for name, value in zip(SUMS, sums, strict=True)}
    return {"chain": chain, "order": order, "kept": kept}, {**stats, **by_annotator(shard, distance=distance)}


def best_likelihood(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """ListMLE on the most probable rankings: value and gradient of the weights."""
    score = item_scores(shard, theta)
    residual = np.zeros(len(score))
    nodes = shard["unit.nodes"]
    included = local.get("included", np.diff(nodes))
    stages = np.minimum(stages_of(shard, int(theta["top_k"])), included)
    value = ranking_likelihood(nodes, local["order"], stages, included, score, residual)
    return None, {"value": scalar(value), "gradient": weight_gradient(shard, theta, residual)}


def posterior_likelihood(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """ListMLE in expectation (19): the posterior is that of the E-step, at `e_step.w` and `e_step.expertise`."""
    exact, _, _, top_k = (int(limit) for limit in theta["limits"])
    score, old = item_scores(shard, theta), item_scores(shard, {**theta, "w": theta["e_step.w"]})
    residual = np.zeros(len(score))
    value = kernels.expected_likelihood(
        shard["unit.nodes"],
        shard["unit.lists"],
        shard["list.rows"],
        shard["list.owner"],
        shard["item.place"],
        shard["item.level"],
        theta["e_step.expertise"][shard["annotator.code"]],
        shard["node.gold"],
        gold_pairs(shard),
        old,
        0 if top_k else exact,
        stages_of(shard, top_k),
        local["kept"],
        score,
        residual,
    )
    return None, {"value": scalar(value), "gradient": weight_gradient(shard, theta, residual)}


def gold_pairs(shard: Record) -> Array:
    return np.stack([shard["gold.unit"], shard["gold.winner"], shard["gold.loser"]])


def better_graded(shard: Record) -> Array:
    """How many items of the same unit gold grades higher, for every node."""
    grade, nodes = shard["node.gold"], shard["unit.nodes"]
    higher = np.zeros(len(grade))
    for unit in np.flatnonzero(np.add.reduceat(~np.isnan(grade), nodes[:-1]) if len(grade) else []):
        here = grade[nodes[unit] : nodes[unit + 1]]
        known = np.sort(here[~np.isnan(here)])
        higher[nodes[unit] : nodes[unit + 1]] = np.where(
            np.isnan(here), 0, len(known) - np.searchsorted(known, here, side="right")
        )
    return higher
