"""Judgments as columns of codes: what reading ends with and sharding begins with.

Codes follow the sorted order of the distinct ids (bytewise for text, numeric for numbers), so they do not depend on
the order of the rows or on the files they came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from distrank.contract import Form
from distrank.errors import InputError
from distrank.records import Array
from distrank.tables.fingerprint import content_fingerprint

DUPLICATE = "exact duplicate"
REJECTED_SCHEMA = pa.schema([("source", pa.string()), ("row", pa.int64()), ("reason", pa.string())])


@dataclass(frozen=True)
class Counts:
    """What became of the rows: `accepted + rejected = read`; dropped duplicates are among the rejected."""

    read: int
    accepted: int
    rejected: int = 0
    duplicates: int = 0
    by_reason: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Judgments:
    """Every accepted row as codes and numbers, and an account of all others."""

    form: Form
    queries: pa.Array
    items: pa.Array
    annotators: pa.Array
    query: Array
    annotator: Array
    winner: Array | None = None  # preferences
    loser: Array | None = None
    item: Array | None = None  # ratings and rankings
    rating: Array | None = None
    rank: Array | None = None
    tie: Array | None = None
    weight: Array | None = None
    timestamp: Array | None = None  # numbers as given, dates and times as seconds since 1970; NaN where unknown
    counts: Counts = field(default_factory=lambda: Counts(0, 0))
    derived: int = 0  # preferences that came from ratings and rankings, where several forms were given together
    rejected: pa.Table = field(default_factory=REJECTED_SCHEMA.empty_table)  # and the original columns as text
    files: Sequence[dict[str, Any]] = ()
    warnings: Sequence[str] = ()
    sparsity: float = 1.0  # share of the pairs of ratings or rankings that become preferences, drawn with the seed
    seed: int = 0

    def __len__(self) -> int:
        return len(self.query)

    @cached_property
    def content(self) -> str:
        """The fingerprint of the rows, made when it is first asked for: fits that publish nothing do not need it."""
        ids = [(self.queries, self.query), (self.annotators, self.annotator)]
        ids += [(self.items, column) for column in self.item_columns]
        numbers = [(self.value, 0.0), (self.tie, 0.0), (self.weight, 1.0), (self.timestamp, np.nan)]
        return content_fingerprint(self.form, ids, numbers)

    @property
    def item_columns(self) -> tuple[Array, ...]:
        """The columns that hold item codes."""
        columns = (self.winner, self.loser) if self.form == "preferences" else (self.item,)
        return tuple(column for column in columns if column is not None)

    @property
    def value(self) -> Array | None:
        """The rating or the rank of every row; None for preferences."""
        return self.rating if self.form == "ratings" else self.rank

    def check_limit(self, share: float) -> None:
        """Refuse the table if more than this share of its rows was rejected (dropped duplicates do not count)."""
        check_rejected(self.counts, self.rejected, share)


def check_rejected(counts: Counts, rejected: pa.Table, share: float) -> None:
    """Refuse a table of which more than this share of the rows was rejected."""
    bad = counts.rejected - counts.duplicates
    if bad <= share * counts.read:
        return
    reasons = {reason: n for reason, n in counts.by_reason.items() if reason != DUPLICATE}
    common = sorted(reasons.items(), key=lambda entry: (-entry[1], entry[0]))[:3]
    parts = [f"{reason}: {n:,} rows, first {_example(rejected, reason)}" for reason, n in common]
    raise InputError(
        f"{bad:,} of {counts.read:,} rows were rejected ({bad / counts.read:.1%}), more than the limit "
        f"of {share:.1%}. {'; '.join(parts)}. Correct the rows, or raise the limit (max_rejected)"
    )


def _example(rejected: pa.Table, reason: str) -> str:
    place = rejected["reason"].to_pylist().index(reason)
    return f"{rejected['source'][place].as_py()} row {rejected['row'][place].as_py()}"


def judgments_from_codes(
    form: Form, *, queries: pa.Array, items: pa.Array, annotators: pa.Array, **columns: Any
) -> Judgments:
    """Judgments that are codes already, such as simulated ones: ids distinct and sorted, columns as in `Judgments`."""
    count = len(columns["query"])
    kinds = {"query": len(queries), "annotator": len(annotators)} | dict.fromkeys(
        ("winner", "loser", "item"), len(items)
    )
    for name, column in columns.items():
        if name in kinds and count and not 0 <= np.min(column) <= np.max(column) < kinds[name]:
            raise ValueError(f"the column {name} has codes outside of its {kinds[name]} ids")
        codes = np.uint32 if name in kinds else bool
        columns[name] = np.asarray(column, codes) if name in kinds or name == "tie" else np.asarray(column) + 0.0
    return Judgments(form, queries, items, annotators, **columns, counts=Counts(count, count))
