"""The second pass of the ingest: everything of some queries, gathered from the blocks, becomes a shard or parts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distrank.contract import UNITS, Form
from distrank.engine.base import shard_path
from distrank.records import Array, Record, frozen, save_record
from distrank.tables.blocks import bucket_of, read_buckets
from distrank.tables.gold import AnyGold
from distrank.tables.gold_lookup import look_up
from distrank.tables.ids import stable_hash
from distrank.tables.interner import Interner
from distrank.tables.judgments import Judgments
from distrank.tables.outputs import IdTypes
from distrank.tables.pieces import Context, Members, Rows, part_records, shard_record
from distrank.tables.shards import count_never_compared
from distrank.tables.starts import Earlier
from distrank.tables.units import find_units, pairs_by_unit, rows_by_unit


@dataclass(frozen=True)
class Gathering:
    """What all shards are made from; sent to every worker."""

    form: Form
    goal: Form
    folder: Path  # of the blocks
    target: Path  # of the shards
    bits: int
    places: list[tuple[int, dict[int, tuple[int, int]]]]  # block -> bucket -> batch, rows
    types: dict[str, pa.DataType]
    annotators: pa.Array
    ties: bool  # whether any judgment of any block is a tie
    weights: bool  # whether any has a weight other than 1
    gold: AnyGold | None
    earlier: Earlier | None
    rows_per_shard: int
    splits: bool
    whole_annotators: bool

    @property
    def derives(self) -> bool:
        return self.form != self.goal


class Sizes(NamedTuple):
    """What a bucket holds: rows (or the pairs they give), and how much of that is in units that are not split."""

    rows: int
    small_rows: int
    small_units: int
    large: pa.Array | None  # the queries that are split


@dataclass(frozen=True)
class Built:
    """What is known of a shard, or of the parts of a split query, that was built."""

    rows: list[int]  # of every record
    units: int
    nodes: int
    disconnected: int
    never_compared: int
    started: int
    gold_found: Array | None


def size_bucket(gathering: Gathering, bucket: int) -> Sizes:
    """How large the units of a bucket are."""
    judgments = _gathered(gathering, range(bucket, bucket + 1))
    units = find_units(judgments, "query")
    sizes = pairs_by_unit(units, judgments) if gathering.derives else rows_by_unit(units)
    large = sizes > gathering.rows_per_shard if gathering.splits else np.zeros(len(sizes), bool)
    ids = judgments.queries.take(pa.array(units.query[large])) if large.any() else None
    return Sizes(int(sizes.sum()), int(sizes[~large].sum()), int((~large).sum()), ids)


def build_shard(gathering: Gathering, depth: int, large: pa.Array, number: int) -> Built:
    """One shard of whole units, written to its file."""
    bits = gathering.bits
    if depth <= bits:
        buckets = range(number << (bits - depth), (number + 1) << (bits - depth))
    else:
        buckets = range(number >> (depth - bits), (number >> (depth - bits)) + 1)
    judgments = _gathered(gathering, buckets, without=large, depth=depth if depth > bits else None, number=number)
    context, members, rows = _laid_out(gathering, judgments)
    record = shard_record(context, members, rows, _scratch(judgments))
    return _finished(gathering, context, [record], UNITS, number)


def build_split(gathering: Gathering, large: pa.Array, number: int) -> Built:
    """The parts of one split query, written to files of their own."""
    query = large.slice(number, 1)
    bucket = int(bucket_of(stable_hash(query), gathering.bits)[0])
    judgments = _gathered(gathering, range(bucket, bucket + 1), only=query)
    context, members, rows = _laid_out(gathering, judgments)
    records = part_records(context, members, rows, _scratch(judgments), number)
    return _finished(gathering, context, records, f"split-{number:05d}", 0)


def _gathered(
    gathering: Gathering,
    buckets: range,
    *,
    only: pa.Array | None = None,
    without: pa.Array | None = None,
    depth: int | None = None,
    number: int = 0,
) -> Judgments:
    """The judgments of some buckets from all blocks; codes follow the sorted order of ids, as everywhere."""
    wanted = [
        (block, [places[bucket][0] for bucket in buckets if bucket in places]) for block, places in gathering.places
    ]
    batches = read_buckets(gathering.folder, [entry for entry in wanted if entry[1]])
    kept = [_kept(batch, only, without, depth, number) for batch in batches]
    kept = [batch for batch in kept if batch.num_rows]
    names = ("winner", "loser") if gathering.form == "preferences" else ("item",)
    queries, query = _codes(gathering.types["queries"], [[batch["query"] for batch in kept]])
    items, item = _codes(gathering.types["items"], [[batch[name] for batch in kept] for name in names])
    people, annotator = _codes(gathering.types["annotators"], [[batch["annotator"] for batch in kept]])
    known = pc.index_in(people, value_set=gathering.annotators.cast(people.type))
    place = known.to_numpy(zero_copy_only=False).astype(np.uint32)
    columns: dict[str, Any] = dict(zip(names, item, strict=True))
    columns |= {
        "rating": _numbers(kept, "rating", None),
        "rank": _numbers(kept, "rank", None),
        "tie": _numbers(kept, "tie", False) if gathering.ties else None,
        "weight": _numbers(kept, "weight", 1.0) if gathering.weights else None,
    }
    return Judgments(
        gathering.form,
        queries,
        items,
        gathering.annotators,
        query[0],
        place[annotator[0]],
        **columns,
    )


def _kept(
    batch: pa.RecordBatch, only: pa.Array | None, without: pa.Array | None, depth: int | None, number: int
) -> pa.RecordBatch:
    """The rows of the queries that are asked for."""
    query = batch["query"]
    if only is not None:
        batch = batch.filter(pc.is_in(query, value_set=only.cast(query.type)))
    elif without is not None and len(without):
        batch = batch.filter(pc.invert(pc.is_in(query, value_set=without.cast(query.type))))
    if depth is not None:
        batch = batch.filter(pa.array(bucket_of(stable_hash(batch["query"]), depth) == number))
    return batch


def _codes(kind: pa.DataType, columns: list[list[pa.Array]]) -> tuple[pa.Array, list[Array]]:
    """The distinct ids of several columns in sorted order, and the codes of every column."""
    interner = Interner()
    codes = [
        np.concatenate([np.empty(0, np.uint32), *(interner.codes(chunk) for chunk in column)]) for column in columns
    ]
    if interner.count == 0:
        return pa.array([], kind), codes
    ids, place = interner.sorted_ids(kind, np.ones(interner.count, bool))
    return ids, [place[column] for column in codes]


def _numbers(batches: list[pa.RecordBatch], name: str, default: float | bool | None) -> Array | None:
    """A column of numbers; batches of files without it have what its absence means."""
    if default is None and not any(name in batch.schema.names for batch in batches):
        return None
    empty = np.empty(0, bool if default is False else np.float64)
    return np.concatenate(
        [
            empty,
            *(
                batch[name].to_numpy(zero_copy_only=False)
                if name in batch.schema.names
                else np.full(batch.num_rows, default)
                for batch in batches
            ),
        ]
    )


def _laid_out(gathering: Gathering, judgments: Judgments) -> tuple[Context, Members, Rows]:
    """The judgments of one destination as `pieces` takes them."""
    units = find_units(judgments, "query")
    context = Context(
        form=gathering.form,
        goal=gathering.goal,
        queries=judgments.queries,
        items=judgments.items,
        annotators=len(gathering.annotators),
        gold=None if gathering.gold is None else look_up(gathering.gold, judgments),
        rows_per_shard=gathering.rows_per_shard,
        whole_annotators=gathering.whole_annotators,
    )
    value = judgments.value
    if value is None and gathering.form != "preferences":
        value = np.empty(0)
    rows = Rows(
        unit=units.row.astype(np.uint32),
        annotator=judgments.annotator,
        items=judgments.item_columns,
        tie=judgments.tie,
        value=value,
        weight=judgments.weight,
    )
    return context, Members(units.hash, units.query), rows


def _scratch(judgments: Judgments) -> Array:
    return np.full(len(judgments.items), -1, np.int32)


def _finished(gathering: Gathering, context: Context, records: list[Record], name: str, first: int) -> Built:
    """Write the records; what is known of them."""
    if gathering.earlier is not None:
        types = IdTypes(gathering.types["queries"], gathering.types["items"])
        records = [gathering.earlier.with_scores(record, types) for record in records]
    for place, record in enumerate(records):
        save_record(shard_path(gathering.target, name, first + place), frozen(record))
    head = records[0]
    return Built(
        rows=[len(record["row.annotator"]) for record in records],
        units=len(head["unit.hash"]),
        nodes=int(head["unit.nodes"][-1]),
        disconnected=int((head["unit.components"] > 1).sum()),
        never_compared=count_never_compared(records) if gathering.derives else 0,
        started=sum(int((~np.isnan(record["node.start"])).sum()) for record in records if "node.start" in record),
        gold_found=None if context.gold is None else context.gold.found,
    )
