"""The gold table: graded truth for some items of some queries, or the true order of some pairs of items.

Gold is small and decides much, so a bad row is an error and not set aside. Items that nobody judged are only counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distrank.errors import InputError
from distrank.records import Array
from distrank.tables.batches import Batch, TableFile
from distrank.tables.checks import NOT_TEXT, Reasons, check_ids, check_values
from distrank.tables.columns import GOLD, GOLD_PAIRS, Plan, Shape, check_renames, plan_columns
from distrank.tables.encode import constant_column
from distrank.tables.fingerprint import content_fingerprint
from distrank.tables.formats import open_table
from distrank.tables.frames import Frame, FrameTable
from distrank.tables.ids import plain_ids, same_ids, show_id
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


@dataclass(frozen=True)
class GoldPairs:
    """One row for every pair of known order."""

    query: pa.Array
    winner: pa.Array
    loser: pa.Array
    source: str = "gold"
    content: str = ""
    files: Sequence[dict[str, Any]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.query)


AnyGold: TypeAlias = Gold | GoldPairs


def read_gold(source: Location | Sequence[Location], *, columns: Mapping[str, str] | None = None) -> AnyGold:
    """Read `query, item, relevance`, or `query, winner, loser`, from a file, a folder or several of them.

    Without a query column there is one query, `all`.
    """
    files = find_files(source)
    rows = _GoldRows(columns or {})
    for file in files:
        rows.add(open_table(file), file.partitions)
    return rows.finish(source_name(source), [file.fingerprint() for file in files])


def gold_from_frame(frame: Frame, *, columns: Mapping[str, str] | None = None) -> AnyGold:
    """Gold from a DataFrame or an Arrow table."""
    rows = _GoldRows(columns or {})
    rows.add(FrameTable(frame, "gold"), {})
    return rows.finish("gold", [])


class _GoldRows:
    """Collects and checks the rows of a gold table, graded items or pairs: the first file says which."""

    def __init__(self, renames: Mapping[str, str]) -> None:
        check_renames(renames, [GOLD, GOLD_PAIRS])
        self.renames = renames
        self.shape: Shape | None = None
        self.chunks: dict[str, list[pa.Array]] = {}
        self.relevance: list[Array] = []

    def add(self, table: TableFile, partitions: Mapping[str, str | None]) -> None:
        if self.shape is None:
            named = [self.renames.get(column, column) for column in GOLD_PAIRS.required]
            self.shape = GOLD_PAIRS if all(name in table.columns for name in named) else GOLD
            self.chunks = {name: [] for name in ("query", *self.shape.required) if name != "relevance"}
        plan = plan_columns(table.name, table.columns, partitions, self.shape, self.renames, sparse=table.sparse)
        for batch in table.batches(plan.wanted, plan.ids):
            self._add(table.name, batch, plan)

    def finish(self, source: str, files: Sequence[dict[str, Any]]) -> AnyGold:
        if not any(self.chunks.values()):
            raise InputError(f"{source}: there are no rows")
        ids = {name: pa.chunked_array(chunks).combine_chunks() for name, chunks in self.chunks.items()}
        if self.shape is GOLD_PAIRS:
            return _consistent_pairs(GoldPairs(**ids, source=source, files=files))
        return _without_copies(Gold(**ids, relevance=np.concatenate(self.relevance), source=source, files=files))

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
        if self.shape is GOLD:
            self.relevance.append(
                check_values(reasons, "relevance", f"{source}: the column 'relevance'", columns["relevance"])
            )
        else:
            same = pc.equal(self.chunks["winner"][-1], self.chunks["loser"][-1])
            reasons.add(pc.fill_null(same, False).to_numpy(zero_copy_only=False), "winner and loser are the same item")
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


def _consistent_pairs(gold: GoldPairs) -> GoldPairs:
    """Gold with one row per pair and its fingerprint; a pair in both orders is an error."""
    query = gold.query.dictionary_encode()
    kind = gold.winner.type
    both = pa.concat_arrays([gold.winner, gold.loser.cast(kind)]).dictionary_encode()
    code = both.indices.to_numpy().astype(np.int64)
    winner, loser = code[: len(gold)], code[len(gold) :]
    of_query = query.indices.to_numpy().astype(np.int64)
    low, high = np.minimum(winner, loser), np.maximum(winner, loser)
    order = np.lexsort((high, low, of_query))
    keys = np.stack([of_query, low, high])[:, order]
    same = (np.diff(keys) == 0).all(axis=0)
    clash = np.flatnonzero(same & (winner[order][1:] != winner[order][:-1]))
    if len(clash):
        one = int(order[clash[0]])
        pair = f"{show_id(gold.winner[one].as_py())} and {show_id(gold.loser[one].as_py())}"
        raise InputError(
            f"{gold.source}: query {show_id(gold.query[one].as_py())} has the pair {pair} in both orders; keep one"
        )
    keep = np.sort(order[np.concatenate([[True], ~same])])
    coded = [(query.dictionary, of_query[keep]), (both.dictionary, winner[keep]), (both.dictionary, loser[keep])]
    content = content_fingerprint("gold pairs", coded, [])
    rows = pa.array(keep)
    ids = {"query": gold.query, "winner": gold.winner, "loser": gold.loser.cast(kind)}
    return GoldPairs(
        **{name: column.take(rows) for name, column in ids.items()},
        source=gold.source,
        content=content,
        files=gold.files,
    )
