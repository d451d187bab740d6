"""Gold brought together with the judgments: which nodes it grades, which pairs of nodes it orders."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distrank.errors import InputError
from distrank.records import Array, Record
from distrank.tables.gold import AnyGold, Gold, GoldPairs
from distrank.tables.ids import same_ids, show_id, whole_numbers
from distrank.tables.judgments import Judgments


class Coded(Protocol):
    """A table whose ids have codes: judgments, or features."""

    @property
    def queries(self) -> pa.Array: ...

    @property
    def items(self) -> pa.Array: ...


class GradeLookup:
    """Graded gold in the codes of the judgments; remembers which of its rows were asked for."""

    def __init__(self, gold: Gold, judgments: Coded) -> None:
        self.gold = gold
        self.base = np.uint64(max(len(judgments.items), 1))
        query = codes_of(gold.source, "query", gold.query, judgments.queries)
        item = codes_of(gold.source, "item", gold.item, judgments.items)
        known = np.flatnonzero((query >= 0) & (item >= 0))
        keys = query[known].astype(np.uint64) * self.base + item[known].astype(np.uint64)
        order = np.argsort(keys, kind="stable")
        self.keys, self.rows = keys[order], known[order]
        self.found = np.zeros(len(gold), bool)

    def grades(self, query: Array, item: Array) -> Array:
        """The relevance of every node, given by the codes of its query and item; NaN where unknown."""
        if len(self.keys) == 0:
            return np.full(len(query), np.nan)
        keys = query.astype(np.uint64) * self.base + item
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        hit = self.keys[place] == keys
        self.found[self.rows[place[hit]]] = True
        return np.where(hit, self.gold.relevance[self.rows[place]], np.nan)

    def pairs(self, query: Array, item: Array) -> Record:  # noqa: ARG002 (grades give no list of pairs)
        """Nothing: grades order pairs without a list of them."""
        return {}

    def warnings(self) -> list[str]:
        """What to say about gold items that nobody judged, once all units were looked up."""
        strangers = np.flatnonzero(~self.found)
        if len(strangers) == 0:
            return []
        query, item = self.gold.query, self.gold.item
        examples = [f"{show_id(query[i].as_py())} / {show_id(item[i].as_py())}" for i in strangers[:3].tolist()]
        count = f"{len(strangers):,} of {len(self.gold):,}"
        where = f"{self.gold.source}: {count} gold items occur in no judgment of their query and are ignored"
        return [f"{where}, such as (query / item) {', '.join(examples)}"]


class PairLookup:
    """Gold pairs in the codes of the judgments; remembers which of its rows were asked for."""

    def __init__(self, gold: GoldPairs, judgments: Coded) -> None:
        self.gold = gold
        self.base = np.uint64(max(len(judgments.items), 1))
        query = codes_of(gold.source, "query", gold.query, judgments.queries)
        winner = codes_of(gold.source, "winner", gold.winner, judgments.items)
        loser = codes_of(gold.source, "loser", gold.loser, judgments.items)
        self.rows = np.flatnonzero((query >= 0) & (winner >= 0) & (loser >= 0))
        self.winner = query[self.rows].astype(np.uint64) * self.base + winner[self.rows].astype(np.uint64)
        self.loser = query[self.rows].astype(np.uint64) * self.base + loser[self.rows].astype(np.uint64)
        self.found = np.zeros(len(gold), bool)

    def grades(self, query: Array, item: Array) -> Array:  # noqa: ARG002 (pairs give no grades)
        """Unknown, everywhere."""
        return np.full(len(query), np.nan)

    def pairs(self, query: Array, item: Array) -> Record:
        """The pairs whose items are among these nodes, by the numbers of the nodes."""
        keys = query.astype(np.uint64) * self.base + item
        order = np.argsort(keys, kind="stable")
        winner, loser = _places(keys, order, self.winner), _places(keys, order, self.loser)
        here = np.flatnonzero((winner >= 0) & (loser >= 0))
        self.found[self.rows[here]] = True
        return {"gold.winner": winner[here].astype(np.uint32), "gold.loser": loser[here].astype(np.uint32)}

    def warnings(self) -> list[str]:
        """What to say about pairs of which nobody judged both items, once all units were looked up."""
        strangers = np.flatnonzero(~self.found)
        if len(strangers) == 0:
            return []
        gold = self.gold
        examples = [
            " / ".join(show_id(column[i].as_py()) for column in (gold.query, gold.winner, gold.loser))
            for i in strangers[:3].tolist()
        ]
        where = f"{gold.source}: {len(strangers):,} of {len(gold):,} gold pairs have an item that nobody judged"
        return [f"{where} and are ignored, such as (query / winner / loser) {', '.join(examples)}"]


def _places(keys: Array, order: Array, wanted: Array) -> Array:
    """Where each wanted key is, -1 where it is not."""
    if len(keys) == 0:
        return np.full(len(wanted), -1, np.int64)
    place = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    return np.where(keys[place] == wanted, place, -1)


Lookup: TypeAlias = GradeLookup | PairLookup


def look_up(gold: AnyGold, judgments: Coded) -> Lookup:
    """Gold of either kind, in the codes of the judgments."""
    return PairLookup(gold, judgments) if isinstance(gold, GoldPairs) else GradeLookup(gold, judgments)


def unknown_items(gold: AnyGold, judgments: Judgments) -> list[str]:
    """What to say about gold that nobody judged."""
    lookup = look_up(gold, judgments)
    query = np.concatenate([judgments.query] * len(judgments.item_columns))
    item = np.concatenate(list(judgments.item_columns))
    lookup.grades(query, item)
    lookup.pairs(query, item)
    return lookup.warnings()


def codes_of(source: str, name: str, ids: pa.Array, known: pa.Array) -> Array:
    """The code of every id of another table, -1 where the judgments do not know it."""
    if not same_ids(ids.type, known.type):
        # CSV holds the numbers of a Parquet file as text
        numbers, known_numbers = whole_numbers(ids), whole_numbers(known) if pa.types.is_integer(known.type) else None
        if numbers is None or known_numbers is None:
            raise InputError(
                f"{source}: the column {name} holds {ids.type}, but the judgments hold {known.type}; "
                "ids must have one type in all tables"
            )
        ids, known = numbers, known_numbers
    return pc.fill_null(pc.index_in(ids.cast(known.type), known), -1).to_numpy(zero_copy_only=False)
