"""Files as batches of columns, in bounded memory: what the formats have in common ends here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from distrank.errors import InputError
from distrank.records import Array
from distrank.tables.sources import SourceFile


@dataclass(frozen=True)
class Malformed:
    """A row that could not be taken apart."""

    row: int
    reason: str
    text: str


@dataclass(frozen=True)
class Batch:
    """Some rows of a file, by the file's own column names; `rows` are their numbers, counted from 1."""

    columns: dict[str, pa.Array]
    rows: Array
    malformed: list[Malformed] = field(default_factory=list)
    undecodable: dict[str, Array] = field(default_factory=dict)  # rows whose bytes are no text, by column


class TableFile(Protocol):
    """An opened file: which columns it has, and its rows."""

    name: str
    columns: list[str]
    sparse: bool  # whether rows may lack columns, and columns may turn up late

    def batches(self, wanted: list[str], ids: list[str]) -> Iterator[Batch]:
        """The wanted columns; `ids` names those of them that hold ids, for which dictionaries are welcome."""
        ...


def row_numbers(before: int, count: int) -> Array:
    """The numbers of the rows after the first `before` ones."""
    return np.arange(before + 1, before + count + 1, dtype=np.int64)


def refuse_extension_types(name: str, schema: pa.Schema) -> None:
    """Extension types can carry serialized objects; tables of judgments have no use for them."""
    for column in schema:
        if _is_extended(column):
            raise InputError(
                f"{name}: the column {column.name!r} has an extension type ({column.type}), which is refused; "
                "write the column with a plain type"
            )


def _is_extended(column: pa.Field) -> bool:
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType) or b"ARROW:extension:name" in (column.metadata or {}):
        return True
    if pa.types.is_dictionary(kind):
        return isinstance(kind.value_type, pa.BaseExtensionType)
    return any(_is_extended(kind.field(place)) for place in range(kind.num_fields))


def check_names(name: str, columns: list[str]) -> list[str]:
    """Column names, each of which must occur once."""
    twice = sorted({column for column in columns if columns.count(column) > 1})
    if twice:
        raise InputError(f"{name}: the column {twice[0]!r} occurs more than once; rename one of them")
    return columns


def unreadable(file: SourceFile, kind: str, error: Exception) -> InputError:
    """The error for a file whose content is not what its name says, or is cut short."""
    detail = " ".join(str(error).split())
    if isinstance(error, PermissionError):
        return InputError(f"{file.name}: cannot be opened ({detail}); check its permissions")
    return InputError(f"{file.name}: not a complete {kind} file ({detail}); write it again, or leave it out")
