"""The gold table: graded truth for some items of some queries.

Gold is small and decides much, so a bad row is an error and not set aside. Items that nobody judged are only counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distrank.errors import InputError
from distrank.records import Array
from distrank.tables.batches import Batch, TableFile
from distrank.tables.checks import NOT_TEXT, Reasons, check_ids, check_values
from distrank.tables.columns import GOLD, Plan, check_renames, plan_columns
from distrank.tables.encode import constant_column
from distrank.tables.fingerprint import content_fingerprint
from distrank.tables.formats import open_table
from distrank.tables.frames import Frame, FrameTable
from distrank.tables.ids import plain_ids, same_ids, show_id, whole_numbers
from distrank.tables.judgments import Judgments
from distrank.tables.sources import Location, find_files, source_name


@dataclass(frozen=True)
class Gold:
    """One row for every graded item."""

    query: pa.Array
    item: pa.Array
    relevance: Array
    source: str = "gold"
    content: str = ""  # fingerprint, independent of the order of the rows
    files: Sequence[dict[str, Any]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.relevance)


def read_gold(source: Location | Sequence[Location], *, columns: Mapping[str, str] | None = None) -> Gold:
    """Read `query, item, relevance` from a file, a folder or several of them; without queries there is one, `all`."""
    files = find_files(source)
    rows = _GoldRows(columns or {})
    for file in files:
        rows.add(open_table(file), file.partitions)
    return rows.finish(source_name(source), [file.fingerprint() for file in files])


def gold_from_frame(frame: Frame, *, columns: Mapping[str, str] | None = None) -> Gold:
    """Gold from a DataFrame or an Arrow table."""
    rows = _GoldRows(columns or {})
    rows.add(FrameTable(frame, "gold"), {})
    return rows.finish("gold", [])


class _GoldRows:
    """Collects and checks the rows of a gold table."""

    def __init__(self, renames: Mapping[str, str]) -> None:
        check_renames(renames, [GOLD])
        self.renames = renames
        self.chunks: dict[str, list[pa.Array]] = {"query": [], "item": []}
        self.relevance: list[Array] = []

    def add(self, table: TableFile, partitions: Mapping[str, str | None]) -> None:
        plan = plan_columns(table.name, table.columns, partitions, GOLD, self.renames, sparse=table.sparse)
        for batch in table.batches(plan.wanted, plan.ids):
            self._add(table.name, batch, plan)

    def finish(self, source: str, files: Sequence[dict[str, Any]]) -> Gold:
        if not self.relevance:
            raise InputError(f"{source}: there are no rows")
        query = pa.chunked_array(self.chunks["query"]).combine_chunks()
        item = pa.chunked_array(self.chunks["item"]).combine_chunks()
        return _without_copies(Gold(query, item, np.concatenate(self.relevance), source, files=files))

    def _add(self, source: str, batch: Batch, plan: Plan) -> None:
        if batch.malformed:
            first = batch.malformed[0]
            raise InputError(f"{source} row {first.row}: {first.reason}; correct the gold table")
        count = len(batch.rows)
        if count == 0:
            return
        columns = {name: batch.columns[stored] for name, stored in plan.stored.items()}
        columns |= {name: constant_column(value, count) for name, value in plan.constant.items()}
        reasons = Reasons(count)
        for name, stored in plan.stored.items():
            if stored in batch.undecodable:
                reasons.add(batch.undecodable[stored], f"{name} is {NOT_TEXT}")
        for name, chunks in self.chunks.items():
            chunks.append(_ids(source, name, columns[name], chunks))
            check_ids(reasons, name, chunks[-1])
        self.relevance.append(
            check_values(reasons, "relevance", f"{source}: the column 'relevance'", columns["relevance"])
        )
        if reasons.code.any():
            place = int(reasons.code.nonzero()[0][0])
            reason = reasons.texts[reasons.code[place]]
            raise InputError(f"{source} row {batch.rows[place]}: {reason}; gold rows must be complete: correct the row")


def _ids(source: str, name: str, column: pa.Array, before: Sequence[pa.Array]) -> pa.Array:
    """A column of ids as plain values of the type that the column has had before."""
    ids = plain_ids(f"{source}: the column {name!r}", column)
    values = ids.dictionary_decode() if pa.types.is_dictionary(ids.type) else ids
    kind = before[0].type if before else values.type
    if not same_ids(kind, values.type):
        raise InputError(
            f"{source}: the column {name!r} holds {values.type}, but other files hold {kind}; "
            "ids must have one type in all files"
        )
    return values.cast(kind)


def _without_copies(gold: Gold) -> Gold:
    """Gold with one row per item and its fingerprint; two grades for one item are an error."""
    query, item = gold.query.dictionary_encode(), gold.item.dictionary_encode()
    query_code, item_code = query.indices.to_numpy(), item.indices.to_numpy()
    order = np.lexsort((item_code, query_code))
    same = (np.diff(query_code[order]) == 0) & (np.diff(item_code[order]) == 0)
    clash = np.flatnonzero(same & (np.diff(gold.relevance[order]) != 0))
    if len(clash):
        one, other = sorted(order[clash[0] : clash[0] + 2].tolist())
        raise InputError(
            f"{gold.source}: query {show_id(gold.query[one].as_py())}, item {show_id(gold.item[one].as_py())} has two "
            f"grades, {gold.relevance[one]:g} and {gold.relevance[other]:g}; keep one of the rows"
        )
    keep = np.sort(order[np.concatenate([[True], ~same])])
    coded = [(query.dictionary, query_code[keep]), (item.dictionary, item_code[keep])]
    relevance = gold.relevance[keep]
    content = content_fingerprint("gold", coded, [(relevance, 0.0)])
    rows = pa.array(keep)
    return Gold(gold.query.take(rows), gold.item.take(rows), relevance, gold.source, content, gold.files)


class GoldLookup:
    """Gold in the codes of the judgments; remembers which of its rows were asked for."""

    def __init__(self, gold: Gold, judgments: Judgments) -> None:
        self.gold = gold
        self.base = np.uint64(max(len(judgments.items), 1))
        query = _codes(gold, "query", gold.query, judgments.queries)
        item = _codes(gold, "item", gold.item, judgments.items)
        known = np.flatnonzero((query >= 0) & (item >= 0))
        keys = query[known].astype(np.uint64) * self.base + item[known].astype(np.uint64)
        order = np.argsort(keys, kind="stable")
        self.keys, self.rows = keys[order], known[order]
        self.found = np.zeros(len(gold), bool)

    def __call__(self, query: Array, item: Array) -> Array:
        """The relevance of every (query, item) pair of codes, NaN where unknown."""
        if len(self.keys) == 0:
            return np.full(len(query), np.nan)
        keys = query.astype(np.uint64) * self.base + item
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        hit = self.keys[place] == keys
        self.found[self.rows[place[hit]]] = True
        return np.where(hit, self.gold.relevance[self.rows[place]], np.nan)

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


def unknown_items(gold: Gold, judgments: Judgments) -> list[str]:
    """What to say about gold items that nobody judged."""
    lookup = GoldLookup(gold, judgments)
    for column in judgments.item_columns:
        lookup(judgments.query, column)
    return lookup.warnings()


def _codes(gold: Gold, name: str, ids: pa.Array, known: pa.Array) -> Array:
    """The code of every gold id, -1 where the judgments do not know it."""
    if not same_ids(ids.type, known.type):
        # CSV holds the numbers of a Parquet file as text
        numbers, known_numbers = whole_numbers(ids), whole_numbers(known) if pa.types.is_integer(known.type) else None
        if numbers is None or known_numbers is None:
            raise InputError(
                f"{gold.source}: the column {name} holds {ids.type}, but the judgments hold {known.type}; "
                "ids must have one type in all tables"
            )
        ids, known = numbers, known_numbers
    return pc.fill_null(pc.index_in(ids.cast(known.type), known), -1).to_numpy(zero_copy_only=False)
