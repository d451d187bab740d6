"""CondorcetFuse: items sorted by the majority of every pair.  [Montague02]

An item goes before another if a majority of the judgments of the pair says so. The relation need not be transitive:
the order is the one that a merge sort from ascending ids finds with it, a Hamiltonian path of the Condorcet graph, in
which no item loses to the one right after it. An item that beats all others comes first. Pairs that nobody
judged, or without a majority, count as equal. The score is the number of items that come after.

[Montague02] Montague, Aslam: Condorcet fusion for improved retrieval. CIKM 2002.
"""

from __future__ import annotations

import numpy as np

from distrank.contract import Step
from distrank.kernels.leads import sort_by_majority
from distrank.models._leads import LeadsModel, order_scores
from distrank.records import Array, Record


class Condorcet(LeadsModel):
    """One sort."""

    name = "condorcet"
    title = "CondorcetFuse: a sort by the majority of every pair"
    paper = "Montague02"
    estimates = "an order"

    @property
    def step(self) -> Step:
        return sort_units


def sort_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step over whole units."""
    place = np.empty(int(shard["unit.nodes"][-1]), np.int64)
    sort_by_majority(shard["unit.nodes"], shard["lead.offsets"], shard["lead.other"], shard["lead.lead"], place)
    return {"score": order_scores(shard["unit.nodes"], place)}, {}
