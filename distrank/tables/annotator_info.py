"""The annotator info table: statements about the expertise of annotators, as `learn` takes them.

    annotator, kind, value, low, high, other, confidence

    known         theta = value, exactly; with a confidence only near it          annotator, value
    range         theta in [low, high]                                            annotator, low, high
    better_than   theta below that of the other annotator: better                 annotator, other

theta is the dispersion of `ltrma`: lower is better, 0 is a guess. The confidence (eta of the paper, 20 where none is
given) says how steeply the statement rules. Like gold, the table is small and decides much: a bad row is an error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distrank.errors import InputError
from distrank.records import Array, Record
from distrank.tables.checks import Reasons, check_ids
from distrank.tables.fingerprint import content_fingerprint
from distrank.tables.frames import Frame, FrameTable
from distrank.tables.ids import plain_ids, same_ids, show_id, whole_numbers
from distrank.tables.read import read_table
from distrank.tables.sources import Location, find_files, source_name
from distrank.tables.values import parse_numbers

KINDS = ("known", "range", "better_than")
NUMBERS = ("value", "low", "high", "confidence")
NEEDS = {"known": ("value",), "range": ("low", "high"), "better_than": ("other",)}
CONFIDENCE = 20.0  # [Wu16] section 6
HIGHEST = 20.0  # |theta| beyond which nothing is told apart
_COLUMNS = ("annotator", "kind", *NUMBERS, "other")


@dataclass(frozen=True)
class AnnotatorInfo:
    """One row per statement; numbers that are not given are NaN, others that are not given null."""

    annotator: pa.Array
    kind: tuple[str, ...]
    numbers: dict[str, Array]
    other: pa.Array
    source: str = "annotator info"
    content: str = ""
    files: Sequence[dict[str, Any]] = field(default_factory=list)


def read_annotator_info(source: Location | Sequence[Location]) -> AnnotatorInfo:
    """Read statements from a file, a folder or several of them."""
    files = [file.fingerprint() for file in find_files(source)]
    return _parsed(read_table(source), source_name(source), files)


def annotator_info_from_frame(frame: Frame) -> AnnotatorInfo:
    """Statements from a DataFrame or an Arrow table."""
    table = FrameTable(frame, "annotator info")
    wanted = [name for name in table.columns if name in _COLUMNS]
    pieces = [pa.table(batch.columns) for batch in table.batches(wanted, [])]
    if not pieces:
        raise InputError("annotator info: there are no rows")
    return _parsed(pa.concat_tables(pieces), "annotator info", [])


def side_information(info: AnnotatorInfo | None, annotators: pa.Array) -> tuple[Record, list[str]]:
    """The statements in the codes of the judgments (see `models._expertise`), and what to say about the others."""
    if info is None:
        return {}, []
    first = _codes(info, "annotator", info.annotator, annotators)
    second = _codes(info, "other", info.other, annotators)
    kind = np.array(info.kind)
    unknown = (first < 0) | ((kind == "better_than") & (second < 0))
    value, low, high = (info.numbers[name] for name in ("value", "low", "high"))
    given = info.numbers["confidence"]
    confidence = np.where(np.isnan(given), CONFIDENCE, given)
    exact = (kind == "known") & np.isnan(given) & ~unknown
    within = ((kind == "range") | ((kind == "known") & ~np.isnan(given))) & ~unknown
    relation = (kind == "better_than") & ~unknown
    record: Record = {
        "side.fixed": first[exact],
        "side.fixed_value": value[exact],
        "side.within": first[within],
        "side.low": np.where(kind == "known", value, low)[within],
        "side.high": np.where(kind == "known", value, high)[within],
        "side.within_confidence": confidence[within],
        "side.better": first[relation],
        "side.worse": second[relation],
        "side.relation_confidence": confidence[relation],
    }
    strangers = np.flatnonzero(unknown)
    if len(strangers) == 0:
        return record, []
    shown = ", ".join(show_id(info.annotator[int(place)].as_py()) for place in strangers[:3])
    told = f"{info.source}: {len(strangers):,} of {len(kind):,} statements are about annotators without judgments"
    return record, [f"{told} and are ignored, such as those about {shown}"]


def _parsed(table: pa.Table, source: str, files: Sequence[dict[str, Any]]) -> AnnotatorInfo:
    for name in ("annotator", "kind"):
        if name not in table.column_names:
            raise InputError(f"{source}: the column {name!r} is missing; the columns are {', '.join(_COLUMNS)}")
    columns = {name: table[name].combine_chunks() for name in table.column_names if name in _COLUMNS}
    count = table.num_rows
    annotator = _ids(source, "annotator", columns["annotator"])
    other = _ids(source, "other", columns["other"], needed=False) if "other" in columns else pa.nulls(count)
    if pa.types.is_null(other.type):
        other = pa.nulls(count, annotator.type)
    numbers = {name: _numbers(source, name, columns.get(name), count) for name in NUMBERS}
    kinds = tuple(str(kind) for kind in columns["kind"].to_pylist())
    for row, kind in enumerate(kinds):
        _check(source, row, kind, numbers, other)
    _check_fixed(source, annotator, kinds, numbers)
    coded = [_coded(annotator), _coded(pc.fill_null(other.cast(pa.string()), "")), _coded(pa.array(kinds))]
    values = [(np.where(np.isnan(column), -1e300, column), 0.0) for column in numbers.values()]
    content = content_fingerprint("annotator info", coded, values)
    return AnnotatorInfo(annotator, kinds, numbers, other, source, content, files)


def _check(source: str, row: int, kind: str, numbers: Mapping[str, Array], other: pa.Array) -> None:
    where = f"{source} row {row + 1}"
    if kind not in KINDS:
        raise InputError(f"{where}: kind is {kind!r}; expected one of {', '.join(KINDS)}")
    for name in NEEDS[kind]:
        if not other[row].is_valid if name == "other" else math.isnan(numbers[name][row]):
            raise InputError(f"{where}: {kind} needs {name}")
    if kind == "range" and not numbers["low"][row] <= numbers["high"][row]:
        raise InputError(f"{where}: low is {numbers['low'][row]:g}, above high, {numbers['high'][row]:g}")
    for name in ("value", "low", "high"):
        if kind != "better_than" and name in NEEDS[kind] and abs(numbers[name][row]) > HIGHEST:
            raise InputError(
                f"{where}: {name} is {numbers[name][row]:g}; theta lies between -{HIGHEST:g} and {HIGHEST:g}"
            )
    if numbers["confidence"][row] <= 0.0:
        raise InputError(f"{where}: confidence is {numbers['confidence'][row]:g}; it must be above 0")


def _check_fixed(source: str, annotator: pa.Array, kinds: Sequence[str], numbers: Mapping[str, Array]) -> None:
    fixed: dict[Any, float] = {}
    for row, kind in enumerate(kinds):
        if kind == "known" and math.isnan(numbers["confidence"][row]):
            value, name = float(numbers["value"][row]), annotator[row].as_py()
            if fixed.setdefault(name, value) != value:
                raise InputError(f"{source} row {row + 1}: theta of {show_id(name)} is known twice, differently")


def _ids(source: str, name: str, column: pa.Array, *, needed: bool = True) -> pa.Array:
    ids = plain_ids(f"{source}: the column {name!r}", column)
    values = ids.dictionary_decode() if pa.types.is_dictionary(ids.type) else ids
    if not needed:
        text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
        return pc.if_else(pc.equal(values, ""), None, values) if text else values
    reasons = Reasons(len(values))
    check_ids(reasons, name, values)
    if reasons.code.any():
        place = int(reasons.code.nonzero()[0][0])
        raise InputError(f"{source} row {place + 1}: {reasons.texts[reasons.code[place]]}; correct the row")
    return values


def _numbers(source: str, name: str, column: pa.Array | None, count: int) -> Array:
    """Numbers, NaN where the cell is empty; anything else is an error."""
    if column is None:
        return np.full(count, np.nan)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = pc.if_else(pc.equal(pc.utf8_trim_whitespace(column), ""), None, column)
    values, _ = parse_numbers(f"{source}: the column {name!r}", column)
    given = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(column.type):
        given = given & ~np.isnan(pc.fill_null(column, np.nan).to_numpy(zero_copy_only=False))
    bad = np.flatnonzero(given & ~np.isfinite(values))
    if len(bad):
        raise InputError(f"{source} row {int(bad[0]) + 1}: {name} is not a finite number; correct the row")
    return values


def _coded(ids: pa.Array) -> tuple[pa.Array, Array]:
    encoded = ids.dictionary_encode()
    return encoded.dictionary, encoded.indices.to_numpy()


def _codes(info: AnnotatorInfo, name: str, ids: pa.Array, known: pa.Array) -> Array:
    """The code of every annotator, -1 where the judgments do not know them."""
    if not same_ids(ids.type, known.type):
        numbers = whole_numbers(ids.drop_null()) is not None and pa.types.is_integer(known.type)
        if not numbers:
            raise InputError(
                f"{info.source}: the column {name} holds {ids.type}, but the judgments hold {known.type}; "
                "ids must have one type in all tables"
            )
    found = pc.index_in(ids.cast(known.type), value_set=known)
    return pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
