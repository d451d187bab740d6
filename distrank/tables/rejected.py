"""The rows that were set aside: where they stand, why, and what they hold, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa

from distrank.records import Array
from distrank.tables.batches import Malformed
from distrank.tables.checks import Reasons
from distrank.tables.judgments import REJECTED_SCHEMA

RAW = "text"  # the whole row, where it could not be taken apart


class Rejected:
    """Collects rejected rows as small tables."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.schema = pa.schema([*REJECTED_SCHEMA, *((name, pa.string()) for name in columns), (RAW, pa.string())])
        self.tables: dict[str, list[pa.Table]] = {}  # by source, in the order of reading
        self.counts: Counter[str] = Counter()

    def add(self, source: str, rows: Array, reasons: Reasons, columns: Mapping[str, pa.Array]) -> None:
        """Set aside the rows that have a reason."""
        places = pa.array(reasons.code.nonzero()[0])
        why = pa.array(reasons.texts).take(pa.array(reasons.code[places.to_numpy()]))
        texts = {name: as_text(column.take(places)) for name, column in columns.items()}
        self._append(source, rows[places.to_numpy()], why, texts)
        self.counts.update(reasons.counts())

    def add_malformed(self, source: str, malformed: Sequence[Malformed]) -> None:
        """Set aside rows of which only the whole text is known."""
        if malformed:
            why = pa.array([one.reason for one in malformed])
            self._append(source, [one.row for one in malformed], why, {RAW: pa.array([one.text for one in malformed])})
            self.counts.update(one.reason for one in malformed)

    def table(self) -> pa.Table:
        """All of them, by source in the order of reading, and by row."""
        sorted_by_row = [pa.concat_tables(tables).sort_by("row") for tables in self.tables.values()]
        return pa.concat_tables([self.schema.empty_table(), *sorted_by_row]).combine_chunks()

    def _append(self, source: str, rows: Array | list[int], why: pa.Array, texts: Mapping[str, pa.Array]) -> None:
        known = {
            "source": pa.array([source] * len(rows), pa.string()),
            "row": pa.array(rows, pa.int64()),
            "reason": why,
        }
        blank = pa.nulls(len(rows), pa.string())
        columns = [{**known, **texts}.get(name, blank) for name in self.schema.names]
        self.tables.setdefault(source, []).append(pa.table(columns, schema=self.schema))


def as_text(column: pa.Array) -> pa.Array:
    """Values of any type as text; bytes that are no text are shown escaped."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        return column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array([_shown(value) for value in column.to_pylist()], pa.string())


def _shown(value: object) -> str | None:
    if value is None:
        return None
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
