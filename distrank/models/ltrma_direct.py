"""LTRMA-D: aggregate first, learn afterwards.  [Wu16], section 3

The rankings of all annotators are aggregated by Mallows' model with the expertise of every annotator and a uniform law
of the true ranking (`ltrma` with w = 0); when that has converged, ListMLE learns a ranker from the most probable
rankings. The baseline that `ltrma` is compared with: here the ranker has no say in what is true.

[Wu16] Wu, You, Xia, Ma, Hu: Listwise learning to rank from crowds. ACM TKDD 11(1), 2016.
"""

from __future__ import annotations

import numpy as np

from distrank.contract import Info, Run
from distrank.models import _ranker
from distrank.models._truth import best_likelihood
from distrank.models.ltrma import ListModel, ListSettings
from distrank.records import Array, Record, scalar


class LTRMADirect(ListModel):
    """Two stages: the objective is that of the aggregation."""

    name = "ltrma-d"
    title = "LTRMA-D: aggregate crowd rankings, then learn a ranker"
    paper = "Wu, You, Xia, Ma, Hu: Listwise learning to rank from crowds. TKDD 2016"
    estimates = "true rankings, annotator expertise, ranker"
    Settings = ListSettings

    def begin(self, run: Run, info: Info) -> Record:
        return {**super().begin(run, info), "aggregated": scalar(False)}

    def iterate(self, run: Run, theta: Record) -> Record:
        if bool(theta["aggregated"]):
            theta, _, done = _ranker.trained(run, theta, self.likelihood, self.settings.ridge, int(theta["queries"]))
            return {**theta, "converged": scalar(done)}
        expertise = self.judged(theta)
        change = float(np.linalg.norm(expertise - theta["expertise"]))
        aggregated = change < self.settings.tolerance * len(expertise)
        theta = {**theta, "expertise": expertise, "theta_change": scalar(change), "aggregated": scalar(aggregated)}
        return self.inferred(run, theta)

    def likelihood(self, run: Run, theta: Record) -> tuple[float, Array]:
        shown = {**_ranker.shown_ranker(theta), "top_k": scalar(self.settings.top_k or 0)}
        found = run(best_likelihood, shown, keep=False)
        return float(found["value"]), found["gradient"]
