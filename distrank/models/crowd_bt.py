"""Crowd-BT: Bradley-Terry scores with the quality of every annotator.  [Chen13]

    s_i     score of item i
    eta_k   quality of annotator k: P(the report is the true order of a pair)                               (4)

    P(k reports i over j) = eta_k sigma(s_i - s_j) + (1 - eta_k) sigma(s_j - s_i)                           (5)

The objective (8) is the log-likelihood (6) and the virtual games of `bradley_terry`, for 0 <= eta <= 1. It is concave
in every eta alone, so eta is kept at its maximum for the scores at hand: the scores climb on the profile, by L-BFGS.

Deviation: the paper alternates between s (L-BFGS) and eta (projected Newton), which crawls where both move together.

(eta, s) and (1 - eta, -s) have exactly the same objective: the start decides between them, and gold, where it is given,
has the last word: a solution that has more gold pairs in the opposite order than in the true one is turned around. The
scores are fitted with eta at its start first; `start=gold` takes the share of right answers on gold pairs, and 1 for
annotators without such answers; `start=RUN` goes on from the scores and qualities of an earlier run, joined by id, and
releases the qualities at once (new annotators start at 1). With `regularization=auto` both starts are among what gold
chooses from. Annotators without judgments keep their start.

`quality_prior=a,b` adds (a - 1) log eta_k + (b - 1) log(1 - eta_k) for every annotator: eta is then the mode of its
posterior under a Beta(a, b) prior, and three judgments that agree with the consensus no longer make a perfect
annotator. Those without judgments go to the mode of the prior, (a - 1) / (a + b - 2); with a = b = 1 the prior is flat
and changes nothing. The mirror image belongs to the prior (b, a). Where the prior forbids a bound (b > 1 forbids 1,
a > 1 forbids 0), a start there is moved inside, to 0.99 or 0.01.

[Chen13] Chen, Bennett, Collins-Thompson, Horvitz: Pairwise ranking aggregation in a crowdsourced setting. WSDM 2013.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from distrank.contract import Info, Run
from distrank.errors import UsageError
from distrank.models._gold import gold_start
from distrank.models._pairwise import quality_bounds
from distrank.models._profile import ProfileModel, earlier_or_one
from distrank.models._selection import AUTO, current
from distrank.models.bradley_terry import BradleyTerrySettings, gold_of
from distrank.records import Record
from distrank.settings import setting

SURE = 0.99  # where a start at 1 is put (and one at 0 at 1 - this) if the prior forbids the bound


@dataclass(frozen=True)
class CrowdBTSettings(BradleyTerrySettings):
    """Settings of `crowd-bt`."""

    start: str = setting(
        "ones",
        "quality to start from: ones, gold (the share of right answers on gold pairs), or a RUN, from whose scores and "
        "quality the fit goes on",
    )
    annotator_quality: str = setting(
        "estimate",
        "quality eta of every annotator, or 1 for all (then crowd-bt is bradley-terry)",
        choices=("estimate", "equal"),
    )
    quality_prior: tuple[float, float] | None = setting(
        None, "a,b of a Beta prior on every quality, for many annotators with few judgments; 1,1 is flat", low=1.0
    )


class CrowdBT(ProfileModel):
    """Maximum of equation 8, by L-BFGS on the scores with eta profiled out."""

    name = "crowd-bt"
    title = "Crowd-BT: Bradley-Terry scores with annotator quality"
    estimates = "scores, annotator quality"
    Settings = CrowdBTSettings
    start_words = ("ones", "gold")

    def starts(self, run: Run, info: Info, theta: Record) -> Record:
        if self.settings.quality_prior is not None and not self.profiles:
            raise UsageError("setting quality_prior needs qualities to estimate: use annotator_quality=estimate")
        if self.settings.start == "gold" and not info.gold:
            raise UsageError("setting start='gold' needs a gold table (--gold); without one use start=ones")
        found = [earlier_or_one(info, "quality")]
        automatic = self.settings.regularization == AUTO
        if self.profiles and info.gold and info.start is None and (self.settings.start == "gold" or automatic):
            found.append(gold_start(run, info, theta)[0])
            if not automatic:
                found = found[1:]
        if self.settings.quality_prior is None:
            return {"starts": np.stack(found)}
        a, b = self.settings.quality_prior
        # the prior as `_priors` takes it, and starts at a distance from the bounds that it forbids
        inside = np.clip(np.stack(found), 1.0 - SURE if a > 1.0 else 0.0, SURE if b > 1.0 else 1.0)
        return {"starts": inside, "prior": np.array([a - 1.0, b - 1.0, 0.0])}

    @property
    def profiles(self) -> bool:
        return bool(self.settings.annotator_quality == "estimate")

    @property
    def mirrors(self) -> bool:
        prior = self.settings.quality_prior
        return self.profiles and (prior is None or prior[0] == prior[1])

    def mirrored(self, run: Run, theta: Record) -> Record:
        silent = (theta["first"] == 0.0) & (theta["second"] == 0.0)
        turned = np.where(silent, theta["quality"], 1.0 - theta["quality"])
        return {**super().mirrored(run, theta), "quality": turned, "first": -theta["first"]}

    def chosen(self, theta: Record) -> dict[str, Any]:
        first = "ones" if self.settings.start == "gold" else self.settings.start
        return {**super().chosen(theta), "start": (first, "gold")[current(theta).start]}

    def annotators(self, theta: Record, info: Info) -> Record:  # noqa: ARG002 (all that is needed is in theta)
        quality = theta.get("quality", theta["start"])
        bounds = quality_bounds(theta) if self.profiles else {}  # a quality that was not estimated has none
        return {"quality": quality, "agreement": theta["agreement"], **bounds}

    def warnings(self, theta: Record, info: Info) -> list[str]:
        found = super().warnings(theta, info)
        gold = gold_of(theta)
        if self.profiles and gold.right == gold.wrong:
            against = float((info.annotator_judgments * (theta.get("quality", theta["start"]) < 0.5)).sum())
            found.append(
                "which end of the rankings is the top rests on most judgments being honest: the reversed scores with "
                "quality 1 - eta fit the judgments exactly as well, and only gold can decide (--gold). "
                f"{against / max(info.judgments, 1):.1%} of the judgments are from annotators with quality below 0.5"
            )
        if "reversed" in theta:
            found.append(
                f"gold turned the rankings around: {gold.right:,} of {gold.pairs:,} gold pairs say that most judgments "
                "are from annotators who reverse the order"
            )
        return found
