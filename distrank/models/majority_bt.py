"""Majority-BT: one vote per pair of items, then Bradley-Terry.  [Chen13], section 5.2

The judgments of a pair in a query are weighed against each other (a tie weighs half on either side), and the side with
more weight has won the pair, once, however many judged it; with equal weights it is half a win each way. The scores
are those of `bradley_terry` on these votes. `quality` is the share of an annotator's judgments that agree with them.

Votes of a pair need all of its judgments in one place, so queries are never split: the judgments of the largest query
must fit into the memory of one worker.

[Chen13] Chen, Bennett, Collins-Thompson, Horvitz: Pairwise ranking aggregation in a crowdsourced setting. WSDM 2013.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.models._pairwise import rows_of
from distrank.models.bradley_terry import BradleyTerry, BradleyTerrySettings
from distrank.records import Record
from distrank.settings import setting

EVEN = 1e-9  # of the weight of a pair: a lead below this is the rounding of sums, not a majority


@dataclass(frozen=True)
class MajorityBTSettings(BradleyTerrySettings):
    """Settings of `majority-bt`."""

    ties: str = setting("half", "a tie is half a vote each way, or is left out", choices=("half", "drop"))


class MajorityBT(BradleyTerry):
    """Bradley-Terry on majority votes."""

    name = "majority-bt"
    title = "Majority-BT: Bradley-Terry on the majority vote of every pair"
    split = "never"
    Settings = MajorityBTSettings

    def prepare(self, shard: Record) -> Record:
        shard = super().prepare(shard)
        return {**shard, **votes(shard)}


def votes(shard: Record) -> Record:
    """The pairs of a shard and who won them, as a second set of preferences beside those of the annotators."""
    rows = rows_of(shard)
    nodes = int(shard["unit.nodes"][-1])
    winner, loser = rows.winner.astype(np.int64), rows.loser.astype(np.int64)
    weight = np.ones(len(winner)) if rows.weight is None else rows.weight
    # nodes are numbered within the shard, so that a pair of nodes is a pair of one query
    pairs, place = np.unique(np.minimum(winner, loser) * nodes + np.maximum(winner, loser), return_inverse=True)
    lead = np.bincount(place, np.where(winner < loser, weight, -weight), len(pairs))  # of the lower node
    total = np.bincount(place, weight, len(pairs))
    low, high = pairs // max(nodes, 1), pairs % max(nodes, 1)
    even = np.abs(lead) <= EVEN * total
    won, lost = np.where(lead > 0.0, low, high), np.where(lead > 0.0, high, low)
    # an even pair is there twice, once each way, at half the weight
    winner = np.concatenate([won, lost[even]]).astype(np.uint32)
    loser = np.concatenate([lost, won[even]]).astype(np.uint32)
    unit = np.searchsorted(shard["unit.nodes"], winner, side="right") - 1
    order = np.argsort(unit, kind="stable")
    units = len(shard["unit.nodes"]) - 1
    found: Record = {
        "vote.run": np.searchsorted(unit[order], np.arange(units + 1)),
        "vote.owner": np.zeros(units, np.uint32),  # nobody: votes are trusted alike
        "vote.winner": winner[order],
        "vote.loser": loser[order],
        "vote.unit": np.arange(units + 1),
    }
    if even.any():
        weight = np.concatenate([np.where(even, 0.5, 1.0), np.full(int(even.sum()), 0.5)])
        found["vote.weight"] = weight[order]
    return found
