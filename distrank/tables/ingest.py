"""Judgments from files to shards without ever being in one place: what `read` and `shards` do, spread over an engine.

    describe   every file: its hash, its columns, its row groups
    read       every block: rows checked and sorted into buckets by the hash of their query      (tables.blocks)
    size       the buckets that may hold a query too large for a shard
    build      every shard, and every split query, from its buckets                              (tables.gather)

The steps in between see counts, the annotators and the rejected rows, never the judgments. The shards are, byte for
byte, those of `build_shards(read_judgments(...))`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from distrank.contract import PARTS, UNITS, Form, Info
from distrank.engine.base import FileSource, shard_path
from distrank.errors import InputError
from distrank.records import Array
from distrank.tables.blocks import Block, BlockFacts, FileFacts, cut, describe, read_block
from distrank.tables.columns import SHAPES, check_renames, missing, recognise
from distrank.tables.encode import small_data_warnings
from distrank.tables.gather import Built, Gathering, Sizes, build_shard, build_split, size_bucket
from distrank.tables.gold import AnyGold
from distrank.tables.gold_lookup import look_up
from distrank.tables.ids import same_ids, sort_order
from distrank.tables.interner import Interner
from distrank.tables.judgments import Counts, Judgments, check_rejected
from distrank.tables.order import bits_for
from distrank.tables.shards import MOST_DERIVED, ROWS_PER_SHARD, Sharded, Split, check_form, never_compared_warnings
from distrank.tables.sources import Location, find_files, source_name
from distrank.tables.starts import Earlier

A = TypeVar("A")
Each = Callable[[Callable[[A], Any], Sequence[A], str], list[Any]]  # (function, items, what it does) -> results
DOMAINS = ("queries", "annotators", "items")


@dataclass(frozen=True)
class Ingested:
    """What is known of judgments that lie in blocks: everything that `Judgments` tells but the rows."""

    form: Form
    folder: Path
    bits: int
    blocks: list[BlockFacts]
    content: str
    counts: Counts
    rejected: pa.Table
    files: Sequence[dict[str, Any]]
    warnings: Sequence[str]
    types: dict[str, pa.DataType]
    annotators: pa.Array
    annotator_judgments: Array
    timestamp: None = field(default=None)  # methods that read in time order are not ingested this way

    def __len__(self) -> int:
        return self.counts.accepted

    def check_limit(self, share: float) -> None:
        """Refuse the table if more than this share of its rows was rejected."""
        check_rejected(self.counts, self.rejected, share)


def ingest(
    source: Location | Sequence[Location], columns: Mapping[str, str], folder: Path, each: Each[Any]
) -> Ingested:
    """Read all blocks into the folder, which every process that `each` uses must see."""
    check_renames(columns, list(SHAPES.values()))
    folder.mkdir(parents=True, exist_ok=True)
    files: list[FileFacts] = each(describe, [file.anywhere() for file in find_files(source)], "opening the files")
    form = _one_form(files, columns)
    bits = bits_for(-(-sum(facts.most_rows for facts in files) // ROWS_PER_SHARD))
    blocks: list[Block] = cut(files)
    read: list[BlockFacts] = each(partial(read_block, folder, form, dict(columns), bits), blocks, "reading the files")
    name = source_name(source)
    counts = _counts(read, name)
    types = _types(read)
    annotators, judged = _annotators(read, types["annotators"])
    few: list[Any] = list(dict.fromkeys(item for facts in read for item in facts.few_items))
    return Ingested(
        form=form,
        folder=folder,
        bits=bits,
        blocks=read,
        content=f"{sum(facts.content for facts in read) % (1 << 128):032x}",
        counts=counts,
        rejected=pa.concat_tables([facts.rejected for facts in read]).combine_chunks(),
        files=[facts.fingerprint for facts in files],
        warnings=small_data_warnings({"annotators": annotators, "items": pa.array(few[:2], types["items"])}),
        types=types,
        annotators=annotators,
        annotator_judgments=judged,
    )


class SeveralFormsError(Exception):
    """The files hold judgments of several forms, which have to be brought together in one place (`mixed`)."""


def _one_form(files: Sequence[FileFacts], renames: Mapping[str, str]) -> Form:
    """The form of the first file, and of all others that have one."""
    form = recognise(files[0].file.name, [*files[0].columns, *files[0].file.partitions], renames)
    for facts in files[1:]:
        available = [*facts.columns, *facts.file.partitions]
        if missing(form, available, renames) and any(not missing(other, available, renames) for other in SHAPES):
            raise SeveralFormsError
    return form


def ingested_shards(
    ingested: Ingested,
    folder: Path,
    each: Each[Any],
    *,
    form: Form,
    split: Split = "rows",
    gold: AnyGold | None = None,
    earlier: Earlier | None = None,
    rows_per_shard: int = ROWS_PER_SHARD,
) -> Sharded:
    """Build the shards, each a file in the folder; see `build_shards` for the rules."""
    check_form(ingested.form, form, "query", split)
    gathering = Gathering(
        form=ingested.form,
        goal=form,
        folder=ingested.folder,
        target=folder,
        bits=ingested.bits,
        places=[(facts.number, facts.buckets) for facts in ingested.blocks if facts.buckets],
        types=ingested.types,
        annotators=ingested.annotators,
        ties=any(facts.ties for facts in ingested.blocks),
        weights=any(facts.weights for facts in ingested.blocks),
        gold=gold,
        earlier=earlier,
        rows_per_shard=rows_per_shard,
        splits=split in ("rows", "annotator"),
        whole_annotators=ingested.form != form or split == "annotator",
    )
    folder.mkdir(parents=True, exist_ok=True)
    sizes = _sizes(ingested, gathering, each)
    large = _sorted_large(sizes, ingested.types["queries"])
    total = sum(one.rows for one in sizes)
    if gathering.derives and total > MOST_DERIVED:
        raise InputError(
            f"the {ingested.form} would give up to {total:,} preferences, more than {MOST_DERIVED:,}: "
            "some annotators judged very many items of one query. Use a method that takes the form as it is"
        )
    depth = bits_for(-(-sum(one.small_rows for one in sizes) // rows_per_shard))
    shards = 0 if len(large) and not any(one.small_units for one in sizes) else 1 << depth
    build = partial(build_shard, gathering, depth, large)
    whole: list[Built] = each(build, list(range(shards)), "building the shards")
    cut_up: list[Built] = each(partial(build_split, gathering, large), list(range(len(large))), "cutting large queries")
    parts = _number_parts(folder, cut_up)
    built = [*whole, *cut_up]
    info = Info(
        judgments=len(ingested),
        queries=sum(one.units for one in built),
        items=sum(one.nodes for one in built),
        annotators=len(ingested.annotators),
        annotator_judgments=ingested.annotator_judgments,
        shards={UNITS: shards, PARTS: len(parts)},
        split_items=tuple(one.nodes for one in cut_up),
        gold=gold is not None,
        disconnected=sum(one.disconnected for one in built),
        start=None if earlier is None else earlier.start_of(ingested.annotators),
    )
    warnings = [
        *(_gold_warnings(gold, ingested, built) if gold is not None else []),
        *(never_compared_warnings(sum(one.never_compared for one in built)) if gathering.derives else []),
        *(earlier.warnings(info, sum(one.started for one in built)) if earlier is not None else []),
    ]
    return Sharded(
        source=FileSource(folder, {UNITS: [one.rows[0] for one in whole], PARTS: parts}),
        info=info,
        query_type=ingested.types["queries"],
        item_type=ingested.types["items"],
        annotators=ingested.annotators,
        warnings=tuple(warnings),
    )


def _sizes(ingested: Ingested, gathering: Gathering, each: Each[Any]) -> list[Sizes]:
    """The sizes of units by bucket. Only a bucket with more rows than a shard can hold a unit that does."""
    rows = Counter[int]()
    for facts in ingested.blocks:
        rows.update({bucket: count for bucket, (_, count) in facts.buckets.items()})
    if gathering.derives:
        return each(partial(size_bucket, gathering), sorted(rows), "counting pairs")
    crowded = [
        bucket for bucket, count in sorted(rows.items()) if gathering.splits and count > gathering.rows_per_shard
    ]
    looked_at: list[Sizes] = each(partial(size_bucket, gathering), crowded, "looking for large queries")
    plain = [count for bucket, count in rows.items() if bucket not in set(crowded)]
    return [*looked_at, *(Sizes(count, count, 1, None) for count in plain)]


def _sorted_large(sizes: Sequence[Sizes], kind: pa.DataType) -> pa.Array:
    """The queries that are split, in the order of their ids."""
    ids = pa.concat_arrays([pa.array([], kind), *(one.large.cast(kind) for one in sizes if one.large is not None)])
    return ids.take(pa.array(sort_order(ids))) if len(ids) else ids


def _number_parts(folder: Path, cut_up: Sequence[Built]) -> list[int]:
    """Give the parts of all split queries their numbers; the rows of every part."""
    rows: list[int] = []
    for number, one in enumerate(cut_up):
        for place, count in enumerate(one.rows):
            shard_path(folder, f"split-{number:05d}", place).rename(shard_path(folder, PARTS, len(rows)))
            rows.append(count)
    return rows


def _counts(blocks: Sequence[BlockFacts], name: str) -> Counts:
    read, accepted = sum(facts.read for facts in blocks), sum(facts.accepted for facts in blocks)
    reasons = Counter[str]()
    for facts in blocks:
        reasons.update(facts.by_reason)
    if read == 0:
        raise InputError(f"{name}: there are no rows")
    if accepted == 0:
        common = ", ".join(f"{reason} ({n:,})" for reason, n in reasons.most_common(3))
        raise InputError(f"{name}: none of the {read:,} rows can be used: {common}. Correct the rows")
    return Counts(read=read, accepted=accepted, rejected=read - accepted, by_reason=dict(reasons))


def _types(blocks: Sequence[BlockFacts]) -> dict[str, pa.DataType]:
    """One type for every kind of ids, that of the first block that has any."""
    known: dict[str, tuple[pa.DataType, str]] = {}
    for facts in blocks:
        for domain, (kind, where) in facts.types.items():
            first, there = known.setdefault(domain, (kind, where))
            if not same_ids(first, kind):
                raise InputError(
                    f"{where} holds {kind}, but {there} holds {first}; "
                    "ids must have one type in all files and columns: convert one of them"
                )
    return {domain: kind for domain, (kind, _) in known.items()}


def _annotators(blocks: Sequence[BlockFacts], kind: pa.DataType) -> tuple[pa.Array, Array]:
    """All annotators in sorted order, and the judgments of each."""
    interner = Interner()
    found = [
        (interner.codes(facts.annotators), facts.annotator_rows) for facts in blocks if facts.annotators is not None
    ]
    ids, place = interner.sorted_ids(kind, np.ones(interner.count, bool))
    judged = np.zeros(len(ids), np.int64)
    for codes, rows in found:
        judged[place[codes]] += rows
    return ids, judged


def _gold_warnings(gold: AnyGold, ingested: Ingested, built: Sequence[Built]) -> list[str]:
    """What to say about gold that no shard knows."""
    nothing = {name: pa.array([], ingested.types[name]) for name in DOMAINS}
    lookup = look_up(gold, Judgments(ingested.form, **nothing, query=np.empty(0), annotator=np.empty(0)))
    for one in built:
        if one.gold_found is not None:
            lookup.found |= one.gold_found
    return lookup.warnings()
