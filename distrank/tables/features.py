"""The features table: numbers that describe every item of every query, for rankers.

    query, item, and any number of numeric columns      CSV, Parquet, JSON Lines, Arrow; without queries there is one,
    `all` grade qid:7 1:0.3 2:1.5 # item                      SVMlight/LETOR (`svmlight`), whose grades come along as
    relevance

A ranker cannot do without a number, so a bad value is an error that names file, row, column and value, and not set
aside. Two rows for one item must be equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from distrank.errors import InputError
from distrank.records import Array
from distrank.tables.batches import Batch, TableFile
from distrank.tables.checks import NOT_TEXT, Reasons, check_ids
from distrank.tables.columns import Shape, check_renames, plan_columns
from distrank.tables.encode import constant_column
from distrank.tables.fingerprint import content_fingerprint
from distrank.tables.formats import open_table
from distrank.tables.frames import Frame, FrameTable
from distrank.tables.ids import plain_ids, same_ids, show_id
from distrank.tables.sources import Location, SourceFile, find_files, source_name
from distrank.tables.svmlight import SVMLIGHT, read_svmlight
from distrank.tables.values import parse_numbers

FEATURES = Shape("features", ("item",))
LABEL_FEATURES = Shape("label features", ("item", "annotator"))


@dataclass(frozen=True)
class Features:
    """One row for every item of every query."""

    query: pa.Array
    item: pa.Array
    names: tuple[str, ...]
    values: Array  # a row per item, a column per feature
    relevance: Array | None = None  # the grades of SVMlight files
    source: str = "features"
    content: str = ""  # fingerprint, independent of the order of the rows
    files: Sequence[dict[str, Any]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.values)

    def places(self, names: Sequence[str]) -> list[int]:
        """The columns of these features; one that is missing is an error that names it."""
        missing = [name for name in names if name not in self.names]
        if missing:
            raise InputError(
                f"{self.source}: the feature {missing[0]!r} is missing ({len(missing)} in all); the ranker was trained "
                f"on {len(names)} features, {', '.join(names[:5])}, ..."
            )
        return [self.names.index(name) for name in names]


@dataclass(frozen=True)
class LabelColumns:
    """Numbers that describe single judgments, such as the time that an annotator spent: one row for each."""

    query: pa.Array
    item: pa.Array
    annotator: pa.Array
    names: tuple[str, ...]
    values: Array
    source: str
    content: str


def read_label_columns(source: Location | Sequence[Location]) -> LabelColumns:
    """Read `query, item, annotator` and numeric columns from a file, a folder or several."""
    rows = _FeatureRows({}, LABEL_FEATURES)
    for file in find_files(source):
        rows.add(open_table(file), file.partitions)
    name = source_name(source)
    ids, values = rows.joined(name)
    coded = [(column.dictionary, column.indices.to_numpy()) for column in (one.dictionary_encode() for one in ids)]
    columns = [(values[:, place], 0.0) for place in range(values.shape[1])]
    content = content_fingerprint("label features " + " ".join(rows.names), coded, columns)
    return LabelColumns(ids[0], ids[1], ids[2], rows.names, values, name, content)


def read_features(source: Location | Sequence[Location], *, columns: Mapping[str, str] | None = None) -> Features:
    """Read a file, a folder or several; `columns` renames `query` and `item`, all other columns are features."""
    files, name = find_files(source), source_name(source)
    text = [file.format == SVMLIGHT for file in files]
    if any(text) and not all(text):
        raise InputError(f"{name}: SVMlight files and tables cannot be mixed; convert one of them")
    facts = [file.fingerprint() for file in files]
    if all(text):
        return _without_copies(_from_svmlight(files, name, facts))
    rows = _FeatureRows(columns or {})
    for file in files:
        rows.add(open_table(file), file.partitions)
    return rows.finish(name, facts)


def features_from_frame(frame: Frame, *, columns: Mapping[str, str] | None = None) -> Features:
    """Features from a DataFrame or an Arrow table."""
    rows = _FeatureRows(columns or {})
    rows.add(FrameTable(frame, "features"), {})
    return rows.finish("features", [])


def _from_svmlight(files: Sequence[SourceFile], name: str, facts: Sequence[dict[str, Any]]) -> Features:
    table = read_svmlight(files)
    ids = (pa.array(table.query, pa.string()), pa.array(table.item, pa.string()))
    names = tuple(f"f{number + 1}" for number in range(table.values.shape[1]))
    return Features(*ids, names, table.values, table.grade, name, files=facts)


class _FeatureRows:
    """Collects and checks the rows of a features table; all files must have the same columns, in any order."""

    def __init__(self, renames: Mapping[str, str], shape: Shape = FEATURES) -> None:
        check_renames(renames, [shape])
        self.renames, self.shape = renames, shape
        self.names: tuple[str, ...] = ()
        self.chunks: dict[str, list[pa.Array]] = {name: [] for name in shape.columns}
        self.values: list[Array] = []

    def add(self, table: TableFile, partitions: Mapping[str, str | None]) -> None:
        plan = plan_columns(table.name, table.columns, partitions, self.shape, self.renames, sparse=False)
        names = tuple(name for name in table.columns if name not in plan.stored.values())
        if not names:
            keys = ", ".join(self.shape.columns)
            raise InputError(f"{table.name}: there are no {self.shape.name}; expected numeric columns beside {keys}")
        if self.names and set(names) != set(self.names):
            odd = min(set(names) ^ set(self.names))
            raise InputError(f"{table.name}: the feature {odd!r} is not in all files; give all files the same columns")
        self.names = self.names or names
        for batch in table.batches([*plan.wanted, *self.names], plan.ids):
            self._add(table.name, batch, plan.stored, plan.constant)

    def joined(self, source: str) -> tuple[list[pa.Array], Array]:
        """The columns of ids, and the numbers."""
        if not sum(len(values) for values in self.values):
            raise InputError(f"{source}: there are no rows")
        ids = [pa.chunked_array(chunks).combine_chunks() for chunks in self.chunks.values()]
        return ids, np.concatenate(self.values)

    def finish(self, source: str, files: Sequence[dict[str, Any]]) -> Features:
        (query, item), values = self.joined(source)
        return _without_copies(Features(query, item, self.names, values, source=source, files=files))

    def _add(self, source: str, batch: Batch, stored: Mapping[str, str], constant: Mapping[str, str | None]) -> None:
        if batch.malformed:
            first = batch.malformed[0]
            raise InputError(f"{source} row {first.row}: {first.reason}; correct the row")
        count = len(batch.rows)
        if count == 0:
            return
        for name, mask in batch.undecodable.items():
            raise InputError(f"{source} row {batch.rows[mask.argmax()]}: {name!r} is {NOT_TEXT}; correct the row")
        for name, chunks in self.chunks.items():
            column = batch.columns[stored[name]] if name in stored else constant_column(constant[name], count)
            chunks.append(self._ids(source, name, column, batch.rows))
        block = np.empty((count, len(self.names)))
        for place, name in enumerate(self.names):
            block[:, place] = _numbers(source, name, batch)
        self.values.append(block)

    def _ids(self, source: str, name: str, column: pa.Array, rows: Array) -> pa.Array:
        ids = plain_ids(f"{source}: the column {name!r}", column)
        reasons = Reasons(len(ids))
        check_ids(reasons, name, ids)
        if reasons.code.any():
            place = int(reasons.code.nonzero()[0][0])
            raise InputError(f"{source} row {rows[place]}: {reasons.texts[reasons.code[place]]}; correct the row")
        values = ids.dictionary_decode() if pa.types.is_dictionary(ids.type) else ids
        kind = self.chunks[name][0].type if self.chunks[name] else values.type
        if not same_ids(kind, values.type):
            raise InputError(
                f"{source}: the column {name!r} holds {values.type}, but other files hold {kind}; "
                "ids must have one type in all files"
            )
        return values.cast(kind)


def _numbers(source: str, name: str, batch: Batch) -> Array:
    values, bad = parse_numbers(f"{source}: the column {name!r}", batch.columns[name])
    if bad.any():
        place = int(bad.argmax())
        found = batch.columns[name][place].as_py()
        raise InputError(
            f"{source} row {batch.rows[place]}: the feature {name!r} is {found!r}, not a finite number; fill in a "
            "number (0, or the mean of the column) or leave the column out"
        )
    return values


def _without_copies(features: Features) -> Features:
    """One row per item, and the fingerprint; two different rows for one item are an error."""
    query, item = features.query.dictionary_encode(), features.item.dictionary_encode()
    query_code, item_code = query.indices.to_numpy(), item.indices.to_numpy()
    order = np.lexsort((item_code, query_code))
    same = (np.diff(query_code[order]) == 0) & (np.diff(item_code[order]) == 0)
    for place in np.flatnonzero(same).tolist():
        one, other = sorted(order[place : place + 2].tolist())
        if not np.array_equal(features.values[one], features.values[other]):
            column = int((features.values[one] != features.values[other]).argmax())
            raise InputError(
                f"{features.source}: query {show_id(features.query[one].as_py())}, item "
                f"{show_id(features.item[one].as_py())} has two rows of features, which differ in "
                f"{features.names[column]!r}; keep one of them"
            )
    keep = np.sort(order[np.concatenate([[True], ~same])])
    coded = [(query.dictionary, query_code[keep]), (item.dictionary, item_code[keep])]
    values = features.values if len(keep) == len(features) else features.values[keep]
    columns = [(values[:, place], 0.0) for place in np.argsort(np.array(features.names)).tolist()]
    relevance = None if features.relevance is None else features.relevance[keep]
    columns += [] if relevance is None else [(relevance, 0.0)]
    content = content_fingerprint("features " + " ".join(sorted(features.names)), coded, columns)
    rows = pa.array(keep)
    return Features(
        features.query.take(rows),
        features.item.take(rows),
        features.names,
        values,
        relevance,
        features.source,
        content,
        features.files,
    )
