"""TrueSkill for two players: beliefs about scores, updated in one pass in time order.  [Herbrich06]

    s_i     score of item i          N(mu_i, sigma_i^2)
    beta    deviation of the performance in one judgment: i beats j if N(s_i, beta^2) > N(s_j, beta^2)
    tau     deviation by which a score drifts from one judgment to the next

With c^2 = 2 beta^2 + sigma_i^2 + sigma_j^2 and t = (mu_i - mu_j) / c, a preference for i over j gives

    mu_i + sigma_i^2 / c v(t)      mu_j - sigma_j^2 / c v(t)      sigma^2 (1 - sigma^2 / c^2 w(t)) for both

All annotators are trusted alike. There is no draw margin: ties go by the `ties` setting, as in all pairwise methods.

[Herbrich06] Herbrich, Minka, Graepel: TrueSkill: a Bayesian skill rating system. NIPS 2006.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.contract import Step
from distrank.kernels.online import trueskill_pass
from distrank.models._online import INTERVAL, OnlineModel, Update, Updates, pass_block
from distrank.records import Array, Record, scalar
from distrank.settings import setting


@dataclass(frozen=True)
class TrueSkillSettings:
    """Settings of `trueskill`."""

    prior_mean: float = setting(25.0, "mean mu of every item's score before its first judgment")
    prior_deviation: float = setting(
        25.0 / 3.0, "standard deviation sigma of every item's score before its first judgment", above=0.0
    )
    performance_deviation: float = setting(25.0 / 6.0, "standard deviation beta of one judgment", above=0.0)
    drift_deviation: float = setting(
        25.0 / 300.0, "standard deviation tau by which a score drifts between judgments", low=0.0
    )
    ties: str = setting("half", "a tie is half an update each way, or is left out", choices=("half", "drop"))
    interval: float | None = setting(0.9, INTERVAL, above=0.0, high=0.999)


def update_skills(updates: Updates, settings: Record, items: Array, annotators: Array) -> None:  # noqa: ARG001
    """The closed form for two players, update by update."""
    rows = updates.winner, updates.loser, updates.tie, updates.size
    trueskill_pass(*rows, float(settings["noise"]), float(settings["drift"]), items)


def pass_trueskill(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step: the next block of rows."""
    return pass_block(update_skills, shard, local, theta)


class TrueSkill(OnlineModel):
    """One pass of the two-player update."""

    name = "trueskill"
    title = "TrueSkill: skills updated in time order"
    paper = "Herbrich06"
    estimates = "scores with deviations"
    Settings = TrueSkillSettings

    def fresh_state(self, items: int, annotators: int) -> Record:
        prior = [self.settings.prior_mean, self.settings.prior_deviation**2]
        return {"item": np.tile(prior, (items, 1)), "annotator": np.zeros((annotators, 0)), "updates": scalar(0)}

    @property
    def update(self) -> Update:
        return update_skills

    @property
    def step(self) -> Step:
        return pass_trueskill

    def settings_record(self) -> Record:
        return {
            "noise": scalar(2.0 * self.settings.performance_deviation**2),
            "drift": scalar(self.settings.drift_deviation**2),
        }
