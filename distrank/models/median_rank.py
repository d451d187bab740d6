"""Median rank: an item is as good as the annotator in the middle says.  [Fagin03]

On full rankings, items are sorted by the median of their ranks, which is at most a factor from the order with the
smallest total footrule distance to them. An annotator who judged only some of the items has no ranks, so the share of
an item's contests that it won in the annotator's eyes is taken: (m - rank) / (m - 1) in a ranking of m items. The score
is the median of these shares over the annotators who compared the item with another, 0.5 for an item that nobody did.

[Fagin03] Fagin, Kumar, Sivakumar: Efficient similarity search and classification via rank aggregation. SIGMOD 2003.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.contract import Info, Run, Traits
from distrank.kernels import opinions as kernels
from distrank.models._opinions import OpinionModel, opinions_of
from distrank.models._pairwise import UNKNOWN
from distrank.records import Array, Record, scalar


@dataclass(frozen=True)
class MedianRankSettings:
    """Settings of `median-rank`: there are none."""


class MedianRank(OpinionModel):
    """One round of medians."""

    name = "median-rank"
    title = "median rank: the median over annotators of the share of contests won"
    paper = "Fagin03"
    estimates = "scores"
    traits = Traits(iterative=False, monotone=False, opted_out={"objective": "a median has no objective"})
    Settings = MedianRankSettings

    def begin(self, run: Run, info: Info) -> Record:
        run(take_medians, {})
        return {**self.empty_theta(info), "objective": scalar(np.nan), "converged": scalar(True)}


def take_medians(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step over whole units."""
    entries = opinions_of(shard)
    share = kernels.win_shares(shard["group.entries"], shard["group.list"], entries.wins, entries.contests)
    return {"score": kernels.medians(int(shard["unit.nodes"][-1]), entries.item, share, UNKNOWN)}, {}
