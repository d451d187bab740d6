"""The one loop: iterate until the model says that it converged, keep the trace, write checkpoints.

`fit` is called directly by the local engine and inside the parameter actor on Ray. It holds theta; rows never pass
through it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from distrank.contract import UNITS, Info, Model, Step
from distrank.engine.base import LocalReader, Placement, Report
from distrank.faults import fault_point
from distrank.kernels.random import round_key
from distrank.records import Record, frozen


@dataclass(frozen=True)
class Fit:
    """What a loop ends with."""

    theta: Record
    converged: bool
    iterations: int
    trace: list[dict[str, float]]  # the model's diagnostics after `begin` (iteration 0) and after every iteration
    facts: dict[str, Any] = field(default_factory=dict)  # how it ran: rounds, workers, seconds per stage
    results: list[Any] = field(default_factory=list)  # what `finish` returned
    evidence: Any = None  # what `collect` returned


@dataclass(frozen=True)
class Checkpoint:
    """Everything that the loop needs to go on as if it had never stopped."""

    iteration: int
    theta: Record
    trace: list[dict[str, float]]
    read_local: LocalReader


class CheckpointStore(Protocol):
    """Where checkpoints go; handed in, because the loop knows nothing of folders."""

    def due(self, iteration: int) -> bool: ...

    def save(
        self, placement: Placement, iteration: int, theta: Record, trace: list[dict[str, float]]
    ) -> Checkpoint: ...

    def newest(self) -> Checkpoint | None: ...


class Rounds:
    """The `Run` that a model sees: counts the rounds of an iteration and gives each its key."""

    def __init__(self, placement: Placement, seed: int) -> None:
        self.placement, self.seed = placement, seed
        self.iteration, self.number = 0, 0

    def begin_iteration(self, iteration: int) -> None:
        self.iteration, self.number = iteration, 0

    def __call__(self, step: Step, theta: Record, *, on: str = UNITS, keep: bool = True) -> Record:
        self.number += 1
        if not self.placement.shard_counts.get(on):
            return {}
        key = round_key(self.seed, 0, self.iteration, self.number, step.__name__)
        return self.placement.round(step, theta, key, on=on, keep=keep)


def fit(
    placement: Placement,
    report: Report,
    *,
    model: Model,
    info: Info,
    seed: int = 0,
    checkpoints: CheckpointStore | None = None,
    resume: bool = False,
    finish: Callable[[Placement, Record], list[Any]] | None = None,
    collect: Callable[[Placement, Record], Any] | None = None,
) -> Fit:
    """Fit the model on the placed shards; `finish` and `collect` run beside the parameters once theta is final."""
    clock = time.perf_counter()
    rounds = Rounds(placement, seed)
    found = checkpoints.newest() if checkpoints is not None and (resume or placement.attempt) else None
    if found is not None:
        iteration, theta, trace = found.iteration, found.theta, list(found.trace)
        placement.restore(found.read_local)
        report({"stage": "fit", "resumed": iteration})
    else:
        iteration = 0
        theta = _checked(model, model.begin(rounds, info), iteration)
        trace = [_entry(model, theta, iteration)]
        report({"stage": "fit", **trace[-1]})
    while not bool(theta["converged"]) and iteration < model.max_iterations:
        iteration += 1
        rounds.begin_iteration(iteration)
        theta = _checked(model, model.iterate(rounds, theta), iteration)
        trace.append(_entry(model, theta, iteration))
        report({"stage": "fit", **trace[-1], "limit": model.max_iterations})
        fault_point(f"fit:iteration:{iteration}")
        if checkpoints is not None and checkpoints.due(iteration):
            saved = checkpoints.save(placement, iteration, theta, trace)
            placement.restore(saved.read_local)
            fault_point(f"fit:checkpoint:{iteration}")
    converged = bool(theta["converged"])
    rounds.begin_iteration(iteration + 1)
    theta = frozen(model.conclude(rounds, theta))
    seconds = {"fit": time.perf_counter() - clock}
    clock = time.perf_counter()
    results = finish(placement, theta) if finish is not None else []
    evidence = collect(placement, theta) if collect is not None else None
    seconds["finalize"] = time.perf_counter() - clock
    facts = {**placement.facts(), "resumed_from": found.iteration if found else None, "seconds": seconds}
    return Fit(theta, converged, iteration, trace, facts, results, evidence)


def _checked(model: Model, theta: Record, iteration: int) -> Record:
    """Theta as it must be: frozen, with an objective that is a number wherever the model has one."""
    theta = frozen(theta)
    for name in ("objective", "converged"):
        if name not in theta or theta[name].ndim != 0:
            raise TypeError(f"{model.name}: theta must hold the 0-d entry {name!r}")
    if model.traits.iterative and not math.isfinite(float(theta["objective"])):
        raise FloatingPointError(f"{model.name}: the objective is {theta['objective']} at iteration {iteration}")
    return theta


def _entry(model: Model, theta: Record, iteration: int) -> dict[str, float]:
    values = {name: float(theta[name]) for name in model.diagnostics if name in theta}
    return {"iteration": iteration, **{name: value for name, value in values.items() if not np.isnan(value)}}
