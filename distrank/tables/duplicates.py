"""Exact duplicates: rows that agree in every column; the first one in the order of reading stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from distrank.contract import Form
from distrank.records import Array
from distrank.tables.checks import Reasons
from distrank.tables.columns import ID_COLUMNS, SHAPES
from distrank.tables.judgments import DUPLICATE
from distrank.tables.rejected import Rejected


def drop_duplicates(
    form: Form,
    ids: dict[str, pa.Array],
    columns: dict[str, Array],
    places: list[tuple[str, Array]],
    rejected: Rejected,
) -> tuple[dict[str, Any], int]:
    """The columns without later copies of a row, and how many there were; those are listed as rejected."""
    again = later_copies(list(columns.values()))
    if not again.any():
        return columns, 0
    start = 0
    for source, rows in places:
        span = slice(start, start + len(rows))
        start = span.stop
        if again[span].any():
            reasons = Reasons(len(rows))
            reasons.add(again[span], DUPLICATE)
            rejected.add(source, rows, reasons, {name: _values(ids, name, columns[name][span]) for name in columns})
    order = [name for name in SHAPES[form].columns if name in columns]
    return {name: columns[name][~again] for name in order}, int(again.sum())


def later_copies(columns: list[Array]) -> Array:
    """Which rows agree in all columns with a row before them."""
    # unknown times are equal to each other here, hence the comparison of bits
    words = [column.view(np.uint64) if column.dtype == np.float64 else column for column in columns]
    order = np.lexsort(words)  # stable: copies stay in the order of reading
    same = np.ones(max(len(order) - 1, 0), bool)
    for column in words:
        ordered = column[order]
        same &= ordered[1:] == ordered[:-1]
    again = np.zeros(len(order), bool)
    again[order[1:][same]] = True
    return again


def _values(ids: dict[str, pa.Array], name: str, codes: Array) -> pa.Array:
    domain = {"query": "queries", "annotator": "annotators"}.get(name, "items")
    return ids[domain].take(pa.array(codes)) if name in ID_COLUMNS else pa.array(codes)
