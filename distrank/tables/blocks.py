"""The first pass of the ingest: a block of a file is read, checked, and left in a file of its own, sorted into buckets.

A block is a run of row groups of a Parquet file, or a whole file of another format. Its accepted rows go by the leading
bits of the hash of their query, the bucket, into one Arrow file: a batch per bucket, so that the second pass reads only
what it needs. What is told about a block is small: counts, its annotators, the sum of its row hashes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from distrank.contract import Form
from distrank.kernels.grouping import tally
from distrank.records import Array
from distrank.tables.columns import plan_columns
from distrank.tables.encode import Encoder
from distrank.tables.formats import ParquetTable, open_table
from distrank.tables.ids import stable_hash
from distrank.tables.judgments import Judgments
from distrank.tables.sources import SourceFile

BLOCK_ROWS = 1_000_000  # of a Parquet file, about
SHORTEST_ROW = 8  # bytes of a row of text, at least: for an upper bound of the rows of a file


@dataclass(frozen=True)
class FileFacts:
    """What is known of a file before its rows are read."""

    file: SourceFile
    fingerprint: dict[str, Any]
    columns: list[str]
    groups: list[int] | None  # rows of every row group, for Parquet
    most_rows: int


@dataclass(frozen=True)
class Block:
    """Part of a file, in the order of reading."""

    number: int
    file: SourceFile
    groups: range | None = None
    first_row: int = 0


@dataclass(frozen=True)
class BlockFacts:
    """What became of a block."""

    number: int
    source: str
    read: int
    accepted: int
    by_reason: dict[str, int]
    rejected: pa.Table
    types: dict[str, tuple[pa.DataType, str]]  # of every kind of ids, and the column that settled it
    content: int = 0  # sum of row hashes
    annotators: pa.Array | None = None
    annotator_rows: Array = field(default_factory=lambda: np.empty(0, np.int64))
    few_items: tuple[Any, ...] = ()  # the distinct items, two of them at most
    buckets: dict[int, tuple[int, int]] = field(default_factory=dict)  # bucket -> batch in the file, rows
    ties: bool = False
    weights: bool = False
    timestamps: bool = False


def describe(file: SourceFile) -> FileFacts:
    """Open a file, hash it, and see how it can be cut."""
    table = open_table(file)
    groups, most = None, max(file.size // SHORTEST_ROW, 1)
    if isinstance(table, ParquetTable):
        metadata = table.metadata
        groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        most = metadata.num_rows
    elif file.path.endswith(".gz"):
        most *= 20  # text seldom shrinks by more
    return FileFacts(file, file.fingerprint(), list(table.columns), groups, most)


def cut(files: Sequence[FileFacts], rows: int = BLOCK_ROWS) -> list[Block]:
    """The blocks of all files, in the order of reading."""
    pieces = [(facts.file, span, first) for facts in files for span, first in _spans(facts, rows)]
    return [Block(number, file, span, first) for number, (file, span, first) in enumerate(pieces)]


def _spans(facts: FileFacts, rows: int) -> Iterator[tuple[range | None, int]]:
    if facts.groups is None or sum(facts.groups) <= rows:
        yield None, 0
        return
    before = [0, *accumulate(facts.groups)]
    begin = 0
    for end in range(1, len(facts.groups) + 1):
        if before[end] - before[begin] >= rows or end == len(facts.groups):
            yield range(begin, end), before[begin]
            begin = end


def block_path(folder: Path, number: int) -> Path:
    return folder / f"block-{number:06d}.arrow"


def read_block(folder: Path, form: Form, renames: Mapping[str, str], bits: int, block: Block) -> BlockFacts:
    """Read and check a block, and leave its accepted rows in the folder."""
    encoder, source = Encoder(form), block.file.name
    table = open_table(block.file)
    if block.groups is not None and isinstance(table, ParquetTable):
        table = table.part(block.groups, block.first_row)
    plan = plan_columns(source, table.columns, block.file.partitions, encoder.shape, renames, sparse=table.sparse)
    for batch in table.batches(plan.wanted, plan.ids):
        encoder.add(source, batch, plan, sparse=table.sparse)
    known: dict[str, Any] = {
        "number": block.number,
        "source": source,
        "read": encoder.read,
        "accepted": encoder.accepted,
        "by_reason": dict(encoder.rejected.counts),
        "types": encoder.types,
    }
    if encoder.accepted == 0:
        return BlockFacts(**known, rejected=encoder.rejected.table())
    judgments = encoder.finish(name=source)
    return BlockFacts(
        **known,
        rejected=judgments.rejected,
        content=int(judgments.content, 16),
        annotators=judgments.annotators,
        annotator_rows=tally(judgments.annotator, len(judgments.annotators)),
        few_items=tuple(judgments.items[:2].to_pylist()),
        buckets=_write(block_path(folder, block.number), judgments, bits),
        ties=judgments.tie is not None and bool(judgments.tie.any()),
        weights=judgments.weight is not None and bool((judgments.weight != 1.0).any()),
        timestamps=judgments.timestamp is not None,
    )


def _write(path: Path, judgments: Judgments, bits: int) -> dict[int, tuple[int, int]]:
    """The rows by bucket, a batch each; where every bucket is, and how many rows it has."""
    bucket = bucket_of(stable_hash(judgments.queries), bits)[judgments.query]
    order = np.argsort(bucket, kind="stable")
    numbers, starts = np.unique(bucket[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    ids = {"query": judgments.queries, "annotator": judgments.annotators}
    names = ("winner", "loser") if judgments.form == "preferences" else ("item",)
    ids |= dict.fromkeys(names, judgments.items)
    codes = {name: getattr(judgments, name) for name in ids}
    values = {name: getattr(judgments, name) for name in ("rating", "rank", "tie", "weight")}
    values = {name: column for name, column in values.items() if column is not None}
    places: dict[int, tuple[int, int]] = {}
    writer: pa.ipc.RecordBatchFileWriter | None = None
    staged = path.with_suffix(".writing")
    with pa.OSFile(str(staged), "wb") as file:
        for place, (number, begin, end) in enumerate(zip(numbers.tolist(), starts.tolist(), ends, strict=True)):
            rows = order[begin:end]
            columns = {name: ids[name].take(pa.array(codes[name][rows])) for name in ids}
            columns |= {name: pa.array(column[rows]) for name, column in values.items()}
            batch = pa.record_batch(columns)
            if writer is None:
                writer = pa.ipc.new_file(file, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
            writer.write_batch(batch)
            places[number] = (place, len(rows))
        if writer is not None:
            writer.close()
    staged.replace(path)  # an attempt that was lost on the way leaves nothing that could be taken for a block
    return places


def bucket_of(hashes: Array, bits: int) -> Array:
    """The leading bits of hashes."""
    return (hashes >> np.uint64(64 - bits)).astype(np.int64) if bits else np.zeros(len(hashes), np.int64)


def read_buckets(folder: Path, blocks: Sequence[tuple[int, list[int]]]) -> list[pa.RecordBatch]:
    """The batches of the given places in the files of the given blocks, in the order of reading."""
    found = []
    for number, places in blocks:
        with pa.OSFile(str(block_path(folder, number)), "rb") as file:
            reader = pa.ipc.open_file(file)
            found += [reader.get_batch(place) for place in places]
    return found
