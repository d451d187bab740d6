"""SVMlight/LETOR files: `grade qid:7 1:0.3 2:1.5 # item`, one line per item, features that are absent being 0.

The item's id is what follows `docid =` in the comment, or the comment's first word, or else the number of the line
within its query. Numbers are parsed by Arrow, a block of lines at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from distrank.errors import InputError
from distrank.records import Array
from distrank.tables.batches import unreadable
from distrank.tables.sources import SourceFile

SVMLIGHT = "svmlight"
MOST_FEATURES = 1_000_000
_BLOCK = 1 << 24  # bytes
_SHAPE = "expected 'grade qid:QUERY 1:VALUE 2:VALUE ... # ITEM'"


@dataclass(frozen=True)
class Ranked:
    """What the lines say."""

    query: list[str]
    item: list[str]
    grade: Array
    values: Array


def read_svmlight(files: Sequence[SourceFile]) -> Ranked:
    """All lines of all files."""
    query: list[str] = []
    comment: list[str] = []
    grades: list[Array] = []
    sparse: list[tuple[Array, Array, Array]] = []  # line, feature, value
    for file in files:
        for rows, lines in _blocks(file):
            heads = [_head(file, row, line) for row, line in zip(rows, lines, strict=True)]
            before = len(query)
            query += [head[1] for head in heads]
            comment += [head[3] for head in heads]
            grades.append(_floats(file, rows, [head[0] for head in heads]))
            line, feature, value = _features(file, rows, [head[2] for head in heads])
            sparse.append((line + before, feature, value))
    if not query:
        raise InputError(f"{files[0].name}: there are no rows")
    width = max((int(feature.max(initial=0)) for _, feature, _ in sparse), default=0)
    values = np.zeros((len(query), width))
    for line, feature, value in sparse:
        values[line, feature - 1] = value
    return Ranked(query, _items(query, comment), np.concatenate(grades), values)


def _head(file: SourceFile, row: int, line: bytes) -> tuple[str, str, list[str], str]:
    """Grade, query, features and comment of a line."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise InputError(f"{file.name} row {row}: not valid UTF-8 text; {_SHAPE}") from None
    content, _, comment = text.partition("#")
    words = content.split()
    if len(words) < 2 or not words[1].startswith("qid:") or len(words[1]) == 4:
        raise InputError(f"{file.name} row {row}: {content[:60]!r} has no grade and query; {_SHAPE}")
    return words[0], words[1][4:], words[2:], comment


def _features(file: SourceFile, rows: list[int], words: list[list[str]]) -> tuple[Array, Array, Array]:
    """Line, number and value of every feature of a block."""
    counts = np.array([len(line) for line in words], np.int64)
    pairs = [word.partition(":") for line in words for word in line]
    line = np.repeat(np.arange(len(words)), counts)
    number = _floats(file, rows, [pair[0] for pair in pairs], line)
    value = _floats(file, rows, [pair[2] for pair in pairs], line)
    odd = ~((number >= 1) & (number <= MOST_FEATURES) & (number == np.floor(number)))
    if odd.any():
        place = int(odd.argmax())
        raise InputError(
            f"{file.name} row {rows[line[place]]}: {pairs[place][0]!r} is no number of a feature (1 to "
            f"{MOST_FEATURES:,}); {_SHAPE}"
        )
    feature = number.astype(np.int64)
    if ((np.diff(feature) <= 0) & (np.diff(line) == 0)).any():  # not in ascending order: some may be there twice
        _, place, times = np.unique(line * (MOST_FEATURES + 1) + feature, return_index=True, return_counts=True)
        if (times > 1).any():
            twice = place[times.argmax()]
            raise InputError(f"{file.name} row {rows[line[twice]]}: feature {feature[twice]} is given twice; {_SHAPE}")
    return line, feature, value


def _floats(file: SourceFile, rows: list[int], words: list[str], line: Array | None = None) -> Array:
    """Finite numbers; a word that is none is an error with its row."""
    try:
        numbers = pa.array(words, pa.string()).cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        numbers = np.array([_number(word) for word in words])
    bad = ~np.isfinite(numbers)
    if bad.any():
        place = int(bad.argmax())
        row = rows[place if line is None else int(line[place])]
        raise InputError(f"{file.name} row {row}: {words[place]!r} is not a finite number; {_SHAPE}")
    return numbers + 0.0


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return np.nan


def _items(query: list[str], comment: list[str]) -> list[str]:
    """The ids of items, from comments where they have one, else their number within the query."""
    seen: dict[str, int] = {}
    items = []
    for one, text in zip(query, comment, strict=True):
        seen[one] = seen.get(one, 0) + 1
        words = text.replace("=", " = ").split()
        if "docid" in words and words[words.index("docid") + 1 :][:1] == ["="]:
            words = words[words.index("docid") + 2 :]
        items.append(words[0] if words else str(seen[one]))
    return items


def _blocks(file: SourceFile) -> Iterator[tuple[list[int], list[bytes]]]:
    """Lines that are neither blank nor all comment, some megabytes at a time, with their row numbers."""
    row, rest = 1, b""
    try:
        with file.stream() as stream:
            while block := stream.read(_BLOCK):
                *lines, rest = (rest + block).split(b"\n")
                yield _kept(row, lines)
                row += len(lines)
    except (pa.ArrowException, OSError, EOFError) as error:
        raise unreadable(file, "SVMlight", error) from error
    yield _kept(row, [rest])


def _kept(row: int, lines: list[bytes]) -> tuple[list[int], list[bytes]]:
    kept = [(row + place, line) for place, line in enumerate(lines) if line.partition(b"#")[0].strip()]
    return [number for number, _ in kept], [line for _, line in kept]
