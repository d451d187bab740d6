"""From judgments to shards: units laid out by the hash of their id, rows in one canonical order.

The layout of a shard is in `contract`. Nothing here depends on the number of workers, the order of the rows, or the
files they came from; only for methods that read judgments in time order, all rows are one shard in that order.
"""

from __future__ import annotations

import queue
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from distrank.contract import PARTS, UNITS, Form, Info
from distrank.engine.base import FileSource, MemorySource
from distrank.errors import InputError, UsageError
from distrank.kernels.grouping import scatter, scatter_positions, tally
from distrank.records import Array, Record, frozen
from distrank.tables.feature_lookup import FeatureLookup
from distrank.tables.features import Features
from distrank.tables.gold import AnyGold
from distrank.tables.gold_lookup import look_up
from distrank.tables.grades import UNKNOWN, Grading, find_grades, unused_gold
from distrank.tables.items import ItemLayout, item_layout
from distrank.tables.judgments import Judgments
from distrank.tables.pieces import Context, Members, Rows, part_records, shard_record
from distrank.tables.sequence import order_warnings, time_positions
from distrank.tables.threads import each, workers
from distrank.tables.units import Layout, Unit, Units, find_units, lay_out, pairs_by_unit, rows_by_unit

ROWS_PER_SHARD = 250_000
MOST_DERIVED = 2_000_000_000  # preferences that ratings or rankings may be turned into

Split = Literal["rows", "annotator", "never", "ordered"]


@dataclass(frozen=True)
class Sharded:
    """Judgments where a fit can take them."""

    source: MemorySource | FileSource
    info: Info
    query_type: pa.DataType
    item_type: pa.DataType
    annotators: pa.Array
    items: ItemLayout | None = None  # where the items of every query went, if they are the units
    warnings: tuple[str, ...] = ()

    @property
    def in_memory(self) -> dict[str, list[Record]]:
        """The shards themselves, which this process holds."""
        if isinstance(self.source, FileSource):
            raise TypeError("these shards lie in files")
        return self.source.sets


def build_shards(
    judgments: Judgments,
    *,
    form: Form,
    unit: Unit = "query",
    split: Split = "rows",
    gold: AnyGold | None = None,
    features: Features | None = None,
    graded: bool = False,
    rows_per_shard: int = ROWS_PER_SHARD,
) -> Sharded:
    """Lay the judgments out in the given form. Ratings and rankings become preferences where those are asked for.

    `unit.judgments` and the counts in `info` are of judgments as given, also where rows are derived from them.
    """
    check_form(judgments.form, form, unit, split, derived=judgments.derived > 0)
    _check_sparsity(judgments, form)
    derives, ordered = judgments.form != form, split == "ordered"
    units = find_units(judgments, unit)
    sizes = pairs_by_unit(units, judgments) if derives else rows_by_unit(units)
    if derives and sizes.sum() > MOST_DERIVED:
        raise InputError(
            f"the {judgments.form} would give up to {int(sizes.sum()):,} preferences, more than {MOST_DERIVED:,}: "
            "some annotators judged very many items of one query. Use a method that takes the form as it is"
        )
    if ordered:
        rows_per_shard = max(len(judgments), 1)
    layout = lay_out(units, sizes, rows_per_shard, split=split in ("rows", "annotator"))
    lookup = None if gold is None else look_up(gold, judgments)
    grading = find_grades(judgments) if graded else None
    described = None if features is None else FeatureLookup(features, judgments)
    context = Context(
        form=judgments.form,
        goal=form,
        queries=judgments.queries,
        items=judgments.items,
        annotators=len(judgments.annotators),
        gold=lookup,
        rows_per_shard=rows_per_shard,
        whole_annotators=derives or split == "annotator",
        grading=grading,
        sparsity=judgments.sparsity,
        seed=judgments.seed,
        features=described,
    )
    pieces = _build(context, _columns(judgments, units, ordered=ordered), units, layout)
    shards = [piece[0] for piece in pieces[: layout.shards]]
    split_units = pieces[layout.shards :]
    parts = [part for piece in split_units for part in piece]
    info = Info(
        judgments=len(judgments),
        queries=len(units) if unit == "query" else len(np.unique(units.query)),
        items=sum(int(piece[0]["unit.nodes"][-1]) for piece in pieces),
        annotators=len(judgments.annotators),
        annotator_judgments=tally(judgments.annotator, len(judgments.annotators)),
        shards={UNITS: len(shards), PARTS: len(parts)},
        split_items=tuple(int(piece[0]["unit.nodes"][-1]) for piece in split_units),
        gold=gold is not None,
        disconnected=sum(int((piece[0]["unit.components"] > 1).sum()) for piece in pieces),
        features=() if features is None else features.names,
        **({} if grading is None else _grade_facts(grading, pieces)),
    )
    return Sharded(
        source=MemorySource({UNITS: shards, PARTS: parts}),
        info=info,
        query_type=judgments.queries.type,
        item_type=judgments.items.type,
        annotators=judgments.annotators,
        items=None if unit == "query" else item_layout(judgments, units, layout),
        warnings=(
            *([] if lookup is None else lookup.warnings()),
            *([] if described is None else described.warnings()),
            *([] if grading is None else [*grading.warnings(judgments), *unused_gold(_unmatched(pieces), grading)]),
            *(never_compared_warnings(sum(map(count_never_compared, pieces))) if derives else []),
            *(order_warnings(judgments) if ordered else []),
        ),
    )


def check_form(have: Form, want: Form, unit: Unit, split: Split, *, derived: bool = False) -> None:
    """Refuse judgments that a method cannot take; `derived` says that some were made from others already."""
    if want not in (have, "preferences"):
        raise UsageError(f"this method needs {want}, and {have} cannot be turned into them")
    if unit == "item" and want == "preferences":
        raise UsageError("a method that works item by item takes ratings or rankings, not preferences")
    if split == "ordered" and (have != want or derived):
        source = have if have != want else "ratings or rankings"
        raise UsageError(
            f"a method that reads judgments in time order takes {want} only: {want} that are derived from {source} "
            "have no time of their own. Use a method without an order, or give preferences"
        )


def _grade_facts(grading: Grading, pieces: list[list[Record]]) -> dict[str, Any]:
    honeypots = sum(int((piece[0]["node.grade"] != UNKNOWN).sum()) for piece in pieces)
    return {"grades": grading.values, "cut": grading.cut, "honeypots": honeypots}


def _unmatched(pieces: list[list[Record]]) -> int:
    """Items with gold that is none of the grades."""
    return sum(int((~np.isnan(piece[0]["node.gold"]) & (piece[0]["node.grade"] == UNKNOWN)).sum()) for piece in pieces)


def _check_sparsity(judgments: Judgments, form: Form) -> None:
    if judgments.sparsity < 1.0 and judgments.form == form:
        raise UsageError(
            f"setting sparsity={judgments.sparsity:g} is for ratings or rankings that are turned into preferences; "
            f"these are {judgments.form}, and the method takes them as they are. Leave sparsity at 1"
        )


def count_never_compared(records: list[Record]) -> int:
    """Items of one destination that no derived preference names."""
    nodes = int(records[0]["unit.nodes"][-1])
    named = np.zeros(nodes, np.int64)
    for record in records:
        named += tally(record["row.winner"], nodes) + tally(record["row.loser"], nodes)
    return int((named == 0).sum())


def never_compared_warnings(count: int) -> list[str]:
    """What to say about them."""
    if count == 0:
        return []
    return [f"{count:,} items are compared with no other: nobody judged them with another item of another value"]


def _build(context: Context, columns: dict[str, Array], units: Units, layout: Layout) -> list[list[Record]]:
    """The records of every destination: one shard, or the parts of a split unit."""
    table, starts = _by_destination(columns, units, layout)
    scratches: queue.SimpleQueue[Array] = queue.SimpleQueue()
    for _ in range(workers()):
        scratches.put(np.full(len(context.items), -1, np.int32))

    def build(destination: int) -> list[Record]:
        units_here = layout.members[destination]
        members = Members(units.hash[units_here], units.query[units_here])
        rows = _rows_of(table, layout, slice(int(starts[destination]), int(starts[destination + 1])))
        scratch = scratches.get()
        try:
            if destination < layout.shards:
                records = [shard_record(context, members, rows, scratch)]
            else:
                records = part_records(context, members, rows, scratch, destination - layout.shards)
        finally:
            scratches.put(scratch)
        return [frozen(record) for record in records]

    return each(build, range(len(layout.members)))


def _columns(judgments: Judgments, units: Units, *, ordered: bool) -> dict[str, Array]:
    """The columns that matter for shards: no ties where none is, no weights where all are 1, no places in time where
    they do not count."""
    columns = {"unit": units.row, "annotator": judgments.annotator}
    for place, column in enumerate(judgments.item_columns):
        columns[f"item{place}"] = column
    if judgments.tie is not None and judgments.tie.any():
        columns["tie"] = judgments.tie
    if judgments.value is not None:
        columns["value"] = judgments.value
    if judgments.weight is not None and (judgments.weight != 1.0).any():
        columns["weight"] = judgments.weight
    if ordered:
        columns["position"] = time_positions(judgments)
    return columns


def _by_destination(columns: dict[str, Array], units: Units, layout: Layout) -> tuple[dict[str, Array], Array]:
    """The columns laid out by destination, and where each destination begins."""
    counts = np.bincount(layout.destination, rows_by_unit(units), minlength=len(layout.members)).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(counts)])
    if (counts > 0).sum() <= 1:
        return columns, starts
    positions = np.empty(len(units.row), np.uint32 if len(units.row) < 2**32 else np.int64)
    scatter_positions(units.row, layout.destination, starts, positions)

    def moved(column: Array) -> Array:
        result = np.empty_like(column)
        scatter(column, positions, result)
        return result

    return dict(zip(columns, each(moved, columns.values()), strict=True)), starts


def _rows_of(table: dict[str, Array], layout: Layout, span: slice) -> Rows:
    return Rows(
        unit=layout.number[table["unit"][span]].astype(np.uint32),
        annotator=table["annotator"][span],
        items=tuple(table[name][span] for name in ("item0", "item1") if name in table),
        tie=table["tie"][span] if "tie" in table else None,
        value=table["value"][span] if "value" in table else None,
        weight=table["weight"][span] if "weight" in table else None,
        position=table["position"][span] if "position" in table else None,
    )
