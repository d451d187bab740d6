"""The one canonical order of rows, so that the order of the input never matters.

Rows are compared by their codes, then by their values (weights, ratings). The codes of a row nearly always fit into
one 64-bit key, and sorting plain keys is many times faster than sorting by several columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distrank.kernels.grouping import append_field, settle_runs
from distrank.records import Array


def bits_for(kinds: int) -> int:
    """How many bits hold the codes 0 .. kinds - 1."""
    return max(kinds - 1, 0).bit_length()


def canonical_order(
    codes: Sequence[Array], kinds: Sequence[int], values: Sequence[Array]
) -> tuple[list[Array], list[Array]]:
    """The columns in canonical order: by the codes, the first one first, then by the values.

    Every code is below its entry of `kinds`.
    """
    widths = [bits_for(kind) for kind in kinds]
    if sum(widths) > 64:
        order = np.lexsort([*reversed(values), *reversed(codes)])
        return [column[order] for column in codes], [column[order] for column in values]
    keys = np.zeros(len(codes[0]), np.uint32 if sum(widths) < 32 else np.uint64)
    for column, width in zip(codes, widths, strict=True):
        if width:
            append_field(keys, column, width)
    settled: list[Array] = []
    if values:
        order = np.argsort(keys)
        keys = keys[order]
        block = np.stack([column[order] for column in values])
        settle_runs(keys, block)
        settled = list(block)
    else:
        keys.sort()
    return _fields(keys, widths), settled


def _fields(keys: Array, widths: Sequence[int]) -> list[Array]:
    """The codes that were packed into the keys."""
    columns: list[Array] = []
    kind = keys.dtype.type
    below = sum(widths)
    for width in widths:
        below -= width
        if width:
            columns.append(((keys >> kind(below)) & kind((1 << width) - 1)).astype(np.uint32, copy=False))
        else:
            columns.append(np.zeros(len(keys), np.uint32))
    return columns
