"""What one annotator said in one unit, from judgments of any form: a *group* of entries and contests.

    unit.groups      offsets of the units into the groups      group.owner    place of the annotator in annotator.code
    group.entries    offsets of the groups into the entries    group.list     whether the judgments came as a list
    entry.item       node of the entry                         entry.wins     contests that it won, best entry first
    entry.contests   offsets of the entries into the contests  contest.other  the opponent's entry; contest.won  who won

Preferences: all judgments of a pair by one annotator are one contest, won by the side with more weight; with equal
weight on both sides, or a tie, there is no contest. Contests are listed on both sides.

Ratings and rankings: an item has one value, the weighted mean of what the annotator gave it, and has won against every
item of the list with a lower one. Contests are not listed: the wins say it all, so a list of m items takes m entries
and not m^2 / 2 pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from distrank.contract import Info, Model, Run, Tables
from distrank.kernels import kernel
from distrank.kernels import opinions as kernels
from distrank.models._pairwise import UNKNOWN, PairwiseModel, by_annotator, shares
from distrank.records import Array, Record, scalar
from distrank.stats import dense

EVEN = 1e-9  # of the weight of a pair: a lead below this is the rounding of sums, not a majority


class Opinions(NamedTuple):
    """Entries and contests, as kernels take them."""

    item: Array
    wins: Array
    contests: Array
    other: Array
    won: Array


def opinions_of(shard: Record) -> Opinions:
    """The arrays that `with_opinions` made."""
    item, wins, contests = (shard[f"entry.{name}"] for name in ("item", "wins", "contests"))
    return Opinions(item, wins, contests, shard["contest.other"], shard["contest.won"])


def with_opinions(shard: Record) -> Record:
    """The shard with groups in place of rows."""
    kept = {name: array for name, array in shard.items() if not name.startswith("row.")}
    found = _from_preferences(shard) if "row.winner" in shard else _from_lists(shard)
    return {**kept, **found}


def group_rows(shard: Record) -> tuple[Array, Array, Array]:
    """The group of every row, and the unit and annotator of every group; rows are in canonical order."""
    annotator, offsets = shard["row.annotator"], shard["unit.rows"]
    unit = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    starts = np.ones(len(annotator), bool)
    starts[1:] = (annotator[1:] != annotator[:-1]) | (unit[1:] != unit[:-1])
    return np.cumsum(starts) - 1, unit[starts], annotator[starts].astype(np.int64)


def _from_preferences(shard: Record) -> Record:
    group, unit, annotator = group_rows(shard)
    winner, loser = shard["row.winner"].astype(np.int64), shard["row.loser"].astype(np.int64)
    weight = shard["row.weight"] if "row.weight" in shard else np.ones(len(winner))
    side = np.where(winner < loser, weight, -weight)
    if "row.tie" in shard:
        side = np.where(shard["row.tie"], 0.0, side)
    group, low, high, lead = _summed(group, np.minimum(winner, loser), np.maximum(winner, loser), side, weight)
    nodes = max(int(shard["unit.nodes"][-1]), 1)
    # both sides of every contest, and the entries they belong to
    me, them = np.concatenate([low, high]), np.concatenate([high, low])
    won = np.concatenate([lead > 0.0, lead < 0.0])
    group = np.concatenate([group, group])
    entries, place = np.unique(group * nodes + me, return_inverse=True)
    wins = np.bincount(place, won, len(entries)).astype(np.float64)
    of_group = entries // nodes
    order = np.lexsort((entries, -wins, of_group))  # best first within a group
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    mine = rank[place]
    theirs = rank[np.searchsorted(entries, group * nodes + them)]
    by_entry = np.lexsort((theirs, mine))
    return {
        **_groups(shard, unit, annotator, of_group),
        "group.list": np.zeros(len(unit), bool),
        "entry.item": (entries % nodes)[order],
        "entry.wins": wins[order],
        "entry.contests": np.concatenate([[0], np.cumsum(np.bincount(mine, minlength=len(entries)))]).astype(np.int64),
        "contest.other": theirs[by_entry],
        "contest.won": won[by_entry],
    }


def _from_lists(shard: Record) -> Record:
    group, unit, annotator = group_rows(shard)
    value = shard["row.rating"] if "row.rating" in shard else -shard["row.rank"]
    weight = shard["row.weight"] if "row.weight" in shard else np.ones(len(value))
    kept = weight > 0.0
    nodes = max(int(shard["unit.nodes"][-1]), 1)
    entries, place = np.unique(group[kept] * nodes + shard["row.item"][kept], return_inverse=True)
    total = np.bincount(place, weight[kept], len(entries))
    mean = np.bincount(place, (weight * value)[kept], len(entries)) / np.where(total > 0.0, total, 1.0)
    of_group = entries // nodes
    order = np.lexsort((entries, -mean, of_group))
    offsets = _groups(shard, unit, annotator, of_group)
    wins = np.empty(len(entries))
    _count_wins(offsets["group.entries"], mean[order], wins)
    return {
        **offsets,
        "group.list": np.ones(len(unit), bool),
        "entry.item": (entries % nodes)[order],
        "entry.wins": wins,
        "entry.contests": np.zeros(len(entries) + 1, np.int64),
        "contest.other": np.empty(0, np.int64),
        "contest.won": np.empty(0, bool),
    }


def _summed(group: Array, low: Array, high: Array, side: Array, weight: Array) -> tuple[Array, Array, Array, Array]:
    """One row per pair of a group, with the lead of its lower item; pairs without a lead are left out."""
    order = np.lexsort((high, low, group))
    group, low, high = group[order], low[order], high[order]
    first = np.ones(len(group), bool)
    first[1:] = (group[1:] != group[:-1]) | (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    place = np.cumsum(first) - 1
    pairs = int(first.sum())
    lead, total = np.bincount(place, side[order], pairs), np.bincount(place, weight[order], pairs)
    decided = np.abs(lead) > EVEN * total
    return group[first][decided], low[first][decided], high[first][decided], lead[decided]


def _groups(shard: Record, unit: Array, annotator: Array, of_group: Array) -> Record:
    """Offsets and owners of the groups."""
    units = len(shard["unit.nodes"]) - 1
    codes, owner = np.unique(annotator, return_inverse=True)
    return {
        "unit.groups": np.concatenate([[0], np.cumsum(np.bincount(unit, minlength=units))]).astype(np.int64),
        "group.entries": np.concatenate([[0], np.cumsum(np.bincount(of_group, minlength=len(unit)))]).astype(np.int64),
        "group.owner": owner.astype(np.int64),
        "annotator.code": codes,
    }


@kernel
def _count_wins(group_entries: Array, value: Array, wins: Array) -> None:
    """How many entries of the group have a lower value; values fall within a group."""
    for g in range(len(group_entries) - 1):
        end = group_entries[g + 1]
        s = end - 1
        while s >= group_entries[g]:
            first = s
            while first > group_entries[g] and value[first - 1] == value[s]:
                first -= 1
            wins[first : s + 1] = end - 1 - s
            s = first - 1


def group_agreement(shard: Record, level: Array) -> Array:
    """Contests that agree with an order, given as `levels`, and all contests, by group."""
    counts = np.zeros((len(shard["group.owner"]), 2))
    units, groups, entries = shard["unit.nodes"], shard["unit.groups"], shard["group.entries"]
    kernels.agreement(units, groups, entries, shard["group.list"], *opinions_of(shard), level, counts)
    return counts


def by_owner(shard: Record, counts: Array) -> Array:
    """Counts of groups, added up by annotator."""
    owners = len(shard["annotator.code"])
    return np.stack([np.bincount(shard["group.owner"], counts[:, side], owners) for side in (0, 1)], axis=1)


def by_unit(shard: Record, counts: Array) -> Array:
    """Counts of groups, added up by unit."""
    units = len(shard["unit.groups"]) - 1
    unit = np.repeat(np.arange(units), np.diff(shard["unit.groups"]))
    return np.stack([np.bincount(unit, counts[:, side], units) for side in (0, 1)], axis=1)


def measure_opinions(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step: which contests agree with the order of the scores, by annotator and by unit."""
    counts = group_agreement(shard, kernels.levels(shard["unit.nodes"], local["score"]))
    new = {**local, "agreement": shares(by_unit(shard, counts))}
    return new, by_annotator(shard, int(theta["count"]), agreed=by_owner(shard, counts))


class OpinionModel(Model):
    """Scores from the opinions of annotators, in every form; a subclass leaves `score` in local when it ends."""

    form = "preferences"
    native = ("preferences", "ratings", "rankings")
    split = "never"

    def prepare(self, shard: Record) -> Record:
        return with_opinions(shard)

    def conclude(self, run: Run, theta: Record) -> Record:
        """One more round: every annotator's and every query's agreement with the consensus."""
        count = len(theta["agreement"])
        agreed = run(measure_opinions, {"count": scalar(count)})
        return {**theta, "agreement": shares(dense(agreed, "annotator/agreed", count))}

    def finalize(self, shard: Record, local: Record, theta: Record) -> Tables:  # noqa: ARG002 (scores are local)
        return {"rankings": {"score": local["score"]}, "queries": {"agreement": local["agreement"]}}

    def annotators(self, theta: Record, info: Info) -> Record:  # noqa: ARG002 (all that is needed is in theta)
        return {"quality": theta["agreement"], "agreement": theta["agreement"]}

    def warnings(self, theta: Record, info: Info) -> list[str]:  # noqa: ARG002
        if not info.disconnected:
            return []
        return [PairwiseModel.disconnected.format(count=info.disconnected, queries=info.queries)]

    def empty_theta(self, info: Info) -> Record:
        """The entries that the outputs rely on."""
        return {"agreement": np.full(info.annotators, UNKNOWN)}
