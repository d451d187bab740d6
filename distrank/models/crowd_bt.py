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

`quality_prior=a,b` adds (a - 1) log eta_k + (b - 1) log(1 - eta_k) for every annotator: eta is then the mode of its
posterior under a Beta(a, b) prior, and three judgments that agree with the consensus no longer make a perfect
annotator. Those without judgments go to the mode of the prior, (a - 1) / (a + b - 2); with a = b = 1 the prior is flat
and changes nothing. The mirror image belongs to the prior (b, a). Where the prior forbids a bound (b > 1 forbids 1,
a > 1 forbids 0), a start there is moved inside, to 0.99 or 0.01.

[Chen13] Chen, Bennett, Collins-Thompson, Horvitz: Pairwise ranking aggregation in a crowdsourced setting. WSDM 2013.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.contract import PARTS, Info, Run
from distrank.errors import UsageError
from distrank.kernels import preferences as kernels
from distrank.models._pairwise import by_annotator, rows_of, shares, split_slice
from distrank.models._profile import ProfileModel
from distrank.models.bradley_terry import BradleyTerrySettings
from distrank.records import Array, Record, scalar
from distrank.settings import setting
from distrank.stats import dense

SURE = 0.99  # where a start at 1 is put (and one at 0 at 1 - this) if the prior forbids the bound


@dataclass(frozen=True)
class CrowdBTSettings(BradleyTerrySettings):
    """Settings of `crowd-bt`."""

    start: str = setting(
        "ones", "quality to start from: 1, or the share of right answers on gold pairs", choices=("ones", "gold")
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

    def begin(self, run: Run, info: Info) -> Record:
        theta = self.empty_theta(info)
        theta["start"], theta["answered"] = np.ones(info.annotators), scalar(0.0)
        theta["released"] = scalar(False)
        if self.profiles and self.settings.start == "gold":
            theta |= gold_start(run, info, theta)
        if self.settings.quality_prior is not None:
            theta |= self._prior(theta["start"])
        if self.profiles and not (theta["start"] == 1.0).all():
            theta["quality"] = theta["start"]
        return self.checked(self.first_evaluation(run, theta))

    def _prior(self, start: Array) -> Record:
        """The prior as `_priors` takes it, and the start at a distance from the bounds that it forbids."""
        a, b = self.settings.quality_prior
        if not self.profiles:
            raise UsageError("setting quality_prior needs qualities to estimate: use annotator_quality=estimate")
        inside = np.clip(start, 1.0 - SURE if a > 1.0 else 0.0, SURE if b > 1.0 else 1.0)
        return {"prior": np.array([a - 1.0, b - 1.0, 0.0]), "start": inside}

    @property
    def profiles(self) -> bool:
        return bool(self.settings.annotator_quality == "estimate")

    def annotators(self, theta: Record, info: Info) -> Record:  # noqa: ARG002 (all that is needed is in theta)
        return {"quality": theta.get("quality", theta["start"]), "agreement": theta["agreement"]}

    def warnings(self, theta: Record, info: Info) -> list[str]:
        found = super().warnings(theta, info)
        if self.profiles and float(theta["answered"]) == 0.0:
            against = float((info.annotator_judgments * (theta.get("quality", theta["start"]) < 0.5)).sum())
            found.append(
                "which end of the rankings is the top rests on most judgments being honest: the reversed scores with "
                "quality 1 - eta fit the judgments exactly as well, and only gold can decide (start=gold). "
                f"{against / max(info.judgments, 1):.1%} of the judgments are from annotators with quality below 0.5"
            )
        return found


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
