"""Batches in, judgments out: validated row by row, ids turned into codes, memory bounded by the codes.

Ids are entered into one table per kind as they come (winners and losers share the items'), so the text of a batch is
forgotten once it is encoded. At the end the ids are sorted and the codes renumbered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from distrank.contract import Form
from distrank.errors import InputError
from distrank.kernels.grouping import tally
from distrank.records import Array
from distrank.tables.batches import Batch
from distrank.tables.checks import NOT_TEXT, SELF_COMPARISON, Reasons, check_ids, check_values
from distrank.tables.columns import ID_COLUMNS, SHAPES, Plan
from distrank.tables.duplicates import drop_duplicates
from distrank.tables.ids import plain_ids, plain_type, same_ids, show_id
from distrank.tables.interner import Interner
from distrank.tables.judgments import Counts, Judgments
from distrank.tables.rejected import Rejected
from distrank.tables.threads import each

Duplicates: TypeAlias = Literal["keep", "drop"]
DOMAINS = {"query": "queries", "annotator": "annotators", "winner": "items", "loser": "items", "item": "items"}
_DEFAULTS = {"tie": False, "weight": 1.0, "timestamp": np.nan}


class Encoder:
    """Takes the batches of all files of a table."""

    def __init__(self, form: Form, *, locate: bool = False, beside: Encoder | None = None) -> None:
        """`beside` is an encoder of another form, to share the numbering of ids with."""
        self.form, self.shape = form, SHAPES[form]
        self.interners = {domain: Interner() for domain in dict.fromkeys(DOMAINS.values())}
        self.types: dict[str, tuple[pa.DataType, str]] = {}  # of every kind of ids, and the file that settled it
        if beside is not None:
            self.interners, self.types = beside.interners, beside.types
        self.chunks: list[tuple[int, dict[str, Array]]] = []  # the accepted rows of every batch, and how many
        self.places: list[tuple[str, Array]] | None = [] if locate else None  # source and rows of accepted rows
        self.rejected = Rejected(self.shape.columns)
        self.read, self.accepted = 0, 0

    def add(self, source: str, batch: Batch, plan: Plan, *, sparse: bool = False) -> None:
        """Check and encode a batch."""
        count = len(batch.rows)
        self.read += count + len(batch.malformed)
        self.rejected.add_malformed(source, batch.malformed)
        if count == 0:
            return
        columns = {name: batch.columns[stored] for name, stored in plan.stored.items()}
        columns |= {name: constant_column(value, count) for name, value in plan.constant.items()}
        if sparse and "weight" in plan.stored:
            columns["weight"] = columns["weight"].fill_null("1")
        reasons = Reasons(count)
        for name, stored in plan.stored.items():
            if stored in batch.undecodable:
                reasons.add(batch.undecodable[stored], f"{name} is {NOT_TEXT}")
        encoded = self._encode(source, columns, reasons)
        keep = reasons.code == 0
        if keep.all():
            self._keep(source, encoded, batch.rows)
        else:
            self.rejected.add(source, batch.rows, reasons, columns)
            self._keep(source, {name: column[keep] for name, column in encoded.items()}, batch.rows[keep])

    def finish(self, *, duplicates: Duplicates = "keep", files: Sequence[dict[str, Any]] = (), name: str) -> Judgments:
        """The judgments of all batches."""
        refuse_empty(name, self.read, self.accepted, self.rejected.counts)
        columns = self.columns()
        ids: dict[str, pa.Array] = dict(each(lambda domain: self.sort_ids(domain, [columns]), list(self.interners)))
        dropped = 0
        if duplicates == "drop" and self.places is not None:
            columns, dropped = drop_duplicates(self.form, ids, columns, self.places, self.rejected)
        counts = Counts(
            read=self.read,
            accepted=self.accepted - dropped,
            rejected=self.read - self.accepted + dropped,
            duplicates=dropped,
            by_reason=dict(self.rejected.counts),
        )
        table, warnings = self.rejected.table(), small_data_warnings(ids)
        return Judgments(self.form, **ids, **columns, counts=counts, rejected=table, files=files, warnings=warnings)

    def _encode(self, source: str, columns: dict[str, pa.Array], reasons: Reasons) -> dict[str, Array]:
        """Codes and values; what cannot be used is marked in the reasons."""
        encoded: dict[str, Array] = {}
        for name, column in columns.items():
            if name in ID_COLUMNS:
                ids = plain_ids(f"{source}: the column {name!r}", column)
                check_ids(reasons, name, ids)
                encoded[name] = self._codes(source, name, ids)
            else:
                encoded[name] = check_values(reasons, name, f"{source}: the column {name!r}", column)
        if self.form == "preferences":
            reasons.add(encoded["winner"] == encoded["loser"], SELF_COMPARISON)
        return encoded

    def _keep(self, source: str, encoded: dict[str, Array], rows: Array) -> None:
        self.chunks.append((len(rows), encoded))
        if self.places is not None:
            self.places.append((source, rows))
        self.accepted += len(rows)

    def _codes(self, source: str, name: str, ids: pa.Array) -> Array:
        """The codes of a column of ids; all files must have ids of one type."""
        kind = plain_type(ids.type)
        if pa.types.is_null(kind):
            return np.zeros(len(ids), np.uint32)  # nothing but missing ids, which were rejected already
        known, where = self.types.setdefault(DOMAINS[name], (kind, f"{source} ({name})"))
        if not same_ids(known, kind):
            raise InputError(
                f"{source}: the column {name!r} holds {kind}, but {where} holds {known}; "
                "ids must have one type in all files and columns: convert one of them"
            )
        return self.interners[DOMAINS[name]].codes(ids)

    def columns(self) -> dict[str, Any]:
        """The columns of all batches; the batches are forgotten."""
        columns: dict[str, Any] = {}
        for column in self.shape.columns:
            if any(column in chunk for _, chunk in self.chunks):
                columns[column] = np.concatenate([_taken(chunk, column, count) for count, chunk in self.chunks])
        return columns

    def sort_ids(self, domain: str, tables: Sequence[dict[str, Any]]) -> tuple[str, pa.Array]:
        """Sort the ids of one kind and renumber the columns of all tables that hold their codes."""
        interner = self.interners.pop(domain)
        places = [
            (table, name) for table in tables for name, kind in DOMAINS.items() if kind == domain and name in table
        ]
        used = np.zeros(interner.count, bool)
        for table, name in places:
            used |= tally(table[name], interner.count) > 0
        ids, place = interner.sorted_ids(self.types[domain][0], used)
        for table, name in places:
            table[name] = place[table[name]]
        return domain, ids


def _taken(chunk: dict[str, Array], column: str, count: int) -> Array:
    """Take a column out of a chunk; rows of a file that does not have it get what its absence means."""
    return chunk.pop(column) if column in chunk else np.full(count, _DEFAULTS[column])


def refuse_empty(name: str, read: int, accepted: int, reasons: Counter[str]) -> None:
    """There must be rows, and some that can be used."""
    if read == 0:
        raise InputError(f"{name}: there are no rows")
    if accepted == 0:
        common = ", ".join(f"{reason} ({n:,})" for reason, n in reasons.most_common(3))
        raise InputError(f"{name}: none of the {read:,} rows can be used: {common}. Correct the rows")


def small_data_warnings(ids: Mapping[str, pa.Array]) -> list[str]:
    """What to say about data that is too small to tell much."""
    annotators, items, found = ids["annotators"], ids["items"], []
    if len(annotators) == 1:
        only = show_id(annotators[0].as_py())
        found.append(f"there is one annotator only, {only}: agreement and quality cannot be told")
    if len(items) == 1:
        found.append(f"there is one item only, {show_id(items[0].as_py())}: there is nothing to rank")
    return found


def constant_column(value: str | None, count: int) -> pa.Array:
    """One id for every row, or none for any."""
    if value is None:
        return pa.nulls(count)
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([value]))
