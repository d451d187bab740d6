"""Variance-BT: Bradley-Terry scores where every annotator has a scale of their own.  [Volkovs12], [Chen13] section 5.2

    s_i     score of item i
    g_k     inverse of annotator k's spread: how strongly judgments follow the scores, g_k >= 0

    P(k prefers i to j) = sigma(g_k (s_i - s_j))

A spread is never negative, so the best that the model can do with a liar is what it does with a guesser: g near 0,
judgments ignored. Crowd-BT turns a liar's judgments around instead. For the same reason there is no mirror image here.

Only the product of g and s matters to the judgments; the virtual games of `bradley_terry` fix the size of s.

Deviation: every g has a Gamma prior with mode 1, `scale_prior` * (log g_k - g_k + 1) in the objective, so that an
annotator who never contradicts the consensus keeps a finite g.
Annotators without judgments have g = 1.

The objective is concave in every g alone, which is kept at its maximum while the scores climb, as eta in `crowd_bt`;
the scores are fitted with g = 1 first. `quality` is the agreement with the consensus: g has no upper end.

[Volkovs12] Volkovs, Zemel: A flexible generative model for preference aggregation. WWW 2012.
[Chen13]    Chen, Bennett, Collins-Thompson, Horvitz: Pairwise ranking aggregation in a crowdsourced setting. WSDM 2013.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.contract import Info, Run
from distrank.kernels.laws import SCALED
from distrank.models._profile import ProfileModel, earlier_or_one
from distrank.models.bradley_terry import BradleyTerrySettings
from distrank.records import Record
from distrank.settings import setting


@dataclass(frozen=True)
class VarianceBTSettings(BradleyTerrySettings):
    """Settings of `variance-bt`."""

    scale_prior: float = setting(1.0, "strength of the belief that an annotator's scale is 1", above=0.0)


class VarianceBT(ProfileModel):
    """Maximum of the likelihood with virtual games and the prior, by L-BFGS on the scores with g profiled out."""

    name = "variance-bt"
    title = "Variance-BT: Bradley-Terry scores with a scale for every annotator"
    paper = "Volkovs12"
    estimates = "scores, annotator scale"
    Settings = VarianceBTSettings
    law = SCALED

    def starts(self, run: Run, info: Info, theta: Record) -> Record:  # noqa: ARG002 (needs no round)
        strength = self.settings.scale_prior
        return {"starts": earlier_or_one(info, "scale")[None, :], "prior": np.array([strength, 0.0, strength])}

    def annotators(self, theta: Record, info: Info) -> Record:
        return {**super().annotators(theta, info), "scale": theta.get("quality", theta["start"])}
