"""GreedyOrder: the item that leads most over the rest comes next.  [Cohen99]

PREF(s, t) is the mean over a query's annotators of 1 if the annotator puts s before t, 0 for the opposite, and 1/2
without a judgment. The potential of an item is the sum of PREF(s, t) - PREF(t, s) over the items t that are left; the
one with the highest potential is taken, until none is left. The agreement with PREF is at least half of what is
possible. Unjudged pairs add nothing, so the potential is the sum of the leads, up to the number of annotators.

The score is the number of items that come after. Equal potentials are ordered by id.

[Cohen99] Cohen, Schapire, Singer: Learning to order things. JAIR 10, 1999.
"""

from __future__ import annotations

import numpy as np

from distrank.contract import Step
from distrank.kernels.leads import sort_greedily
from distrank.models._leads import LeadsModel, order_scores
from distrank.records import Array, Record


class GreedyOrder(LeadsModel):
    """One greedy pass."""

    name = "greedy-order"
    title = "GreedyOrder: the largest lead over the rest comes next"
    paper = "Cohen99"
    estimates = "an order"

    @property
    def step(self) -> Step:
        return take_units


def take_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step over whole units."""
    place = np.empty(int(shard["unit.nodes"][-1]), np.int64)
    sort_greedily(shard["unit.nodes"], shard["lead.offsets"], shard["lead.other"], shard["lead.lead"], place)
    return {"score": order_scores(shard["unit.nodes"], place)}, {}
