"""Equations 5 to 9: the adjoint against finite differences, and the steps against dense algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from distrank.contract import Info
from distrank.kernels import lambdarank
from distrank.remap.model import (
    SOURCE,
    TARGET,
    Remapping,
    RemapSettings,
    differentiate,
    measure,
    normal_equations,
    solve,
)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def source(seed: int, items: int = 40, samples: int = 120, features: int = 6, labels: int = 5) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "block": np.asarray(0),
        "blocks": np.asarray(1),
        "node.features": rng.normal(size=(items, features)),
        "row.item": rng.integers(items, size=samples).astype(np.uint32),
        "row.y": rng.normal(size=(samples, labels)),
    }


def target(seed: int, queries: int = 12, per_query: int = 6, features: int = 6) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "unit.nodes": np.arange(0, queries * per_query + 1, per_query).astype(np.int64),
        "unit.part": (np.arange(queries) % 3 == 0).astype(np.int64),
        "node.features": rng.normal(size=(queries * per_query, features)),
        "node.gain": 2.0 ** rng.integers(0, 4, queries * per_query) - 1.0,
    }


def literal_ranker(shard: dict[str, np.ndarray], alpha: np.ndarray, beta: np.ndarray, mu: float) -> np.ndarray:
    """Equation 6 with one row per sample and W written out."""
    x, y = shard["node.features"][shard["row.item"]], shard["row.y"]
    w = np.diag(sigmoid(y @ alpha))
    return np.linalg.solve(x.T @ w @ x + mu * np.eye(x.shape[1]), x.T @ w @ sigmoid(y @ beta))


def ranker(shard: dict[str, np.ndarray], alpha: np.ndarray, beta: np.ndarray, mu: float) -> tuple[np.ndarray, Any]:
    _, sums = normal_equations(shard, {}, {"alpha": alpha, "beta": beta}, np.zeros(2))
    return solve(sums["xwx"], mu, sums["xwl"].reshape(-1)), sums


def test_samples_of_an_item_are_summed_first() -> None:
    shard = source(1)
    rng = np.random.default_rng(2)
    alpha, beta = rng.normal(size=(2, 5))
    np.testing.assert_allclose(ranker(shard, alpha, beta, 0.3)[0], literal_ranker(shard, alpha, beta, 0.3), atol=1e-12)


def test_the_adjoint_is_the_derivative_of_the_ranker() -> None:
    """For M = c . b the chain 5-9 is exact: below 1e-8 by central differences."""
    shard = source(3)
    rng = np.random.default_rng(4)
    alpha, beta = rng.normal(size=(2, 5))
    direction, mu, h = rng.normal(size=6), 0.5, 1e-5
    b, sums = ranker(shard, alpha, beta, mu)
    theta = {"alpha": alpha, "beta": beta, "ranker": b, "adjoint": solve(sums["xwx"], mu, direction)}
    _, found = differentiate(shard, {}, theta, np.zeros(2))
    for j in range(5):
        step = h * np.eye(5)[j]
        by_alpha = literal_ranker(shard, alpha + step, beta, mu) - literal_ranker(shard, alpha - step, beta, mu)
        by_beta = literal_ranker(shard, alpha, beta + step, mu) - literal_ranker(shard, alpha, beta - step, mu)
        assert found["alpha"][j] == pytest.approx(direction @ by_alpha / (2 * h), abs=1e-8)
        assert found["beta"][j] == pytest.approx(direction @ by_beta / (2 * h), abs=1e-8)


def test_dcg_and_its_gradient_are_literal() -> None:
    shard = target(5)
    rng = np.random.default_rng(6)
    b, cut = rng.normal(size=6), 3
    _, found = measure(shard, {}, {"ranker": b, "cut": np.asarray(cut), "scale": np.asarray(1.0)}, np.zeros(2))
    dcg, slope = np.zeros(2), np.zeros(6)
    for q in range(12):
        x, gain = shard["node.features"][6 * q : 6 * q + 6], shard["node.gain"][6 * q : 6 * q + 6]
        score = x @ b
        rank = np.empty(6, int)
        rank[np.argsort(-score, kind="stable")] = np.arange(6)
        discount = np.where(rank < cut, 1.0 / np.log2(rank + 2.0), 0.0)
        dcg[shard["unit.part"][q]] += gain @ discount
        if shard["unit.part"][q] == 0:
            for i in range(6):
                for j in range(6):
                    if gain[i] > gain[j]:
                        force = abs((gain[i] - gain[j]) * (discount[i] - discount[j])) * sigmoid(score[j] - score[i])
                        slope += force * (x[i] - x[j])
    np.testing.assert_allclose(found["dcg"], dcg, rtol=1e-12)
    np.testing.assert_allclose(found["slope"], slope, rtol=1e-10)


def test_equal_scores_rank_in_order() -> None:
    found = np.empty(1)
    lambdarank.dcg(np.array([0, 3]), np.array([0.0, 3.0, 1.0]), np.zeros(3), 2, found)
    assert found[0] == pytest.approx(3.0 / np.log2(3.0))


def run_locally(shards: dict[str, Any]) -> Any:
    def run(step: Any, theta: Any, *, on: str, keep: bool) -> Any:
        return step(shards[on], {}, theta, np.zeros(2))[1]

    return run


def measured(settings: RemapSettings, b: np.ndarray, shards: dict[str, Any]) -> dict[str, Any]:
    model, run = Remapping(settings, np.zeros(5)), run_locally(shards)
    begun = model.begin(run, Info(120, 1, 40, 3, np.zeros(3), {SOURCE: 1, TARGET: 1}))
    return model._measured(run, {**begun, "ranker": b})


def test_a_scale_free_gradient_has_no_part_along_the_ranker() -> None:
    shards = {SOURCE: source(7), TARGET: target(8)}
    b = np.random.default_rng(9).normal(size=6)
    free = measured(RemapSettings(scale_free=True), b, shards)["slope"]
    assert abs(free @ b) < 1e-12 * np.linalg.norm(free) * np.linalg.norm(b)
    assert abs(measured(RemapSettings(scale_free=False), b, shards)["slope"] @ b) > 1e-3


def test_the_scale_of_the_ranker_does_not_change_what_scale_free_sees() -> None:
    shards = {SOURCE: source(7), TARGET: target(8)}
    b = np.random.default_rng(10).normal(size=6)
    one, ten = (measured(RemapSettings(scale_free=True), factor * b, shards)["slope"] for factor in (1.0, 10.0))
    np.testing.assert_allclose(10.0 * ten, one, rtol=1e-9)
