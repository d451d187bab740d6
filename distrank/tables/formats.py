"""CSV, Parquet and Arrow files as batches of columns (JSON Lines are in `jsonlines`)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from distrank.errors import InputError
from distrank.records import Array
from distrank.tables.batches import (
    Batch,
    Malformed,
    TableFile,
    check_names,
    refuse_extension_types,
    row_numbers,
    unreadable,
)
from distrank.tables.jsonlines import JsonLinesFile
from distrank.tables.sources import SourceFile

WRONG_FIELDS = "malformed CSV row (wrong number of fields)"
_CSV_BLOCK = 1 << 23
_BATCH_ROWS = 1 << 19
_LENGTH_BYTES = 4  # what Parquet writes before every text that is not in a dictionary

# ValueError: names in a damaged footer may be no text
_Unreadable = (pa.ArrowException, OSError, EOFError, ValueError, OverflowError)


def open_table(file: SourceFile) -> TableFile:
    """Open a file of any format."""
    kinds: dict[str, Callable[[SourceFile], TableFile]] = {
        "csv": CsvFile,
        "parquet": ParquetTable,
        "arrow": ArrowFile,
        "jsonl": JsonLinesFile,
    }
    if file.format not in kinds:
        raise InputError(f"{file.name}: SVMlight/LETOR files hold features of items, not judgments or gold")
    return kinds[file.format](file)


class CsvFile:
    """Text, byte for byte: nothing is guessed to be a number or a missing value."""

    sparse = False

    def __init__(self, file: SourceFile) -> None:
        self.file, self.name = file, file.name
        self.bad: list[pacsv.InvalidRow] = []
        try:
            with self._open(pacsv.ConvertOptions()) as reader:
                self.columns = check_names(file.name, reader.schema.names)
        except _Unreadable as error:
            raise unreadable(file, "CSV", error) from error

    def batches(self, wanted: list[str], ids: list[str]) -> Iterator[Batch]:  # noqa: ARG002 (all are plain text)
        options = pacsv.ConvertOptions(
            include_columns=wanted, column_types=dict.fromkeys(wanted, pa.binary()), strings_can_be_null=False
        )
        self.bad = []
        good, told = 0, 0
        try:
            with self._open(options) as reader:
                for batch in reader:
                    columns, undecodable = {}, {}
                    for name in wanted:
                        columns[name], broken = _as_text(batch[name])
                        if broken is not None:
                            undecodable[name] = broken
                    rows = self._rows(good, batch.num_rows)
                    yield Batch(columns, rows, self._malformed(told), undecodable)
                    good, told = good + batch.num_rows, len(self.bad)
        except _Unreadable as error:
            raise unreadable(self.file, "CSV", error) from error
        if told < len(self.bad):
            yield Batch({name: pa.array([], pa.string()) for name in wanted}, row_numbers(0, 0), self._malformed(told))

    def _open(self, options: pacsv.ConvertOptions) -> pacsv.CSVStreamingReader:
        def set_aside(row: pacsv.InvalidRow) -> str:
            self.bad.append(row)
            return "skip"

        return pacsv.open_csv(
            self.file.stream(),
            # one thread: rows that are set aside have numbers only then, and the streaming reader is no slower
            read_options=pacsv.ReadOptions(use_threads=False, block_size=_CSV_BLOCK),
            parse_options=pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=set_aside),
            convert_options=options,
        )

    def _malformed(self, told: int) -> list[Malformed]:
        return [Malformed(row.number - 1, WRONG_FIELDS, row.text) for row in self.bad[told:]]

    def _rows(self, good: int, count: int) -> Array:
        """Row numbers of the next good rows, past the ones that were set aside (the header counts as a row there)."""
        bad = np.array([row.number - 1 for row in self.bad], np.int64)
        good_before = bad - 1 - np.arange(len(bad))
        places = np.arange(good, good + count)
        return places + 1 + np.searchsorted(good_before, places, side="right")


class ParquetTable:
    """Row groups are streamed; columns that the file holds as dictionaries are read as such."""

    sparse = False

    def __init__(self, file: SourceFile) -> None:
        self.file, self.name = file, file.name
        try:
            with pq.ParquetFile(file.open()) as parquet:
                self.metadata, self.schema = parquet.metadata, parquet.schema_arrow
        except _Unreadable as error:
            raise unreadable(file, "Parquet", error) from error
        refuse_extension_types(file.name, self.schema)
        self.columns = check_names(file.name, self.schema.names)
        self.groups, self.before = range(self.metadata.num_row_groups), 0

    def part(self, groups: range, before: int) -> ParquetTable:
        """The same file, of which only some row groups are read; `before` rows come before them."""
        part = copy.copy(self)
        part.groups, part.before = groups, before
        return part

    def batches(self, wanted: list[str], ids: list[str]) -> Iterator[Batch]:
        done, promised = 0, sum(self.metadata.row_group(group).num_rows for group in self.groups)
        try:
            with pq.ParquetFile(self.file.open(), read_dictionary=self._dictionaries(ids)) as parquet:
                for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=list(self.groups), columns=wanted):
                    rows = row_numbers(self.before + done, batch.num_rows)
                    yield Batch({name: batch[name] for name in wanted}, rows)
                    done += batch.num_rows
        except _Unreadable as error:
            raise unreadable(self.file, "Parquet", error) from error
        if done != promised:
            raise InputError(f"{self.name}: holds {done:,} rows but promises {promised:,}; write it again")

    def _dictionaries(self, ids: list[str]) -> list[str]:
        """Text columns that are stored as dictionaries: less room per value than the length of a plain text takes."""
        sizes = dict.fromkeys(ids, 0)
        for group in range(self.metadata.num_row_groups):
            for place in range(self.metadata.num_columns):
                column = self.metadata.row_group(group).column(place)
                if column.path_in_schema in sizes:
                    sizes[column.path_in_schema] += column.total_uncompressed_size
        text = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
        few = _LENGTH_BYTES * self.metadata.num_rows
        return [name for name, size in sizes.items() if size < few and self.schema.field(name).type in text]


class ArrowFile:
    """Arrow IPC files (also known as Feather) and streams."""

    sparse = False

    def __init__(self, file: SourceFile) -> None:
        self.file, self.name = file, file.name
        try:
            reader, _ = self._open()
        except _Unreadable as error:
            raise unreadable(file, "Arrow", error) from error
        refuse_extension_types(file.name, reader.schema)
        self.columns = check_names(file.name, reader.schema.names)

    def batches(self, wanted: list[str], ids: list[str]) -> Iterator[Batch]:  # noqa: ARG002 (types are as stored)
        done = 0
        try:
            _, batches = self._open()
            for stored in batches:
                for start in range(0, stored.num_rows, _BATCH_ROWS):
                    batch = stored.slice(start, _BATCH_ROWS)
                    yield Batch({name: batch[name] for name in wanted}, row_numbers(done, batch.num_rows))
                    done += batch.num_rows
        except _Unreadable as error:
            raise unreadable(self.file, "Arrow", error) from error

    def _open(self) -> tuple[pa.RecordBatchReader, Iterator[pa.RecordBatch]]:
        source = self.file.open()
        try:
            reader = pa.ipc.open_file(source)
        except pa.ArrowInvalid:
            source.seek(0)
            stream = pa.ipc.open_stream(source)
            return stream, iter(stream)
        return reader, (reader.get_batch(place) for place in range(reader.num_record_batches))


def _as_text(column: pa.Array) -> tuple[pa.Array, Array | None]:
    """Bytes as text, and which rows are no valid UTF-8 (those become null)."""
    try:
        return column.cast(pa.string()), None
    except pa.ArrowInvalid:
        values = [_decoded(value) for value in column.to_pylist()]
        return pa.array(values, pa.string()), np.array([value is None for value in values])


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
