"""The tables of a result: rankings, annotators, queries.

A shard carries the ids of its own units and nodes, so any worker can write its part of a table without a global
dictionary. Parts are streamed into one file in shard order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from distrank.contract import Info, Tables
from distrank.records import Array, Record
from distrank.tables.ids import unpack_ids

ROW_GROUP = 250_000
KINDS = ((0.85, "expert"), (0.6, "average"), (0.4, "spammer"), (0.0, "malicious"))  # from this quality on
FEWEST_JUDGMENTS = 5  # below this an annotator's kind is unknown


@dataclass(frozen=True)
class IdTypes:
    """The Arrow types in which ids came, and in which they go out again."""

    query: pa.DataType
    item: pa.DataType


def rankings_table(shard: Record, columns: Record, types: IdTypes) -> pa.Table:
    """`query, item, rank, score` and the model's own columns; best first within a query, equal scores by item id."""
    nodes = shard["unit.nodes"]
    unit = np.repeat(np.arange(len(nodes) - 1), np.diff(nodes))
    order = np.lexsort((np.arange(len(unit)), -columns["score"], unit))
    rank = np.arange(len(unit)) - np.repeat(nodes[:-1], np.diff(nodes)) + 1
    queries = unpack_ids(shard, "unit.id", types.query).take(pa.array(unit))
    items = unpack_ids(shard, "node.id", types.item).take(pa.array(order))
    extra = {name: pa.array(values[order]) for name, values in columns.items() if name != "score"}
    return pa.table({"query": queries, "item": items, "rank": rank, "score": columns["score"][order], **extra})


def queries_table(shard: Record, columns: Record, types: IdTypes) -> pa.Table:
    """`query, items, annotators, judgments, components` and the model's own columns."""
    return pa.table(
        {
            "query": unpack_ids(shard, "unit.id", types.query),
            "items": np.diff(shard["unit.nodes"]),
            "annotators": shard["unit.annotators"],
            "judgments": shard["unit.judgments"],
            "components": shard["unit.components"],
            **{name: pa.array(values) for name, values in columns.items()},
        }
    )


def shard_tables(shard: Record, tables: Tables, types: IdTypes) -> dict[str, pa.Table]:
    """The parts of all tables that one shard contributes."""
    return {
        "rankings": rankings_table(shard, tables["rankings"], types),
        "queries": queries_table(shard, tables.get("queries", {}), types),
    }


def annotators_table(ids: pa.Array, columns: Record, info: Info, evidence: pa.Array | None = None) -> pa.Table:
    """`annotator, judgments, quality, kind`, the model's own parameters, and the evidence where there is a column."""
    judgments = info.annotator_judgments
    quality = columns["quality"]
    extra = {name: _column(values) for name, values in columns.items() if name != "quality"}
    if evidence is not None:
        extra["evidence"] = evidence
    kinds = kinds_of(quality, judgments)
    return pa.table({"annotator": ids, "judgments": judgments, "quality": quality, "kind": kinds, **extra})


def _column(values: Array) -> pa.Array:
    """A column; rows of a matrix are lists."""
    if values.ndim == 1:
        return pa.array(values)
    offsets = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.ascontiguousarray(values).reshape(-1)))


def kinds_of(quality: Array, judgments: Array) -> list[str]:
    """expert, average, spammer, malicious, or unknown where there are too few judgments to say."""
    return [
        "unknown" if count < FEWEST_JUDGMENTS else next(kind for low, kind in KINDS if value >= low)
        for value, count in zip(quality.tolist(), judgments.tolist(), strict=True)
    ]


def write_table(path: Path, tables: Iterable[pa.Table]) -> int:
    """Stream tables into one Parquet file, in row groups of a size that depends on the rows alone; the row count."""
    rows = 0
    writer: pq.ParquetWriter | None = None
    try:
        for group in _row_groups(tables):
            if writer is None:
                writer = pq.ParquetWriter(path, group.schema, compression="zstd")
            writer.write_table(group, row_group_size=ROW_GROUP)
            rows += group.num_rows
    finally:
        if writer is not None:
            writer.close()
    return rows


def _row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows regrouped: every group but the last is full, at least one table comes out."""
    waiting: list[pa.Table] = []
    count, given = 0, 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        while count >= ROW_GROUP:
            whole = pa.concat_tables(waiting)
            yield whole.slice(0, ROW_GROUP).combine_chunks()
            given += 1
            waiting, count = [whole.slice(ROW_GROUP)], count - ROW_GROUP
    if waiting and (count or not given):
        yield pa.concat_tables(waiting).combine_chunks()
