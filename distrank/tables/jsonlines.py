"""JSON Lines as batches of columns.

Every value is text, as it is written: the number 7.10 would lose its zero as a number. Python's own parser is used
because it hands out the literal text of numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from distrank.tables.batches import Batch, Malformed, unreadable
from distrank.tables.sources import SourceFile

UNPARSABLE = "unparsable JSON line"
NOT_AN_OBJECT = "JSON line is not an object"
NESTED = "JSON value is a list or an object where text or a number is expected"
_BLOCK = 1 << 22  # bytes
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class JsonLinesFile:
    """One object per line. Lines need not have all keys, and a key may turn up late in the file."""

    sparse = True

    def __init__(self, file: SourceFile) -> None:
        self.file, self.name = file, file.name
        first = next(self._blocks(), [])
        parsed = [value for value, _ in map(_parse, first) if value is not None]
        self.columns = list(dict.fromkeys(key for value in parsed for key in value))

    def batches(self, wanted: list[str], ids: list[str]) -> Iterator[Batch]:  # noqa: ARG002 (all are plain text)
        done = 0
        for lines in self._blocks():
            yield _batch(lines, done, wanted)
            done += len(lines)

    def _blocks(self) -> Iterator[list[bytes]]:
        """Lines that are not blank, some megabytes at a time."""
        begun, rest = False, b""
        try:
            with self.file.stream() as stream:
                while block := stream.read(_BLOCK):
                    text = rest + (block if begun else block.removeprefix(_BYTE_ORDER_MARK))
                    *lines, rest = text.split(b"\n")
                    begun = True
                    yield [line for line in lines if line.strip()]
        except (pa.ArrowException, OSError, EOFError) as error:
            raise unreadable(self.file, "JSON Lines", error) from error
        if rest.strip():
            yield [rest]


def _batch(lines: list[bytes], done: int, wanted: list[str]) -> Batch:
    good: list[dict[str, Any]] = []
    rows: list[int] = []
    malformed: list[Malformed] = []
    for row, line in enumerate(lines, start=done + 1):
        value, reason = _parse(line)
        if value is None or any(isinstance(value.get(name), list | dict) for name in wanted):
            malformed.append(Malformed(row, reason or NESTED, line.decode("utf-8", "backslashreplace")))
        else:
            good.append(value)
            rows.append(row)
    columns = {name: pa.array([_text(value.get(name)) for value in good], pa.string()) for name in wanted}
    return Batch(columns, np.array(rows, np.int64), malformed)


def _parse(line: bytes) -> tuple[dict[str, Any] | None, str]:
    """The object on a line with its numbers as text, or None and why there is none."""
    try:
        value = json.loads(line.decode(), parse_int=str, parse_float=str, parse_constant=_refuse)
        if b"\\u" in line:  # half of a surrogate pair is no character and cannot be written as text
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None, UNPARSABLE
    return (value, "") if isinstance(value, dict) else (None, NOT_AN_OBJECT)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value
