"""What every simulator returns: tables in memory, and how they are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from distrank.errors import StoreError, UsageError
from distrank.records import Array

ROW_GROUP = 1_000_000
# small tables that people open: always CSV
TRUTH = ("gold", "annotators", "expertise", "queries", "known", "test_gold")


@dataclass(frozen=True)
class Simulated:
    """Judgments and the truth behind them: pyarrow tables by name, such as preferences, gold and annotators."""

    tables: dict[str, pa.Table]

    def __getitem__(self, name: str) -> pa.Table:
        return self.tables[name]

    def write(self, folder: str | Path, format: str = "parquet") -> dict[str, Path]:  # noqa: A002 (the word people know)
        """Write every table into the folder, judgments as `parquet` or `csv`, the truth as CSV; returns the paths."""
        if format not in ("parquet", "csv"):
            raise UsageError(f"format={format!r}: expected parquet or csv")
        folder = Path(folder)
        paths = {name: folder / f"{name}.{'csv' if name in TRUTH else format}" for name in self.tables}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, path in paths.items():
                other = path.with_suffix(".parquet" if path.suffix == ".csv" else ".csv")
                if other.exists():
                    raise StoreError(f"{other} is there already and would be read together with {path.name}: remove it")
                _write(self.tables[name], path)
        except OSError as error:
            raise StoreError(f"cannot write the simulated tables into {folder}: {error}") from error
        return paths


@dataclass(frozen=True)
class Simulator:
    """One way to make data: its settings (made with `distrank.settings.setting`) say all that it takes."""

    title: str
    paper: str
    Settings: type[Any]
    run: Callable[[Any], Simulated]


def text_ids(prefix: str, count: int) -> Any:
    """`a000`, `a001`, ...: text whose order is the order of the codes."""
    width = len(str(max(count - 1, 0)))
    numbers = pc.utf8_lpad(pa.array(np.arange(count)).cast(pa.string()), width, "0")
    return pc.binary_join_element_wise(prefix, numbers, "")


def id_column(codes: Array, ids: Any | None) -> Any:
    """Codes as a column of ids: text through a dictionary (no text per row), or the whole numbers themselves."""
    if ids is None:
        return pa.array(codes, pa.int64())
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), ids)


def _write(table: pa.Table, path: Path) -> None:
    """Write beside and rename; dictionary columns are written as the plain text that other tools expect."""
    partial = path.with_suffix(path.suffix + ".partial")
    if path.suffix == ".parquet":
        pq.write_table(table, partial, row_group_size=ROW_GROUP, store_schema=False)
    else:
        with pa_csv.CSVWriter(partial, _plain(table.slice(0, 0)).schema) as writer:
            for start in range(0, table.num_rows, ROW_GROUP):
                writer.write_table(_plain(table.slice(start, ROW_GROUP)))
    partial.replace(path)


def _plain(table: pa.Table) -> pa.Table:
    columns = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)
