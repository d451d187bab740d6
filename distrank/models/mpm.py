"""MPM: the multinomial preference model, with the adherence of every annotator.  [Volkovs12]

    v_i       score of item i          theta_k   adherence of annotator k to the consensus; negative: the opposite
    B_ij      how often k put i before j

    P(B of k in a query) proportional to the product over i, j of (e^(theta_k (v_i - v_j)) / Z)^B_ij
    Z = sum over ordered pairs of the items that k judged in the query

All reports of an annotator in a query are draws from one multinomial over pairs, in place of one coin per pair as in
Bradley-Terry: pairs far apart are reported more often. With two items it is Bradley-Terry in 2 theta v.

The objective adds Gaussian priors, -ridge/2 sum v^2 - adherence_prior/2 sum (theta - 1)^2, which keep scores finite and
settle their scale and sign. It is concave in the scores and in the adherences, each for the other fixed: they climb in
turns, the scores by L-BFGS query by query, the adherences by Newton steps, damped so that they never go down [Sun19].

Deviation: the paper climbs by gradient steps without priors, and sums Z over all items of the query; an annotator
cannot report what was not shown, and the sum over items that were costs what was judged.

`quality` is the agreement with the consensus; adherence is a column of its own. All judgments of a query must be in
one place, so queries are never split.

[Volkovs12] Volkovs, Zemel: A flexible generative model for preference aggregation. WWW 2012.
[Sun19] Sun, Tran-Dinh: Generalized self-concordant functions. Mathematical Programming 178, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.contract import Info, Run
from distrank.kernels import mpm as kernels
from distrank.models._pairwise import PairwiseModel, by_annotator, rows_of
from distrank.records import Array, Record, scalar
from distrank.settings import setting
from distrank.stats import dense

TURNS = 8  # of scores and adherences per iteration
INNER = 50  # steps of every query's scores per iteration
STEEPEST = 1e-10  # derivative at which a query's scores are the best for the adherences at hand


@dataclass(frozen=True)
class MPMSettings:
    """Settings of `mpm`."""

    annotator_quality: str = setting(
        "estimate",
        "estimate every annotator's adherence theta, or trust all alike (theta = 1)",
        choices=("estimate", "equal"),
    )
    ridge: float = setting(0.1, "precision of the Gaussian prior on every score", above=0.0)
    adherence_prior: float = setting(1.0, "precision of the Gaussian prior on every adherence, around 1", above=0.0)
    ties: str = setting("half", "a tie is half a win each way, or is left out", choices=("half", "drop"))
    tolerance: float = setting(1e-7, "ends once the objective rises by a smaller share", above=0.0)
    max_iterations: int = setting(500, "limit on the number of iterations", low=1)


class MPM(PairwiseModel):
    """Scores and adherences in turns."""

    name = "mpm"
    title = "MPM: multinomial preferences with annotator adherence"
    paper = "Volkovs12"
    estimates = "scores, annotator adherence"
    split = "never"
    Settings = MPMSettings
    diagnostics = ("objective", "gradient")

    def prepare(self, shard: Record) -> Record:
        shard = super().prepare(shard)
        return {**shard, **_nets(shard)}

    def begin(self, run: Run, info: Info) -> Record:
        theta = {
            **self.empty_theta(info),
            "adherence": np.ones(info.annotators),
            "ridge": scalar(self.settings.ridge),
        }
        return self._after(run, theta, 0, -np.inf)

    def iterate(self, run: Run, theta: Record) -> Record:
        for _ in range(TURNS):
            theta = self._after(run, {**theta, "adherence": theta["adherence.next"]}, INNER, float(theta["objective"]))
            if bool(theta["converged"]):
                break
        return theta

    def _after(self, run: Run, theta: Record, most: int, before: float) -> Record:
        """Scores for the adherences at hand, and the adherences that follow from them."""
        count, precision = len(theta["adherence"]), self.settings.adherence_prior
        shown = {name: theta[name] for name in ("adherence", "ridge")}
        found = run(climb, {**shown, "most": scalar(most), "tolerance": scalar(STEEPEST)})
        away = theta["adherence"] - 1.0
        objective = float(found["objective"]) - 0.5 * precision * float((away**2).sum())
        step, slope = np.zeros(count), np.zeros(count)
        if self.settings.annotator_quality == "estimate":
            sums = dense(found, "annotator/derivatives", count)
            slope = sums[:, 0] - precision * away
            newton = slope / (sums[:, 1] + precision)
            # the third derivative is at most the largest difference times the second: a damped step never goes down
            reach = sums[:, 2] ** (1.0 / kernels.REACH)
            step = np.sign(newton) * np.log1p(reach * np.abs(newton)) / np.where(reach > 0.0, reach, 1.0)
            step = np.where(reach > 0.0, step, newton)
        gained = objective - before
        gradient = max(float(found["steepest"]), float(np.abs(slope).max(initial=0.0)))
        return {
            **theta,
            "adherence.next": theta["adherence"] + step,
            "objective": scalar(objective),
            "gradient": scalar(gradient),
            "converged": scalar(most > 0 and gained <= self.settings.tolerance * (1.0 + abs(objective))),
        }

    def annotators(self, theta: Record, info: Info) -> Record:
        return {**super().annotators(theta, info), "adherence": theta["adherence"]}


def _nets(shard: Record) -> Record:
    """By group (a run of one annotator in one unit): its items, their wins minus losses, and the weight of all."""
    rows, nodes = rows_of(shard), max(int(shard["unit.nodes"][-1]), 1)
    groups = len(rows.run) - 1
    group = np.repeat(np.arange(groups), np.diff(rows.run))
    weight = np.ones(len(group)) if rows.weight is None else rows.weight
    item = np.concatenate([rows.winner, rows.loser]).astype(np.int64)
    entries, place = np.unique(np.concatenate([group, group]) * nodes + item, return_inverse=True)
    counts = np.bincount(entries // nodes, minlength=groups)
    return {
        "net.entries": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "net.item": entries % nodes,
        "net.net": np.bincount(place, np.concatenate([weight, -weight]), len(entries)),
        "net.weight": np.bincount(group, weight, groups),
    }


def climb(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step over whole units: scores, from 0, and the derivatives in the adherences at these scores."""
    units = len(shard["unit.nodes"]) - 1
    score = local["score"].copy() if local else np.zeros(int(shard["unit.nodes"][-1]))
    objective, steepest = np.zeros(units), np.zeros(units)
    nets = shard["net.entries"], shard["net.item"], shard["net.net"], shard["net.weight"]
    adherence = theta["adherence"][shard["annotator.code"]][shard["pair.owner"]]
    control = float(theta["ridge"]), float(theta["tolerance"]), int(theta["most"])
    kernels.climb(shard["unit.nodes"], shard["pair.unit"], *nets, adherence, *control, score, objective, steepest)
    found = np.zeros((len(adherence), 3))
    kernels.adherence(*nets, adherence, score, found)
    owners = len(shard["annotator.code"])
    sums = np.stack([np.bincount(shard["pair.owner"], found[:, k], owners) for k in range(3)], axis=1)
    stats = {"objective": scalar(float(objective.sum())), "steepest": scalar(float(steepest.sum()))}
    return {"score": score}, {**stats, **by_annotator(shard, len(theta["adherence"]), derivatives=sums)}
