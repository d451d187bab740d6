"""Borda count on preferences: the share of its comparisons that an item won.

A win counts 1, a tie 1/2 for both, a judgment as often as its weight. An item that was never compared gets 0.5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.contract import PARTS, Info, Run, Traits
from distrank.kernels import preferences as kernels
from distrank.models._pairwise import PairwiseModel, rows_of, shares, split_slice
from distrank.records import Array, Record, scalar
from distrank.settings import setting


@dataclass(frozen=True)
class BordaSettings:
    """Settings of `borda`."""

    ties: str = setting("half", "a tie is half a win each way, or is left out", choices=("half", "drop"))


class Borda(PairwiseModel):
    """One round of counting."""

    name = "borda"
    title = "Borda count: share of comparisons won"
    estimates = "scores"
    traits = Traits(iterative=False, monotone=False, opted_out={"objective": "a count has no objective"})
    Settings = BordaSettings

    def begin(self, run: Run, info: Info) -> Record:
        theta = self.empty_theta(info)
        run(count_wins, {})
        parts = run(count_part_wins, {"split.offsets": theta["split.offsets"]}, on=PARTS)
        if parts:
            theta["split.score"] = shares(parts["split.wins"])
        return {**theta, "objective": scalar(np.nan), "converged": scalar(True)}


def count_wins(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step over whole units."""
    return {"score": shares(_wins(shard))}, {}


def count_part_wins(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """A step over the parts of split units, whose counts are summed."""
    total = np.zeros((int(theta["split.offsets"][-1]), 2))
    total[split_slice(shard, theta["split.offsets"])] = _wins(shard)
    return None, {"split.wins": total}


def _wins(shard: Record) -> Array:
    counts = np.zeros((int(shard["unit.nodes"][-1]), 2))
    rows = rows_of(shard)
    kernels.wins(rows.winner, rows.loser, rows.weight, counts)
    return counts
