"""ListMLE: a linear ranker from known rankings, by maximum Plackett-Luce likelihood.  [Xia08]

The rankings come from the gold table: higher relevance first, items of equal relevance in an order drawn at random once
and for all, as in [Wu16] section 6.1.2. Items without gold are not part of a list. What annotators judged plays no part
in the ranker; their agreement with it is reported.

[Xia08] Xia, Liu, Wang, Zhang, Li: Listwise approach to learning to rank: theory and algorithm. ICML 2008.
[Wu16] Wu, You, Xia, Ma, Hu: Listwise learning to rank from crowds. ACM TKDD 11(1), 2016.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.contract import Info, Run, Traits
from distrank.errors import UsageError
from distrank.kernels.hashing import hash_pairs
from distrank.models import _ranker
from distrank.models._linear import LinearModel
from distrank.models._truth import best_likelihood
from distrank.models.ltrma import RankerSettings
from distrank.records import Array, Record, scalar
from distrank.settings import setting


@dataclass(frozen=True)
class ListMLESettings(RankerSettings):
    """Settings of `listmle`."""

    top_k: int | None = setting(None, "only the first k choices of every list count; none: all", low=1, high=1_000)


class ListMLE(LinearModel):
    """Rounds of L-BFGS until no step promises anything."""

    name = "listmle"
    title = "ListMLE: a ranker from known rankings (gold)"
    paper = "Xia, Liu, Wang, Zhang, Li: Listwise approach to learning to rank. ICML 2008"
    estimates = "ranker"
    traits = Traits(
        weighted=False,
        opted_out={
            "weights": "the ranker learns from gold, which has no weights",
            "splitting": "the ranking of a query is learned as a whole",
            "relabelling": "items of equal relevance are put in an order that is drawn from their places",
        },
    )
    Settings = ListMLESettings

    def begin(self, run: Run, info: Info) -> Record:
        _ranker.require_features(info, self.name)
        ranker = _ranker.fresh_ranker(run, info)
        found = run(order_by_gold, {})
        if float(found["graded"]) == 0.0:
            raise UsageError("listmle learns from known rankings: give gold with relevance for the judged queries")
        theta = {**ranker, "queries": found["lists"], "agreement": np.full(info.annotators, 0.5)}
        value, _ = self.likelihood(run, theta)
        return {**theta, "objective": scalar(value), "converged": scalar(False)}

    def iterate(self, run: Run, theta: Record) -> Record:
        queries = int(theta["queries"])
        theta, value, done = _ranker.trained(run, theta, self.likelihood, self.settings.ridge, queries, steps=4)
        return {**theta, "objective": scalar(value), "converged": scalar(done)}

    def warnings(self, theta: Record, info: Info) -> list[str]:
        found = super().warnings(theta, info)
        if float(theta["queries"]) == 0.0:
            found.append("gold grades no two items of any query: there is nothing to learn, and all weights are 0")
        return found

    def likelihood(self, run: Run, theta: Record) -> tuple[float, Array]:
        shown = {**_ranker.shown_ranker(theta), "top_k": scalar(self.settings.top_k or 0)}
        found = run(best_likelihood, shown, keep=False)
        return float(found["value"]), found["gradient"]


def order_by_gold(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step: the known ranking of every unit, its graded items first, and how many they are."""
    nodes, grade = shard["unit.nodes"], shard["node.gold"]
    sizes = np.diff(nodes)
    unit = np.repeat(np.arange(len(sizes)), sizes)
    place = (np.arange(len(grade)) - np.repeat(nodes[:-1], sizes)).astype(np.uint64)
    chance = hash_pairs(shard["unit.hash"][unit], place)
    known = ~np.isnan(grade)
    order = np.lexsort((chance, -np.where(known, grade, 0.0), ~known, unit))
    included = np.bincount(unit[known], minlength=len(sizes))
    counts = {"lists": scalar(float((included > 1).sum())), "graded": scalar(float(known.sum()))}
    return {"order": order, "included": included}, counts
