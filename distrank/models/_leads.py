"""What the methods share that only look at who leads in every pair: the leads, and orders as scores."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from distrank.contract import Info, Run, Step, Traits
from distrank.models._pairwise import PairwiseModel, rows_of
from distrank.records import Array, Record, scalar
from distrank.settings import setting

EVEN = 1e-9  # of the weight of a pair: a lead below this is the rounding of sums, not a majority


@dataclass(frozen=True)
class LeadsSettings:
    """Settings of the methods that order items by votes on pairs."""

    ties: str = setting("half", "a tie is half a vote each way, or is left out", choices=("half", "drop"))


def with_leads(shard: Record) -> Record:
    """The shard with the neighbours of every item (`kernels.leads`): `lead.offsets`, `lead.other`, `lead.lead`, and
    `lead.total`, the weight of all judgments of the pair."""
    rows, nodes = rows_of(shard), int(shard["unit.nodes"][-1])
    winner, loser = rows.winner.astype(np.int64), rows.loser.astype(np.int64)
    weight = np.ones(len(winner)) if rows.weight is None else rows.weight
    item, other = np.concatenate([winner, loser]), np.concatenate([loser, winner])
    pairs, place = np.unique(item * nodes + other, return_inverse=True)
    lead = np.bincount(place, np.concatenate([weight, -weight]), len(pairs))
    total = np.bincount(place, np.concatenate([weight, weight]), len(pairs))
    lead = np.where(np.abs(lead) <= EVEN * total, 0.0, lead)
    counts = np.bincount(pairs // max(nodes, 1), minlength=nodes)
    return {
        **shard,
        "lead.offsets": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "lead.other": pairs % max(nodes, 1),
        "lead.lead": lead,
        "lead.total": total,
    }


def order_scores(unit_nodes: Array, place: Array) -> Array:
    """An order as scores: how many items of the unit come after the item."""
    return np.repeat(np.diff(unit_nodes) - 1.0, np.diff(unit_nodes)) - place


class LeadsModel(PairwiseModel):
    """An order from the votes on pairs, in one round. All judgments of a query must be in one place."""

    split = "never"
    traits = Traits(
        iterative=False,
        monotone=False,
        opted_out={
            "objective": "the order comes from sorting, not from an objective",
            "relabelling": "items that the votes do not tell apart are ordered by id",
        },
    )
    Settings = LeadsSettings

    @property
    @abstractmethod
    def step(self) -> Step:
        """The step that leaves `score` in local."""

    def prepare(self, shard: Record) -> Record:
        return with_leads(super().prepare(shard))

    def begin(self, run: Run, info: Info) -> Record:
        run(self.step, {})
        return {**self.empty_theta(info), "objective": scalar(np.nan), "converged": scalar(True)}
