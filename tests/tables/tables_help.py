"""Tables to test with: small, dirty, of every form, written in every format."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from hypothesis import strategies as st
from pyarrow import feather

from distrank.contract import PARTS, UNITS
from distrank.records import Record, digest
from distrank.tables.ids import unpack_ids
from distrank.tables.judgments import Judgments, judgments_from_codes
from distrank.tables.shards import Sharded

FORMATS = (".csv", ".csv.gz", ".parquet", ".jsonl", ".jsonl.gz", ".ndjson", ".arrow", ".feather")


def write(path: Path, table: pa.Table) -> Path:
    """The table in the format that the name says."""
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        pq.write_table(table, path)
    elif name.endswith((".arrow", ".feather")):
        feather.write_feather(table, path, compression="uncompressed")
    elif name.endswith(".csv"):
        sink = pa.BufferOutputStream()
        pacsv.write_csv(table, sink)
        write_bytes(path, sink.getvalue().to_pybytes())
    else:
        write_bytes(path, "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode())
    return path


def write_bytes(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.name.endswith(".gz") else content)
    return path


def preferences(rows: int, *, queries: int = 4, items: int = 9, annotators: int = 5, seed: int = 0) -> pa.Table:
    """Preferences with text ids; query and item ids do not sort the way they are numbered."""
    random = np.random.default_rng(seed)
    winner = random.integers(0, items, rows)
    loser = (winner + random.integers(1, items, rows)) % items
    return pa.table(
        {
            "query": [f"q{number}" for number in random.integers(0, queries, rows)],
            "annotator": [f"worker {number}" for number in random.integers(0, annotators, rows)],
            "winner": [f"i{number}" for number in winner],
            "loser": [f"i{number}" for number in loser],
            "weight": [str(number) for number in random.integers(0, 3, rows)],
        }
    )


def shuffled(table: pa.Table, seed: int = 1) -> pa.Table:
    return table.take(pa.array(np.random.default_rng(seed).permutation(table.num_rows)))


@st.composite
def coded(draw: st.DrawFn, form: str = "preferences") -> Judgments:
    """Judgments of any shape, by code; about half of them with ties and weights."""
    rows = draw(st.integers(1, 120))
    kinds = {name: draw(st.integers(2, 12)) for name in ("query", "annotator", "item")}
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    columns: dict[str, Any] = {name: random.integers(0, kinds[name], rows) for name in ("query", "annotator")}
    if form == "preferences":
        columns["winner"] = random.integers(0, kinds["item"], rows)
        columns["loser"] = (columns["winner"] + random.integers(1, kinds["item"], rows)) % kinds["item"]
        if draw(st.booleans()):
            columns["tie"] = random.random(rows) < 0.3
    else:
        columns["item"] = random.integers(0, kinds["item"], rows)
        columns["rating" if form == "ratings" else "rank"] = random.integers(1, 5, rows).astype(float)
    if draw(st.booleans()):
        columns["weight"] = random.integers(0, 3, rows) / 2
    return judgments_from_codes(form, **ids_for(kinds), **columns)


def ids_for(kinds: dict[str, int]) -> dict[str, pa.Array]:
    return {
        "queries": pa.array([f"q{number:03}" for number in range(kinds["query"])]),
        "annotators": pa.array(range(kinds["annotator"])),
        "items": pa.array([f"i{number:03}" for number in range(kinds["item"])]),
    }


def permuted(judgments: Judgments, seed: int) -> Judgments:
    """The same judgments in another order."""
    order = np.random.default_rng(seed).permutation(len(judgments))
    names = ("query", "annotator", "winner", "loser", "item", "rating", "rank", "tie", "weight")
    columns = {name: column[order] for name in names if (column := getattr(judgments, name)) is not None}
    ids = {name: getattr(judgments, name) for name in ("queries", "items", "annotators")}
    return judgments_from_codes(judgments.form, **ids, **columns)


def records_of(sharded: Sharded) -> list[Record]:
    return [*sharded.source.sets[UNITS], *sharded.source.sets[PARTS]]


def bytes_of(sharded: Sharded) -> str:
    return digest(records_of(sharded))


def rows_of(sharded: Sharded) -> list[tuple[Any, ...]]:
    """Every row of the shards with its ids, in the order of the shards."""
    rows: list[tuple[Any, ...]] = []
    items: dict[int, list[Any]] = {}
    queries: dict[int, list[Any]] = {}
    for record in records_of(sharded):
        part = "part.unit" in record
        if not part or record["part.first"]:
            nodes = unpack_ids(record, "node.id", sharded.item_type).to_pylist()
            units = unpack_ids(record, "unit.id", sharded.query_type).to_pylist()
            if part:
                items[int(record["part.unit"])], queries[int(record["part.unit"])] = nodes, units
        else:
            nodes, units = items[int(record["part.unit"])], queries[int(record["part.unit"])]
        unit = np.repeat(np.arange(len(record["unit.hash"])), np.diff(record["unit.rows"]))
        numbers = [
            record[name].tolist() for name in ("row.rating", "row.rank", "row.tie", "row.weight") if name in record
        ]
        named = [record[name].tolist() for name in ("row.winner", "row.loser", "row.item") if name in record]
        for place, row in enumerate(
            zip(unit.tolist(), record["row.annotator"].tolist(), *named, *numbers, strict=True)
        ):
            unit_, annotator, *rest = row
            nodes_ = [nodes[node] for node in rest[: len(named)]]
            assert all(
                record["unit.nodes"][unit_] <= node < record["unit.nodes"][unit_ + 1] for node in rest[: len(named)]
            )
            rows.append((units[unit_], annotator, *nodes_, *rest[len(named) :]))
            assert record["unit.rows"][unit_] <= place < record["unit.rows"][unit_ + 1]
    return rows
