"""Annotators that are rankers: each learned by ListMLE on a share of the features.  [Wu16], section 6.2.1

The rankers learn from every second item of the queries and rank the others, which are what is left of the queries.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from distrank.kernels.plackett_luce import add_by_feature, ranking_likelihood
from distrank.records import Array

if TYPE_CHECKING:
    from distrank.simulate.ltrma import Query

RIDGE = 1e-2  # per query: short lists and many features
CHOICES = 10  # of every list that count


def ranked_by_subsets(
    queries: list[Query], annotators: int, generator: np.random.Generator
) -> tuple[list[Query], list[list[Array]]]:
    """The remaining halves of the queries, and the ranking of each by every annotator."""
    halves = [(_half(query, 0), _half(query, 1)) for query in queries if len(query.items) > 3]
    learning, ranked = [half[0] for half in halves], [half[1] for half in halves]
    features = np.concatenate([query.features for query in learning])
    mean, scale = features.mean(axis=0), features.std(axis=0)
    scale = np.where(scale > 0.0, scale, np.inf)
    labels: list[list[Array]] = [[] for _ in ranked]
    for annotator in range(annotators):
        count = max(round(features.shape[1] * (annotator + 1) / annotators), 1)
        used = np.sort(generator.permutation(features.shape[1])[:count])
        w = _listmle(learning, used, mean, scale)
        for query, given in zip(ranked, labels, strict=True):
            given.append(np.argsort(-(_standard(query, used, mean, scale) @ w), kind="stable"))
    return ranked, labels


def _half(query: Query, first: int) -> Query:
    """Every second item."""
    kept = np.arange(first, len(query.items), 2)
    number = np.full(len(query.items), -1)
    number[kept] = np.arange(len(kept))
    order = number[query.order]
    return replace(
        query,
        items=[query.items[place] for place in kept],
        features=query.features[kept],
        grade=query.grade[kept],
        order=order[order >= 0],
    )


def _standard(query: Query, used: Array, mean: Array, scale: Array) -> Array:
    return np.ascontiguousarray((query.features[:, used] - mean[used]) / scale[used])


def _listmle(queries: list[Query], used: Array, mean: Array, scale: Array) -> Array:
    from scipy.optimize import minimize  # noqa: PLC0415 (takes longer to import than most simulations)

    nodes = np.cumsum([0, *(len(query.items) for query in queries)])
    features = np.concatenate([_standard(query, used, mean, scale) for query in queries])
    order = np.concatenate([query.order + begin for query, begin in zip(queries, nodes[:-1], strict=True)])
    sizes = np.diff(nodes)

    def loss(w: Array) -> tuple[float, Array]:
        residual, gradient = np.zeros(len(features)), np.zeros(len(w))
        value = ranking_likelihood(nodes, order, np.minimum(sizes, CHOICES), sizes, features @ w, residual)
        add_by_feature(features, residual, gradient)
        strength = RIDGE * len(queries)
        return -value + 0.5 * strength * float(w @ w), -gradient + strength * w

    return minimize(loss, np.zeros(len(used)), jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
