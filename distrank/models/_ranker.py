"""A linear ranker on standardised features, fitted by L-BFGS whose gradients are summed over shards.

    score of an item = sum over features of w_f (x_f - mean_f) / deviation_f

    objective(w) = sum over queries of ln P(ranking | scores) - queries ridge |w|^2 / 2

The ridge is per query, so that it means the same for ten queries and for ten million. A feature that never varies gets
no weight. What L-BFGS knows of the curvature is in theta and outlives an iteration: the points and gradients of the
last steps (`kernels.lbfgs`). Where the rankings change, the point is entered again with its new gradient, a pair
without a step that is never used, and the older pairs still tell the curvature.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from distrank.contract import Info, Learned, Run
from distrank.errors import UsageError
from distrank.kernels import lbfgs
from distrank.kernels.plackett_luce import add_by_feature, add_squares, scores_of
from distrank.records import Array, Record, frozen, scalar

FEATURES = "node.features"
EVALUATIONS = 60  # of the objective in one go
FARTHEST = 3.0  # no weight moves by more in one step
GAIN = 1e-9  # a step that promises less per query is not made
SUFFICIENT = 1e-4


class Evaluate(Protocol):
    """The objective without the ridge at the weights in theta, and its gradient in the weights."""

    def __call__(self, run: Run, theta: Record) -> tuple[float, Array]: ...


def require_features(info: Info, method: str) -> None:
    if not info.features:
        raise UsageError(f"{method} learns a ranker and needs the features of the items (--features)")


def fresh_ranker(run: Run, info: Info) -> Record:
    """Weights of 0, and the scale of every feature."""
    count = len(info.features)
    found = run(sum_features, {})
    mean = found["sum"] / max(float(found["count"]), 1.0)
    spread = run(sum_squares, {"mean": mean})["squares"] / max(float(found["count"]), 1.0)
    deviation = np.sqrt(spread)
    varies = deviation > 1e-12 * (1.0 + np.abs(mean))
    return {
        "w": np.zeros(count),
        "w.points": np.zeros((lbfgs.PAIRS + 1, count)),
        "w.gradients": np.zeros((lbfgs.PAIRS + 1, count)),
        "w.pairs": scalar(0),
        "mean": mean,
        "scale": np.where(varies, 1.0 / np.where(varies, deviation, 1.0), 0.0),
        "nodes": found["count"],
        "evaluations": scalar(0),
    }


def shown_ranker(theta: Record) -> Record:
    """What a step needs to score items."""
    return {name: theta[name] for name in ("w", "mean", "scale")}


def item_scores(shard: Record, theta: Record) -> Array:
    """The score of every node."""
    coefficients = theta["w"] * theta["scale"]
    score = np.zeros(int(shard["unit.nodes"][-1]))
    scores_of(shard[FEATURES], coefficients, lbfgs.dot(coefficients, theta["mean"]), score)
    return score


def weight_gradient(shard: Record, theta: Record, residual: Array) -> Array:
    """The gradient in w from that in the scores, whose sum over every list is 0."""
    gradient = np.zeros(len(theta["w"]))
    add_by_feature(shard[FEATURES], residual, gradient)
    return gradient * theta["scale"]


def penalty(theta: Record, ridge: float, queries: int) -> float:
    return 0.5 * ridge * queries * lbfgs.dot(theta["w"], theta["w"])


def trained(
    run: Run, theta: Record, evaluate: Evaluate, ridge: float, queries: int, steps: int = EVALUATIONS
) -> tuple[Record, float, bool]:
    """Theta with better weights, their objective, and whether they are as good as they get; at most so many steps."""
    strength = ridge * queries
    inverse = np.full(len(theta["w"]), 1.0 / max(float(theta["nodes"]) + strength, 1.0))
    left = EVALUATIONS

    def at(w: Array) -> tuple[float, Array]:
        nonlocal left
        left -= 1
        value, gradient = evaluate(run, {**theta, "w": w})
        return value - 0.5 * strength * lbfgs.dot(w, w), gradient - strength * w

    value, gradient = at(theta["w"])
    memory = _Memory(theta, theta["w"], gradient)
    done = False
    while left > 0 and steps > 0 and not done:
        steps -= 1
        w = memory.points[-1]
        goal, slope = memory.proposal(inverse)
        done = 0.5 * slope <= GAIN * queries
        if done:
            break
        step = goal - w
        while left > 0:
            found, gradient = at(w + step)
            if found >= value + SUFFICIENT * lbfgs.dot(step, memory.gradients[-1]):
                value = found
                memory.add(w + step, gradient)
                break
            step *= 0.3
            if np.abs(step).max() <= 1e-12 * (1.0 + np.abs(w).max()):
                done = True  # no step climbs: the objective is at its rounding
                break
    theta = {**theta, **memory.record(), "evaluations": theta["evaluations"] + EVALUATIONS - left}
    return theta, value, done


class _Memory:
    """The last points and gradients, oldest first."""

    def __init__(self, theta: Record, w: Array, gradient: Array) -> None:
        self.points, self.gradients = list(theta["w.points"]), list(theta["w.gradients"])
        self.pairs = int(theta["w.pairs"])
        self.add(w, gradient)
        if not self.points[-2].any() and not self.gradients[-2].any():
            self.pairs = 0  # the very first point has none before it

    def add(self, w: Array, gradient: Array) -> None:
        self.points = [*self.points[1:], w]
        self.gradients = [*self.gradients[1:], gradient]
        self.pairs = min(self.pairs + 1, lbfgs.PAIRS)

    def proposal(self, inverse: Array) -> tuple[Array, float]:
        """The next point and how much the gradient promises on the way."""
        vectors = enumerate((*self.points, *self.gradients))
        path = tuple(frozen({str(place): np.ascontiguousarray(vector) for place, vector in vectors}).values())
        coefficients, slope = lbfgs.direction(lbfgs.inner_products(path, inverse), self.pairs)
        return lbfgs.moved(path, inverse, coefficients, FARTHEST), float(slope)

    def record(self) -> dict[str, Any]:
        return {
            "w": self.points[-1],
            "w.points": np.stack(self.points),
            "w.gradients": np.stack(self.gradients),
            "w.pairs": scalar(self.pairs),
        }


def learned_ranker(theta: Record, info: Info) -> Learned:
    """What `distrank score` needs: coefficients of the features as they come, and a shift."""
    coefficients = theta["w"] * theta["scale"]
    shift = float(coefficients @ theta["mean"])
    return Learned(
        parameters={"coefficients": coefficients, "shift": np.asarray(shift), "w": theta["w"]},
        facts={"ranker": "linear", "features": list(info.features)},
    )


def ranker_warnings(theta: Record, info: Info) -> list[str]:
    constant = [name for name, scale in zip(info.features, theta["scale"], strict=True) if scale == 0.0]
    if not constant:
        return []
    shown = ", ".join(constant[:5])
    return [f"{len(constant):,} of {len(info.features):,} features never vary and get no weight: {shown}"]


def sum_features(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """A step: sums of all features."""
    features = shard[FEATURES]
    total = np.zeros(features.shape[1])
    add_by_feature(features, np.ones(len(features)), total)
    return None, {"sum": total, "count": scalar(float(len(features)))}


def sum_squares(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """A step: sums of squared differences from the mean."""
    total = np.zeros(len(theta["mean"]))
    add_squares(shard[FEATURES], theta["mean"], total)
    return None, {"squares": total}
