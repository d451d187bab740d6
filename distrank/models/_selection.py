"""Settings chosen on gold: a rough fit with every candidate, then a plain fit with the best.

A candidate is a strength of the virtual games and, where a model has several, a start. The one whose scores have most
gold pairs in the true order wins; among equals the one whose strength is nearest to the default, from the first start.
The fit that follows is the fit that these settings would have given by themselves, byte for byte.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from distrank.records import Array, Record, scalar

AUTO = "auto"
STRENGTHS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
DEFAULT = 0.5
ROUGH = 1e-8  # tolerance of the fits to choose from: their order is settled long before the last digits are


class Candidate(NamedTuple):
    """One choice."""

    start: int
    strength: float


def candidates(starts: int) -> list[Candidate]:
    """Every strength from every start."""
    return [Candidate(start, strength) for start in range(starts) for strength in STRENGTHS]


def fresh_trials(starts: int) -> Record:
    """Theta's entries before the first trial."""
    return {"trial": scalar(0), "trial.agreed": np.full(len(candidates(starts)), -1)}


def is_choosing(theta: Record) -> bool:
    """Whether the fit at hand is one to choose from."""
    return "trial" in theta and int(theta["trial"]) < len(theta["trial.agreed"])


def with_trial(theta: Record, agreed: int) -> Record:
    """Theta after a trial, whose scores agree with this many gold pairs."""
    found = theta["trial.agreed"].copy()
    found[int(theta["trial"])] = agreed
    return {**theta, "trial": theta["trial"] + 1, "trial.agreed": found}


def current(theta: Record) -> Candidate:
    """The candidate to fit now: the next one, or the best once all were tried."""
    found: Array = theta["trial.agreed"]
    choices = candidates(len(found) // len(STRENGTHS))
    if is_choosing(theta):
        return choices[int(theta["trial"])]

    def rank(place: int) -> tuple[int, float, int]:
        return -int(found[place]), abs(math.log(choices[place].strength / DEFAULT)), choices[place].start

    return choices[min(range(len(choices)), key=rank)]
