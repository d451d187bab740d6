"""Reweighting and remapping of noisy labels, tuned so that a linear ranker does best on graded truth.  [Ustinovskiy16]

    y_r      label features of sample r (one label of one item by one annotator)      `row.y` of the source shards
    x        ranking features of an item, a constant last                             `node.features`
             (of its block, where several rankers are averaged: `extension`)          `block`
    w_r = sigma(y_r . alpha)    weight of a sample                                                            (3)
    l_r = sigma(y_r . beta)     its relevance value                                                           (3)
    b = (X'WX + mu I)^-1 X'Wl   the linear ranker                                                             (6)
    M(b)     mean DCG@k of the target's queries, ranked by x . b

Gradient ascent on M (Algorithm 1). With Z = X'WX + mu I and Z z = dM/db (one solve), (8) and (9) become sums over
samples:

    dM/dalpha_j = sum_r (x_r . z) (l_r - x_r . b) sigma'(y_r . alpha) y_rj
    dM/dbeta_j  = sum_r (x_r . z) w_r sigma'(y_r . beta) y_rj

Three rounds per step: dM/db on the target, these sums on the source, X'WX and X'Wl on the source. X'WX is by BLAS.

`scale_free`: DCG does not change when scores are shifted or multiplied, but its smoothing does: every change that
spreads the scores looks good, until all relevance values are 1. So dM/db is taken of M(b / tau), tau being the standard
deviation of the target's scores within queries: the derivative then has no part along b.

Deviation: the first step moves the parameter with the largest derivative by `step_size`, which fixes the epsilon of the
paper (unreported there) for all steps; mu is `ridge` times the weight of all samples at the start, so that it means
the same for any number of samples.

[Ustinovskiy16] Ustinovskiy, Fedorova, Gusev, Serdyukov: An optimization framework for remapping and reweighting noisy
relevance labels. SIGIR 2016.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from distrank.contract import Info, Model, Run, Tables, Traits
from distrank.kernels import lambdarank, remapping
from distrank.records import Array, Record, scalar
from distrank.settings import setting

Method: TypeAlias = Literal["reweight", "remap", "both"]
SOURCE, TARGET = "source", "target"
TRAIN, VALIDATION = 0, 1  # parts of the target's queries: `unit.part`
_BLOCK = 4096  # items whose features are multiplied at a time


@dataclass(frozen=True)
class RemapSettings:
    """Settings of `reweight`, `remap` and `both`."""

    ridge: float = setting(1e-3, "L2 regularization mu of the ranker, per unit of sample weight", above=0.0)
    measure_at: int = setting(10, "k of the DCG@k that is optimised", low=1)
    scale_free: bool = setting(True, "leave out what only spreads the scores, which DCG does not see")
    steps: int = setting(50, "steps of gradient ascent at most", low=1)
    step_size: float = setting(0.3, "length of the first step in its largest coordinate", above=0.0)
    patience: int = setting(10, "stop after this many steps without a gain on the validation part", low=1)


class Remapping(Model):
    """Algorithm 1; the best step by DCG on the validation queries is what it ends with."""

    name = "both"
    title = "Reweighting and remapping of noisy labels"
    paper = "Ustinovskiy et al., SIGIR 2016"
    form = "ratings"
    accepts = ("ratings",)
    split = "never"
    estimates = "weights and relevance values of labels, a ranker"
    traits = Traits(monotone=False)
    diagnostics = ("objective", "validation")
    Settings = RemapSettings

    def __init__(self, settings: RemapSettings, start: Array, method: Method = "both") -> None:
        """`start` is beta before the first step; alpha is 0."""
        super().__init__(settings)
        self.start, self.method = start, method

    @property
    def max_iterations(self) -> int:
        return int(self.settings.steps)

    def begin(self, run: Run, info: Info) -> Record:
        facts = run(describe_target, {}, on=TARGET, keep=False)
        theta: Record = {
            "alpha": np.zeros(len(self.start)),
            "beta": self.start,
            "mu": scalar(self.settings.ridge * 0.5 * info.judgments),
            "spread": facts["spread"] / max(float(facts["items"]), 1.0),
            "queries": facts["queries"],
            "step": scalar(0),
            "rate": scalar(0.0),
            "converged": scalar(False),
        }
        theta |= self._ranker(run, theta)
        theta |= self._measured(run, theta)
        return {**theta, **_best(theta), "stale": scalar(0)}

    def iterate(self, run: Run, theta: Record) -> Record:
        theta = {**theta, **self._ascended(run, theta), "step": scalar(int(theta["step"]) + 1)}
        theta |= self._ranker(run, theta)
        theta |= self._measured(run, theta)
        if float(theta["validation"]) > float(theta["best.validation"]):
            theta |= {**_best(theta), "stale": scalar(0)}
        else:
            theta["stale"] = scalar(int(theta["stale"]) + 1)
        done = int(theta["stale"]) >= self.settings.patience or int(theta["step"]) >= self.settings.steps
        return {**theta, "converged": scalar(done)}

    def finalize(self, shard: Record, local: Record, theta: Record) -> Tables:  # noqa: ARG002
        """There are no tables by unit: what is learned is in theta."""
        return {}

    def _ranker(self, run: Run, theta: Record) -> Record:
        """Equation 6."""
        sums = run(normal_equations, _shown(theta, "alpha", "beta"), on=SOURCE, keep=False)
        return {"ranker": solve(sums["xwx"], float(theta["mu"]), sums["xwl"].reshape(-1)), "xwx": sums["xwx"]}

    def _measured(self, run: Run, theta: Record) -> Record:
        """DCG of both parts of the target, and dM/db of the first."""
        scale = self._scale(theta)
        shown = {**_shown(theta, "ranker"), "cut": scalar(self.settings.measure_at), "scale": scalar(scale)}
        sums = run(measure, shown, on=TARGET, keep=False)
        count = np.maximum(theta["queries"], 1.0)
        slope = sums["slope"] / count[TRAIN]
        if self.settings.scale_free:
            b, spread = theta["ranker"], theta["spread"] @ theta["ranker"]
            slope = scale * (slope - (slope @ b) / max(float(b @ spread), 1e-300) * spread)
        return {
            "slope": slope,
            "objective": scalar(float(sums["dcg"][TRAIN] / count[TRAIN])),
            "validation": scalar(float(sums["dcg"][VALIDATION] / count[VALIDATION])),
        }

    def _scale(self, theta: Record) -> float:
        """1 / tau: what the scores are multiplied by before they are smoothed."""
        if not self.settings.scale_free:
            return 1.0
        variance = float(theta["ranker"] @ (theta["spread"] @ theta["ranker"]))
        return 1.0 / math.sqrt(variance) if variance > 1e-200 else 1.0

    def _ascended(self, run: Run, theta: Record) -> Record:
        """alpha and beta after a step along the gradient."""
        adjoint = solve(theta["xwx"], float(theta["mu"]), theta["slope"])
        shown = {**_shown(theta, "alpha", "beta", "ranker"), "adjoint": adjoint}
        sums = run(differentiate, shown, on=SOURCE, keep=False)
        up_alpha = sums["alpha"] if self.method != "remap" else np.zeros_like(sums["alpha"])
        up_beta = sums["beta"] if self.method != "reweight" else np.zeros_like(sums["beta"])
        rate = float(theta["rate"])
        if rate == 0.0:
            largest = max(float(np.abs(up_alpha).max()), float(np.abs(up_beta).max()))
            rate = self.settings.step_size / largest if largest > 0.0 else 1.0
        return {
            "alpha": theta["alpha"] + rate * up_alpha,
            "beta": theta["beta"] + rate * up_beta,
            "rate": scalar(rate),
        }


def solve(xwx: Array, mu: float, right: Array) -> Array:
    """(X'WX + mu I)^-1 applied to a vector, block by block: X'WX has none but the blocks on its diagonal."""
    matrix = xwx + mu * np.eye(xwx.shape[1])
    return np.linalg.solve(matrix, right.reshape(len(xwx), -1, 1)).reshape(-1)


def describe_target(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """A step: queries of either part; of the first, items and the scatter of their features within queries."""
    x, nodes = shard["node.features"], shard["unit.nodes"]
    part = shard["unit.part"]
    sizes = np.diff(nodes)
    unit = np.repeat(np.arange(len(sizes)), sizes)
    used = part[unit] == TRAIN
    mean = np.zeros((len(sizes), x.shape[1]))
    np.add.at(mean, unit, x)
    mean /= np.maximum(sizes, 1)[:, None]
    spread = np.zeros((x.shape[1], x.shape[1]))
    for begin in range(0, len(x), _BLOCK):
        span = slice(begin, begin + _BLOCK)
        centred = (x[span] - mean[unit[span]])[used[span]]
        spread += centred.T @ centred
    queries = np.bincount(part, minlength=2).astype(float)
    return None, {"queries": queries, "spread": spread, "items": np.asarray(float(used.sum()))}


def normal_equations(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """A step: X'WX and X'Wl, the samples of an item summed first. By BLAS, on one thread."""
    x = shard["node.features"]
    weight, label = np.zeros(len(x)), np.zeros(len(x))
    remapping.item_sums(*_samples(shard, theta), weight, label)
    block, blocks = int(shard["block"]), int(shard["blocks"])
    xwx, xwl = np.zeros((blocks, x.shape[1], x.shape[1])), np.zeros((blocks, x.shape[1]))
    for begin in range(0, len(x), _BLOCK):
        span = slice(begin, begin + _BLOCK)
        scaled = x[span] * np.sqrt(weight[span])[:, None]
        xwx[block] += scaled.T @ scaled
    xwl[block] = label @ x
    return None, {"xwx": xwx, "xwl": xwl}


def measure(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """A step: DCG of the queries of either part, and the LambdaRank gradient of the first in b."""
    x, nodes, part, cut = shard["node.features"], shard["unit.nodes"], shard["unit.part"], int(theta["cut"])
    score, gain = float(theta["scale"]) * (x @ theta["ranker"]), shard["node.gain"]
    found, gradient = np.empty(len(nodes) - 1), np.empty(len(x))
    lambdarank.dcg(nodes, gain, score, cut, found)
    lambdarank.lambda_gradient(nodes, gain, score, cut, (part == TRAIN).astype(float), gradient)
    return None, {"dcg": np.bincount(part, found, minlength=2), "slope": gradient @ x}


def differentiate(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """A step: the derivatives in alpha and beta."""
    x = shard["node.features"]
    up_alpha, up_beta = np.zeros(len(theta["alpha"])), np.zeros(len(theta["beta"]))
    begin = int(shard["block"]) * x.shape[1]
    own = slice(begin, begin + x.shape[1])
    pull, fitted = x @ theta["adjoint"][own], x @ theta["ranker"][own]
    remapping.adjoint_sums(*_samples(shard, theta), pull, fitted, up_alpha, up_beta)
    return None, {"alpha": up_alpha, "beta": up_beta}


def _samples(shard: Record, theta: Record) -> tuple[Array, Array, Array, Array, Array | None]:
    """Item, label features, parameters, and relevance values where they are given (`row.label`)."""
    return shard["row.item"], shard["row.y"], theta["alpha"], theta["beta"], shard.get("row.label")


def _shown(theta: Record, *names: str) -> Record:
    return {name: theta[name] for name in names}


def _best(theta: Record) -> Record:
    """What is remembered of the best step."""
    return {f"best.{name}": theta[name] for name in ("alpha", "beta", "ranker", "objective", "validation", "step")}
