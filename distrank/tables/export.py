"""CSV beside Parquet, for people and spreadsheets; scores as the name of their file asks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from distrank.errors import StoreError
from distrank.text import FORMULA

_HOSTILE = "^[" + re.escape("".join(FORMULA)) + "]"


def write_csv(target: Path, source: Path) -> None:
    """A Parquet file as CSV, row group by row group; text that a spreadsheet would run gets a leading apostrophe."""
    file = pq.ParquetFile(source)
    with pa_csv.CSVWriter(target, _plain(file.schema_arrow)) as writer:
        for batch in file.iter_batches():
            writer.write_table(neutralised(pa.Table.from_batches([batch])))


def write_scores(target: Path, table: pa.Table) -> None:
    """Write a table as Parquet, or as CSV where the name says so; an older file is replaced when all is written."""
    draft = target.with_name(f".{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.name.endswith(".csv"):
            pa_csv.write_csv(neutralised(table), draft)
        else:
            pq.write_table(table, draft, compression="zstd")
        draft.replace(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise StoreError(f"{target}: cannot be written: {error.strerror}") from error


def neutralised(table: pa.Table) -> pa.Table:
    """The table with hostile text cells defused; numbers stay as they are."""
    columns = [_defused(column) for column in table.columns]
    return pa.table(dict(zip(table.column_names, columns, strict=True)))


def _defused(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_list(column.type) and pa.types.is_struct(column.type.value_type):  # evidence: as JSON
        return pa.chunked_array([[json.dumps(value, default=str) for value in column.to_pylist()]], pa.string())
    if pa.types.is_list(column.type):  # a matrix, such as a confusion matrix: its entries with spaces between them
        texts = [None if row is None else " ".join(map(str, row)) for row in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    hostile = pc.fill_null(pc.match_substring_regex(column, _HOSTILE), False)
    quote, nothing = pa.scalar("'", column.type), pa.scalar("", column.type)
    return pc.if_else(hostile, pc.binary_join_element_wise(quote, column, nothing), column)


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(f.name, pa.string() if pa.types.is_list(f.type) else f.type) for f in schema])
