"""Scores that climb while the parameter of every annotator is kept at its maximum for them.

The objective is concave in every annotator's parameter alone (`quality` in theta: eta of Crowd-BT, the scale g of
Variance-BT), so it is found for all annotators at once by Newton's method within bounds, a round each.
"""

from __future__ import annotations

import math

import numpy as np

from distrank.contract import Info, Run
from distrank.kernels.laws import SCALED
from distrank.kernels.lbfgs import dot
from distrank.models._ascent import Control, ascend, evaluation, judgement
from distrank.models._priors import room
from distrank.models.bradley_terry import BradleyTerry
from distrank.records import Array, Record, scalar

STARTED = 1e-6  # the scores fit the start once they are this near to its optimum, relative to the objective
INEXACT = 1.0  # a parameter is near enough to its maximum when what is left is this share of what the scores promise
NEWTON_ROUNDS = 100


class ProfileModel(BradleyTerry):
    """Fits the scores with every annotator at `start` in theta, then both; `released` says which of the two."""

    def begin_fit(self, run: Run, theta: Record, start: int, strength: float) -> Record:
        """Theta at the first scores and one of `starts`; parameters that are all 1 need no place in it."""
        theta = {name: value for name, value in theta.items() if name != "quality"}
        theta |= {"start": theta["starts"][start], "released": scalar(False)}
        if self.profiles and not (theta["start"] == 1.0).all():
            theta["quality"] = theta["start"]
        theta = super().begin_fit(run, theta, start, strength)
        if self.profiles and "split.start" in theta:  # the scores of an earlier run fit its annotators already
            theta = self.checked(release(run, theta))
        return theta

    @property
    def profiles(self) -> bool:
        """Whether the annotators' parameters are fitted at all."""
        return True

    def climbed(self, run: Run, theta: Record) -> Record:
        if bool(theta["released"]):
            return self.checked(ascend(run, theta, profile))
        if self.profiles and float(theta["decrement"]) <= STARTED * abs(float(theta["objective"])):
            return self.checked(release(run, theta))
        return self.checked(ascend(run, theta))

    def conclude(self, run: Run, theta: Record) -> Record:
        if self.profiles and not bool(theta["released"]) and self.settings.interval is not None:
            # stopped before the annotators were released: how sure they are is asked at their start
            theta = judgement(run, {**theta, "quality": theta["start"]}, None)
        return super().conclude(run, theta)

    def checked(self, theta: Record) -> Record:
        """Distances over scores and annotators together; not converged before the annotators were released."""
        theta = super().checked(theta)
        if not self.profiles:
            return theta
        if not bool(theta["released"]):
            return {**theta, "converged": scalar(False)}
        slope = projected(theta)
        norm = math.hypot(float(theta["gradient"]), math.sqrt(dot(slope, slope)))
        distance = float(theta["decrement"]) + 0.5 * dot(newton_gains(theta), np.ones(len(slope)))
        near = scalar(self.is_near(theta, distance))
        return {**theta, "gradient": scalar(norm), "decrement": scalar(distance), "converged": near}


def earlier_or_one(info: Info, column: str) -> Array:
    """What an earlier run found for every annotator; 1 for those that it did not know."""
    known = info.start.annotators.get(column) if info.start is not None else None
    return np.ones(info.annotators) if known is None else np.where(np.isnan(known), 1.0, known)


def release(run: Run, theta: Record) -> Record:
    """From the start to the whole objective: every annotator at the maximum for the scores at hand."""
    theta = {**theta, "quality": theta["start"], "released": scalar(True), "pairs": scalar(0), "steps": scalar(0)}
    theta = settled(run, theta, None, goal=STARTED * abs(float(theta["objective"])))
    return evaluation(run, theta, None)


def profile(run: Run, theta: Record, control: Control, promised: float) -> Record:
    """Move the scores, then every annotator to the maximum for them; a step from the last derivatives comes first."""
    guess = theta["quality"] + newton_step(theta)
    return settled(run, {**theta, "quality": guess}, control, goal=INEXACT * promised)


def settled(run: Run, theta: Record, control: Control | None, goal: float) -> Record:
    """Newton's method on all annotators at once, each in a shrinking bracket, until at most `goal` is left to gain."""
    theta = judgement(run, theta, control)
    upper = upper_bound(theta)
    low, high = np.full(len(theta["quality"]), -np.inf), np.full(len(theta["quality"]), np.inf)
    before = high
    for _ in range(NEWTON_ROUNDS):
        quality, first, gain = theta["quality"], theta["first"], newton_gains(theta)
        target = quality + newton_step(theta)
        low, high = np.where(first > 0.0, quality, low), np.where(first < 0.0, quality, high)
        # beside a report that is all but impossible, Newton's steps are tiny: there, halve the bracket
        slow = (gain > 0.5 * before) & (target > 0.0) & (target < upper)
        astray = (gain > goal / len(gain)) & (slow | (target <= low) | (target >= high))
        top = np.minimum(high, upper)
        middle = np.where(np.isfinite(top), 0.5 * (np.maximum(low, 0.0) + top), 2.0 * quality)
        theta = {**theta, "quality": np.where(astray, middle, target)}
        if dot(gain, np.ones_like(gain)) <= goal:
            break
        before = gain
        theta = judgement(run, theta, None)
    return theta


def upper_bound(theta: Record) -> float:
    """The bounds of a parameter are 0 and this: a quality is a probability, a scale can be anything."""
    return math.inf if int(theta["law"]) == SCALED else 1.0


def newton_step(theta: Record) -> Array:
    """Newton's step of every annotator, within bounds; none where neither judgments nor beliefs say anything."""
    first, second = theta["first"], theta["second"]
    step = np.divide(first, second, out=np.zeros_like(first), where=second > 0.0)
    return np.clip(step, *room(theta.get("prior"), theta["quality"], upper_bound(theta)))


def newton_gains(theta: Record) -> Array:
    """Twice what Newton's step promises for every annotator."""
    return theta["first"] * newton_step(theta)


def projected(theta: Record) -> Array:
    """The slope where the parameter may follow it: not below 0, not above its upper bound."""
    quality, slope = theta["quality"], theta["first"]
    blocked = ((quality <= 0.0) & (slope < 0.0)) | ((quality >= upper_bound(theta)) & (slope > 0.0))
    return np.where(blocked, 0.0, slope)
