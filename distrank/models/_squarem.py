"""SQUAREM: extrapolation of an EM map that never lets the objective fall.  [Varadhan08]

EM maps a point to an image whose objective is no lower, in steps that shrink slowly where much is hidden. From a point
t0, its image t1 and t2, the image of t1, the path is followed further, to t0 + 2 l r + l^2 v with r = t1 - t0,
v = (t2 - t1) - r and l = |r| / |v|. If the objective there is below that of t1, the iteration ends at t2, as plain EM
would.

[Varadhan08] Varadhan, Roland: Simple and globally convergent methods for accelerating the convergence of any EM
algorithm. Scandinavian Journal of Statistics 35, 2008.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from distrank.records import Record


class Evaluated(NamedTuple):
    """A point whose objective is known, what EM makes of it, and what else its evaluation told."""

    point: Record
    image: Record
    objective: float
    facts: Record


Evaluate: TypeAlias = Callable[[Record, bool], Evaluated]  # (point, whether the last point was rejected)
Project: TypeAlias = Callable[[Record, Record], Record]  # (extrapolated point, a valid point) -> a valid point


def squarem(start: Evaluated, evaluate: Evaluate, project: Project) -> Evaluated:
    """One iteration of two evaluations, or three where the extrapolation was too bold."""
    first = evaluate(start.image, False)
    if first.objective < start.objective:  # the end of what sums of floats can tell
        return start
    step = {name: first.point[name] - start.point[name] for name in start.point}
    bend = {name: first.image[name] - first.point[name] - step[name] for name in start.point}
    length = math.sqrt(_square(step) / max(_square(bend), 1e-300))
    rejected = False
    if 1.0 < length < math.inf:
        far = {n: start.point[n] + 2.0 * length * step[n] + length * length * bend[n] for n in start.point}
        trial = evaluate(project(far, first.image), False)
        if trial.objective >= first.objective:
            return trial
        rejected = True
    second = evaluate(first.image, rejected)
    return second if second.objective >= first.objective else first


def _square(record: Record) -> float:
    return math.fsum(float((array * array).sum()) for array in record.values())
