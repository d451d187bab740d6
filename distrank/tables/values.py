"""Numbers, truth values and times from columns of any type: the values, and which rows have none.

Text is parsed the same way whatever batch it comes in: Arrow's parser takes a whole batch when every value is plain,
and Python's takes the distinct values one by one otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distrank.errors import InputError
from distrank.records import Array
from distrank.tables.ids import plain_type

Parsed: TypeAlias = tuple[Array, Array]  # values, and a mask of the rows whose value was not understood

_TRUTH = {"true": 1.0, "t": 1.0, "yes": 1.0, "y": 1.0, "1": 1.0, "false": 0.0, "f": 0.0, "no": 0.0, "n": 0.0, "0": 0.0}


def parse_numbers(place: str, column: pa.Array) -> Parsed:
    """Finite numbers; null is none."""
    values = _numbers(place, column) + 0.0  # -0 is 0, so that equal values are equal bytes
    return values, ~np.isfinite(values)


def parse_truth(place: str, column: pa.Array) -> Parsed:
    """Truth values, also written as 1/0, yes/no, true/false; null and empty mean no."""
    if _is_text(column.type):
        values = _each_distinct(column, lambda text: _TRUTH.get(text.lower(), np.nan) if text else 0.0)
    else:
        values = _numbers(place, column)
    values = np.where(_nulls(column), 0.0, values)
    bad = ~((values == 0.0) | (values == 1.0))
    return values == 1.0, bad


def parse_times(place: str, column: pa.Array) -> Parsed:
    """Numbers as they are, dates and times as seconds since 1970 (UTC unless they say otherwise); null is unknown."""
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        micros = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        seconds = pc.fill_null(pc.divide(micros.cast(pa.float64(), safe=False), 1e6), np.nan)
        return seconds.to_numpy(zero_copy_only=False), np.zeros(len(column), bool)
    missing = _nulls(column)
    if _is_text(column.type):
        missing = missing | pc.fill_null(pc.equal(pc.utf8_trim_whitespace(_plain_text(column)), ""), True).to_numpy(
            zero_copy_only=False
        )
        values = _as_floats(column)
        if values is None:
            values = _each_distinct(column, _time)
    else:
        values = _numbers(place, column)
    return np.where(missing, np.nan, values), ~np.isfinite(values) & ~missing


def _numbers(place: str, column: pa.Array) -> Array:
    """The values as floats, NaN where there is none."""
    kind = plain_type(column.type)
    if _is_text(kind):
        plain = _as_floats(column)
        return _each_distinct(column, _number) if plain is None else plain
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    ):
        raise InputError(f"{place} holds {kind}, but numbers are expected; convert the column")
    values = _undictionary(column)
    values = values.cast(pa.uint8()) if pa.types.is_boolean(kind) else values
    return pc.fill_null(values.cast(pa.float64(), safe=False), np.nan).to_numpy(zero_copy_only=False)


def _as_floats(column: pa.Array) -> Array | None:
    """A column of text as floats if Arrow's parser takes all of it."""
    try:
        floats = pc.utf8_trim_whitespace(_plain_text(column)).cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    return pc.fill_null(floats, np.nan).to_numpy(zero_copy_only=False)


def _each_distinct(column: pa.Array, parse: Callable[[str], float]) -> Array:
    """Parse every distinct text once; null is NaN."""
    encoded = _plain_text(column).dictionary_encode()
    parsed = np.array([parse(text.strip()) for text in encoded.dictionary.to_pylist()] + [np.nan])
    return parsed[pc.fill_null(encoded.indices, len(parsed) - 1).to_numpy(zero_copy_only=False)]


def _number(text: str) -> float:
    try:
        return np.nan if "_" in text else float(text)
    except ValueError:
        return np.nan


def _time(text: str) -> float:
    number = _number(text)
    if not np.isnan(number):
        return number
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return np.nan
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _plain_text(column: pa.Array) -> pa.Array:
    return _undictionary(column).cast(pa.large_string())


def _undictionary(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _is_text(kind: pa.DataType) -> bool:
    kind = plain_type(kind)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _nulls(column: pa.Array) -> Array:
    return column.is_null().to_numpy(zero_copy_only=False)
