"""What moved between two runs: ranks, annotators, and who is new or gone.

Items and annotators are matched by the stable hashes of their ids, so the comparison takes numbers, not texts, for all
rows but the few that are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from distrank.kernels.hashing import hash_pairs
from distrank.records import Array
from distrank.tables.ids import stable_hash

SUSPECT = ("spammer", "malicious")
SHOWN = 10  # movers of every kind


class Mover(NamedTuple):
    """An item whose rank changed."""

    query: Any
    item: Any
    before: int
    after: int


class Drift(NamedTuple):
    """An annotator whose quality changed."""

    annotator: Any
    before: float
    after: float
    kind_before: str
    kind_after: str


@dataclass(frozen=True)
class Tables:
    """The tables of a run that are compared."""

    rankings: pa.Table
    annotators: pa.Table


@dataclass(frozen=True)
class Changes:
    """Figures over all items and annotators that both runs have, and the largest changes among them."""

    items: dict[str, int]  # common, new, gone
    ranks: dict[str, float]  # changed, mean, largest: of the common items
    scores: dict[str, float]  # mean, largest absolute difference of the common items
    annotators: dict[str, int]  # common, new, gone
    quality: dict[str, float]  # mean, largest absolute difference of the common annotators
    suspects: dict[str, int]  # new, cleared
    movers: list[Mover] = field(default_factory=list)
    drifts: list[Drift] = field(default_factory=list)
    new_suspects: list[Drift] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        """The figures alone, for run.json: no ids."""
        names = ("items", "ranks", "scores", "annotators", "quality", "suspects")
        return {name: getattr(self, name) for name in names}


def compare_runs(before: Tables, after: Tables, shown: int = SHOWN) -> Changes:
    """What moved from one run to the next; `shown` limits the lists, not the figures."""
    items = _matched(_nodes(before.rankings), _nodes(after.rankings))
    ranks = _both(items, before.rankings, after.rankings, "rank")
    scores = _both(items, before.rankings, after.rankings, "score")
    people = _matched(_hashes(before.annotators["annotator"]), _hashes(after.annotators["annotator"]))
    quality = _both(people, before.annotators, after.annotators, "quality")
    moved, drifted = np.abs(ranks[1] - ranks[0]), np.abs(quality[1] - quality[0])
    suspect = [np.isin(_kinds(table), SUSPECT) for table in (before.annotators, after.annotators)]
    turned = suspect[1].copy()
    turned[people.after] &= ~suspect[0][people.before]
    cleared = suspect[0][people.before] & ~suspect[1][people.after]
    return Changes(
        items=items.counts(),
        ranks={"changed": int((moved > 0).sum()), "mean": _mean(moved), "largest": int(moved.max(initial=0))},
        scores=_sizes(scores[1] - scores[0]),
        annotators=people.counts(),
        quality=_sizes(quality[1] - quality[0]),
        suspects={"new": int(turned.sum()), "cleared": int(cleared.sum())},
        movers=[
            Mover(*(after.rankings[name][int(items.after[i])].as_py() for name in ("query", "item")), *map(int, pair))
            for i in _largest(moved, shown)
            for pair in [(ranks[0][i], ranks[1][i])]
        ],
        drifts=[_drift(before, after, people, int(i)) for i in _largest(drifted, shown)],
        new_suspects=_suspects(before, after, people, turned, shown),
    )


class _Matched(NamedTuple):
    """Rows of two tables that are about the same: places in one and in the other, and how many rows there were."""

    before: Array
    after: Array
    rows: tuple[int, int]

    def counts(self) -> dict[str, int]:
        common = len(self.before)
        return {"common": common, "new": self.rows[1] - common, "gone": self.rows[0] - common}


def _matched(before: Array, after: Array) -> _Matched:
    _, one, other = np.intersect1d(before, after, return_indices=True)
    order = np.argsort(other)  # in the order of the later table
    return _Matched(one[order], other[order], (len(before), len(after)))


def _both(rows: _Matched, before: pa.Table, after: pa.Table, column: str) -> tuple[Array, Array]:
    return before[column].to_numpy()[rows.before], after[column].to_numpy()[rows.after]


def _largest(values: Array, count: int) -> Array:
    """The places of the largest values above 0, the largest first, equal ones in order."""
    order = np.argsort(-values, kind="stable")[:count]
    return order[values[order] > 0]


def _drift(before: Tables, after: Tables, people: _Matched, place: int) -> Drift:
    old, new = int(people.before[place]), int(people.after[place])
    return Drift(
        after.annotators["annotator"][new].as_py(),
        *(table["quality"][row].as_py() for table, row in ((before.annotators, old), (after.annotators, new))),
        *(table["kind"][row].as_py() for table, row in ((before.annotators, old), (after.annotators, new))),
    )


def _suspects(before: Tables, after: Tables, people: _Matched, turned: Array, shown: int) -> list[Drift]:
    """Annotators who are suspect now and were not: those with most judgments first."""
    rows = np.flatnonzero(turned)
    rows = rows[np.argsort(-after.annotators["judgments"].to_numpy()[rows], kind="stable")][:shown]
    place = {int(row): i for i, row in enumerate(people.after.tolist())}
    table = after.annotators
    return [
        _drift(before, after, people, place[row])
        if row in place
        else Drift(table["annotator"][row].as_py(), np.nan, table["quality"][row].as_py(), "new", _kind(table, row))
        for row in rows.tolist()
    ]


def _kind(table: pa.Table, row: int) -> str:
    return str(table["kind"][row].as_py())


def _kinds(table: pa.Table) -> Array:
    return np.array(table["kind"].to_pylist(), dtype=str)


def _sizes(difference: Array) -> dict[str, float]:
    size = np.abs(difference)
    return {"mean": _mean(size), "largest": float(size.max(initial=0.0))}


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else 0.0


def _nodes(rankings: pa.Table) -> Array:
    return hash_pairs(_hashes(rankings["query"]), _hashes(rankings["item"]))


def _hashes(column: pa.ChunkedArray) -> Array:
    return np.concatenate([np.empty(0, np.uint64), *(stable_hash(chunk) for chunk in column.chunks)])


def changes_dict(changes: Changes) -> Mapping[str, Any]:
    """Everything, for programs."""
    lists = {name: [entry._asdict() for entry in getattr(changes, name)] for name in ("movers", "drifts")}
    return {**changes.figures(), **lists, "new_suspects": [entry._asdict() for entry in changes.new_suspects]}
