"""DataFrames and Arrow tables as batches of columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from distrank.errors import InputError, UsageError
from distrank.tables.batches import Batch, check_names, refuse_extension_types, row_numbers

if TYPE_CHECKING:
    import pandas as pd

Frame: TypeAlias = "pd.DataFrame | pa.Table"
_BATCH_ROWS = 1 << 19


class FrameTable:
    """A table that is in memory already."""

    sparse = False

    def __init__(self, frame: Any, name: str = "frame") -> None:
        self.frame, self.name = frame, name
        if isinstance(frame, pa.Table):
            refuse_extension_types(name, frame.schema)
            self.columns = check_names(name, frame.column_names)
        elif hasattr(frame, "columns") and hasattr(frame, "iloc"):
            self.columns = check_names(name, [str(column) for column in frame.columns])
        else:
            raise UsageError(f"expected a pandas DataFrame or a pyarrow Table, not {type(frame).__name__}")

    def batches(self, wanted: list[str], ids: list[str]) -> Iterator[Batch]:  # noqa: ARG002 (types are as they are)
        table = self.frame.select(wanted) if isinstance(self.frame, pa.Table) else self._from_pandas(wanted)
        done = 0
        for batch in table.to_batches(_BATCH_ROWS):
            yield Batch({name: batch[name] for name in wanted}, row_numbers(done, batch.num_rows))
            done += batch.num_rows

    def _from_pandas(self, wanted: list[str]) -> pa.Table:
        columns = {}
        for name in wanted:
            series = self.frame.iloc[:, self.columns.index(name)]
            try:
                columns[name] = _arrow(series)
            except (pa.ArrowException, UnicodeError, OverflowError) as error:
                detail = " ".join(str(error).split())
                raise InputError(
                    f"{self.name}: the column {name!r} cannot be read ({detail}); give all its values one type"
                ) from error
        return pa.table(columns)


def _arrow(series: pd.Series) -> pa.ChunkedArray:
    """A column as Arrow holds it; NaN stays NaN in columns of floats, so that it is not taken for a missing value."""
    floats = isinstance(series.dtype, np.dtype) and series.dtype.kind == "f"
    array = pa.array(series.to_numpy()) if floats else pa.array(series, from_pandas=True)
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
