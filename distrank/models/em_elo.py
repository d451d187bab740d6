"""EM-Elo: who is right about every pair, by EM; then Elo ratings from matches in time order.  [Bashir13]

    z_p     which item of pair p is better: unknown
    eta_k   quality of annotator k: P(a report is right)
    R_i     rating of item i, the score

First EM: given the qualities, the posterior of every z_p from the reports on p; given the posteriors, every eta_k is
the expected share of right reports. It begins with equal qualities, that is with a majority vote on every pair. A
confusion matrix would have equal rows here, for which item of a pair is called the first means nothing.

Then every judgment is a match, in time order: its result is the posterior probability that the report is right, and

    R_i + K (result - expected)        expected = 1 / (1 + 10^((R_j - R_i) / 400))

Judgments of annotators with eta at or below 1/2 are left out: they say nothing, or the opposite. With
`annotator_quality=equal` there is no EM: everyone's reports are matches, won by the item that was reported.

A tie is a match of result 1/2 and says nothing in the EM. A judgment of weight w is w matches (see `_online`).
`quality_prior=a,b` makes every eta the mode of its posterior under a Beta(a, b) prior.

[Bashir13] Bashir, Anderton, Wu, Golbus, Pavlu, Aslam: A document rating system for preference judgements. SIGIR 2013.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.contract import Info, Model, Run, Tables, Traits
from distrank.kernels import em_elo as kernels
from distrank.kernels.online import row_agreement
from distrank.models._online import prepared, updates_of
from distrank.models._pairwise import PairwiseModel, shares
from distrank.records import Array, Record, scalar
from distrank.settings import setting

START = 0.75  # quality of everyone before the first report: any value above 1/2 gives a majority vote
SUREST = 1e-6  # a quality is kept this far from 0 and 1
RATING = 1500.0  # of every item before its first match


@dataclass(frozen=True)
class EMEloSettings:
    """Settings of `em-elo`."""

    annotator_quality: str = setting(
        "estimate", "estimate every annotator's quality eta by EM, or trust all alike", choices=("estimate", "equal")
    )
    quality_prior: tuple[float, float] | None = setting(
        None, "Beta(a,b) prior on every quality, as a,b: the mode of the posterior is taken", low=1.0
    )
    step_size: float = setting(32.0, "K: points that a match moves at most", above=0.0)
    rating_scale: float = setting(400.0, "difference of ratings at which the better one wins 10 of 11", above=0.0)
    ties: str = setting("half", "a tie is a match of result 1/2, or is left out", choices=("half", "drop"))
    tolerance: float = setting(1e-8, "EM ends once the log-likelihood rises by a smaller share", above=0.0)
    max_iterations: int = setting(500, "limit on the number of EM iterations", low=1)


class EMElo(Model):
    """EM, then one pass."""

    name = "em-elo"
    title = "EM-Elo: pairs settled by EM, then Elo ratings in time order"
    paper = "Bashir13"
    estimates = "scores, annotator quality"
    form = "preferences"
    accepts = ("preferences",)
    split = "ordered"
    traits = Traits(
        weighted=False,
        ordered=True,
        opted_out={"weights": "a weight of two is two matches in a row, which is not a second row at the end"},
    )
    Settings = EMEloSettings

    def prepare(self, shard: Record) -> Record:
        shard = prepared(shard, ties=self.settings.ties)
        updates = updates_of(shard)
        low, high = np.minimum(updates.winner, updates.loser), np.maximum(updates.winner, updates.loser)
        nodes = max(int(shard["unit.nodes"][-1]), 1)
        _, pair = np.unique(low.astype(np.int64) * nodes + high, return_inverse=True)
        size = np.ones(len(pair)) if updates.size is None else updates.size
        said = np.ones(len(pair)) if updates.tie is None else np.where(updates.tie, 0.0, 1.0)
        return {**shard, "match.pair": pair, "match.size": size, "match.said": size * said}

    def begin(self, run: Run, info: Info) -> Record:
        prior = np.asarray(self.settings.quality_prior or (1.0, 1.0)) - 1.0
        theta = {
            "eta": np.full(info.annotators, START),
            "quality": np.full(info.annotators, START),
            "agreement": np.full(info.annotators, 0.5),
            "prior": prior,
            "step": scalar(self.settings.step_size),
            "scale": scalar(self.settings.rating_scale),
            "estimates": scalar(self.settings.annotator_quality == "estimate"),
        }
        return self._after(run, theta, -np.inf)

    def iterate(self, run: Run, theta: Record) -> Record:
        return self._after(run, {**theta, "eta": theta["quality"]}, float(theta["objective"]))

    def _after(self, run: Run, theta: Record, before: float) -> Record:
        """The expectation for the qualities at hand, and the qualities that follow from it."""
        found = run(settle_pairs, {name: theta[name] for name in ("eta",)})
        prior, eta = theta["prior"], theta["eta"]
        objective = float(found["objective"]) + float((prior[0] * np.log(eta) + prior[1] * np.log1p(-eta)).sum())
        counts = found["credit"] + np.array([prior[0], prior.sum()])
        quality = np.clip(shares(counts), SUREST, 1.0 - SUREST)
        small = objective - before <= self.settings.tolerance * (1.0 + abs(objective))
        done = bool(small) or not bool(theta["estimates"])
        return {**theta, "quality": quality, "objective": scalar(objective), "converged": scalar(done)}

    def conclude(self, run: Run, theta: Record) -> Record:
        """The matches, and agreement with the ratings."""
        found = run(play, {name: theta[name] for name in ("eta", "step", "scale", "estimates")})
        return {**theta, "agreement": shares(found["agreed"])}

    def finalize(self, shard: Record, local: Record, theta: Record) -> Tables:  # noqa: ARG002 (ratings are local)
        return {"rankings": {"score": local["rating"]}, "queries": {"agreement": local["agreement"]}}

    def annotators(self, theta: Record, info: Info) -> Record:
        """`quality` is eta, which nobody without judgments has: 0.5."""
        if not bool(theta["estimates"]):
            return {"quality": theta["agreement"], "agreement": theta["agreement"]}
        quality = np.where(info.annotator_judgments > 0, theta["quality"], 0.5)
        return {"quality": quality, "agreement": theta["agreement"]}

    def warnings(self, theta: Record, info: Info) -> list[str]:
        found = []
        if info.disconnected:
            found.append(PairwiseModel.disconnected.format(count=info.disconnected, queries=info.queries))
        left_out = int((theta["quality"] <= 0.5).sum()) if bool(theta["estimates"]) else 0
        if left_out:
            found.append(f"the judgments of {left_out:,} annotators with a quality of 0.5 or less were left out")
        return found


def settle_pairs(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step: the posterior of every pair, and what it credits the annotators with."""
    updates, pair, said = updates_of(shard), shard["match.pair"], shard["match.said"]
    forward = updates.winner < updates.loser
    logit = np.zeros(int(pair.max(initial=-1)) + 1)
    objective = kernels.expectation(pair, forward, updates.annotator, said, theta["eta"], logit)
    counts = np.zeros((len(theta["eta"]), 2))
    kernels.credit(pair, forward, updates.annotator, said, logit, counts)
    return {"logit": logit}, {"objective": scalar(objective), "credit": counts}


def play(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step: all matches in turn."""
    updates = updates_of(shard)
    result = np.ones(len(updates.winner))
    if bool(theta["estimates"]):
        forward = updates.winner < updates.loser
        odds = np.where(forward, 1.0, -1.0) * local["logit"][shard["match.pair"]]
        result = np.where(theta["eta"][updates.annotator] > 0.5, kernels.probabilities(odds), np.nan)
    if updates.tie is not None:
        result = np.where(updates.tie & ~np.isnan(result), 0.5, result)
    items = int(shard["unit.nodes"][-1])
    rating = np.full(items, RATING)
    step, scale = float(theta["step"]), float(theta["scale"])
    kernels.elo_pass(updates.winner, updates.loser, result, shard["match.size"], step, scale, rating)
    agreed, units = np.zeros((len(theta["eta"]), 2)), np.zeros((len(shard["unit.hash"]), 2))
    row_agreement(*updates, np.stack([rating, np.zeros(items)], axis=1), agreed, units)
    return {**local, "rating": rating, "agreement": shares(units)}, {"agreed": agreed}
