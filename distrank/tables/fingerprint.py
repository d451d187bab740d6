"""The fingerprint of the data: a sum of row hashes modulo 2**128, independent of row order and of file splits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from distrank.kernels.hashing import fold_rows, fold_words, sum_rows
from distrank.records import Array
from distrank.tables.ids import stable_hash
from distrank.tables.threads import each

_BLOCK = 1 << 18  # rows whose hashes are held at a time


def content_fingerprint(
    form: str, coded: Sequence[tuple[pa.Array, Array]], values: Sequence[tuple[Array | None, float]]
) -> str:
    """32 hex digits for the rows of a table.

    `coded` gives columns of ids as (distinct ids, codes); `values` columns of numbers with the value that an absent
    column stands for, so that a column of defaults and no column are the same data.
    """
    seed = stable_hash(pa.array([form]))[0]
    tables: dict[int, Array] = {}
    for ids, _ in coded:
        if id(ids) not in tables:
            tables[id(ids)] = stable_hash(ids)
    count = len(coded[0][1])

    def block_sum(start: int) -> Array:
        span = slice(start, min(start + _BLOCK, count))
        low = np.full(span.stop - span.start, seed, np.uint64)
        high = low.copy()
        for ids, codes in coded:
            fold_rows(low, high, tables[id(ids)], codes[span])
        for column, default in values:
            numbers = np.full(len(low), default) if column is None else column[span].astype(np.float64)
            fold_words(low, high, (numbers + 0.0).view(np.uint64))  # -0 is 0
        return sum_rows(low, high)

    total = 0
    for low, high in each(block_sum, range(0, count, _BLOCK)):
        total += int(low) + (int(high) << 64)
    return f"{total % (1 << 128):032x}"
