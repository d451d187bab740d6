"""Crowd-BT: Bradley-Terry scores with the quality of every annotator.  [Chen13]

    s_i     score of item i
    eta_k   quality of annotator k: P(the report is the true order of a pair)                               (4)

    P(k reports i over j) = eta_k sigma(s_i - s_j) + (1 - eta_k) sigma(s_j - s_i)                           (5)

The objective (8) is the log-likelihood (6) and the virtual games of `bradley_terry`, for 0 <= eta <= 1. It is concave
in every eta alone, so eta is kept at its maximum for the scores at hand: the scores climb on the profile, by L-BFGS.

Deviation: the paper alternates between s (L-BFGS) and eta (projected Newton), which crawls where both move together.

(eta, s) and (1 - eta, -s) have exactly the same objective: only the start decides between them. The scores are fitted
with eta at its start first; `start=gold` takes the share of right answers on pairs of different relevance in the gold
table, and 1 for annotators without such pairs. Annotators without judgments keep their start.

[Chen13] Chen, Bennett, Collins-Thompson, Horvitz: Pairwise ranking aggregation in a crowdsourced setting. WSDM 2013.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from distrank.contract import PARTS, Info, Run
from distrank.errors import UsageError
from distrank.kernels import preferences as kernels
from distrank.kernels.lbfgs import dot
from distrank.models._ascent import Control, ascend, evaluation, first_evaluation, judgement
from distrank.models._pairwise import by_annotator, rows_of, shares, split_slice
from distrank.models.bradley_terry import BradleyTerry, BradleyTerrySettings
from distrank.records import Array, Record, scalar
from distrank.settings import setting
from distrank.stats import dense

STARTED = 1e-6  # the scores fit the start once they are this near to its optimum, relative to the objective
INEXACT = 1.0  # eta is near enough to its maximum when what is left is this share of what the scores promise
NEWTON_ROUNDS = 100


@dataclass(frozen=True)
class CrowdBTSettings(BradleyTerrySettings):
    """Settings of `crowd-bt`."""

    start: str = setting(
        "ones", "quality to start from: 1, or the share of right answers on gold pairs", choices=("ones", "gold")
    )
    annotator_quality: str = setting(
        "estimate",
        "quality eta of every annotator, or 1 for all (then this is bradley-terry)",
        choices=("estimate", "equal"),
    )


class CrowdBT(BradleyTerry):
    """Maximum of equation 8, by L-BFGS on the scores with eta profiled out."""

    name = "crowd-bt"
    title = "Crowd-BT: Bradley-Terry scores with annotator quality"
    estimates = "scores, annotator quality"
    Settings = CrowdBTSettings

    def begin(self, run: Run, info: Info) -> Record:
        theta = self.empty_theta(info)
        theta["start"], theta["answered"] = np.ones(info.annotators), scalar(0.0)
        theta["released"] = scalar(False)
        if self.settings.annotator_quality == "estimate" and self.settings.start == "gold":
            theta |= gold_start(run, info, theta)
            theta["quality"] = theta["start"]
        return self.checked(first_evaluation(run, theta, self.settings.regularization))

    def iterate(self, run: Run, theta: Record) -> Record:
        if bool(theta["released"]):
            return self.checked(ascend(run, theta, profile))
        if self.settings.annotator_quality == "estimate" and self._started(theta):
            return self.checked(release(run, theta))
        return self.checked(ascend(run, theta))

    def checked(self, theta: Record) -> Record:
        """Distances over scores and quality together; not converged before the quality was released."""
        theta = super().checked(theta)
        if self.settings.annotator_quality == "equal":
            return theta
        if not bool(theta["released"]):
            return {**theta, "converged": scalar(False)}
        slope = projected(theta["quality"], theta["first"])
        norm = math.hypot(float(theta["gradient"]), math.sqrt(dot(slope, slope)))
        distance = float(theta["decrement"]) + 0.5 * dot(newton_gains(theta), np.ones(len(slope)))
        near = distance <= self.settings.tolerance * abs(float(theta["objective"]))
        return {**theta, "gradient": scalar(norm), "decrement": scalar(distance), "converged": scalar(near)}

    def annotators(self, theta: Record, info: Info) -> Record:  # noqa: ARG002 (all that is needed is in theta)
        return {"quality": theta.get("quality", theta["start"]), "agreement": theta["agreement"]}

    def warnings(self, theta: Record, info: Info) -> list[str]:
        found = super().warnings(theta, info)
        if self.settings.annotator_quality == "estimate" and float(theta["answered"]) == 0.0:
            against = float((info.annotator_judgments * (theta.get("quality", theta["start"]) < 0.5)).sum())
            found.append(
                "which end of the rankings is the top rests on most judgments being honest: the reversed scores with "
                "quality 1 - eta fit exactly as well, and only gold can decide (start=gold). "
                f"{against / max(info.judgments, 1):.1%} of the judgments are from annotators with quality below 0.5"
            )
        return found

    def _started(self, theta: Record) -> bool:
        return float(theta["decrement"]) <= STARTED * abs(float(theta["objective"]))


def release(run: Run, theta: Record) -> Record:
    """From the start to equation 8: eta at its maximum for the scores at hand."""
    theta = {**theta, "quality": theta["start"], "released": scalar(True), "pairs": scalar(0), "steps": scalar(0)}
    theta = settled(run, theta, None, goal=STARTED * abs(float(theta["objective"])))
    return evaluation(run, theta, None)


def profile(run: Run, theta: Record, control: Control, promised: float) -> Record:
    """Move the scores, then eta to its maximum for them; the step from the last derivatives is a good first guess."""
    guess = theta["quality"] + newton_step(theta)
    return settled(run, {**theta, "quality": guess}, control, goal=INEXACT * promised)


def settled(run: Run, theta: Record, control: Control | None, goal: float) -> Record:
    """Newton's method on every eta at once, each in a shrinking bracket, until no more than `goal` is left to gain."""
    theta = judgement(run, theta, control)
    low, high = np.full(len(theta["quality"]), -np.inf), np.full(len(theta["quality"]), np.inf)
    before = high
    for _ in range(NEWTON_ROUNDS):
        quality, first, gain = theta["quality"], theta["first"], newton_gains(theta)
        target = quality + newton_step(theta)
        low, high = np.where(first > 0.0, quality, low), np.where(first < 0.0, quality, high)
        # beside a report that is all but impossible, Newton's steps are tiny: there, halve the bracket
        slow = (gain > 0.5 * before) & (target > 0.0) & (target < 1.0)
        astray = (gain > goal / len(gain)) & (slow | (target <= low) | (target >= high))
        middle = 0.5 * (np.maximum(low, 0.0) + np.minimum(high, 1.0))
        theta = {**theta, "quality": np.where(astray, middle, target)}
        if dot(gain, np.ones_like(gain)) <= goal:
            break
        before = gain
        theta = judgement(run, theta, None)
    return theta


def newton_step(theta: Record) -> Array:
    """Newton's step in every eta, within its bounds; none where the judgments say nothing about it."""
    quality, first, second = theta["quality"], theta["first"], theta["second"]
    step = np.divide(first, second, out=np.zeros_like(first), where=second > 0.0)
    return np.clip(step, -quality, 1.0 - quality)


def newton_gains(theta: Record) -> Array:
    """Twice what Newton's step promises for every eta."""
    return theta["first"] * newton_step(theta)


def projected(quality: Array, slope: Array) -> Array:
    """The slope where eta may follow it: not below 0, not above 1."""
    blocked = ((quality <= 0.0) & (slope < 0.0)) | ((quality >= 1.0) & (slope > 0.0))
    return np.where(blocked, 0.0, slope)


def gold_start(run: Run, info: Info, theta: Record) -> Record:
    """eta at the share of right answers on gold pairs, and how many answers there were."""
    if not info.gold:
        raise UsageError("setting start='gold' needs a gold table (--gold); without one use start=ones")
    shown = {"count": scalar(info.annotators), "split.offsets": theta["split.offsets"]}
    shown["split.gold"] = run(collect_gold, shown, on=PARTS).get("split.gold", np.zeros(0))
    answers = np.zeros((info.annotators, 2))
    for sums in (run(answer_gold, shown), run(answer_part_gold, shown, on=PARTS)):
        if sums:
            answers = answers + dense(sums, "annotator/answers", info.annotators)
    return {"start": shares(answers, 1.0), "answered": np.asarray(answers[:, 1].sum())}


def answer_gold(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """Right answers and answers of the shard's annotators on pairs of different relevance."""
    return None, _answers(shard, shard["node.gold"], int(theta["count"]))


def collect_gold(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """Relevance of the items of split queries, which only their first parts carry."""
    gold = np.zeros(int(theta["split.offsets"][-1]))
    if bool(shard["part.first"]):
        gold[split_slice(shard, theta["split.offsets"])] = shard["node.gold"]
    return None, {"split.gold": gold}


def answer_part_gold(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """The same as `answer_gold` on a part of a split query."""
    gold = theta["split.gold"][split_slice(shard, theta["split.offsets"])]
    return None, _answers(shard, gold, int(theta["count"]))


def _answers(shard: Record, gold: Array, count: int) -> Record:
    answers = np.zeros((len(shard["annotator.code"]), 2))
    kernels.gold_answers(*rows_of(shard), gold, answers)
    return by_annotator(shard, count, answers=answers)
