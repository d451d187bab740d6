"""Source and target of remapping: judged items with features and label features, and graded items with features.

Honeypots never enter the source. Features are standardised by the source's items (mean 0, standard deviation 1), a
constant is put at their end; the same is done to whatever is ranked later.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from distrank.contract import Info
from distrank.errors import InputError
from distrank.kernels.hashing import hash_words
from distrank.records import Array, Record, frozen, scalar
from distrank.remap.extension import Blocks
from distrank.remap.label_features import LabelFeatures
from distrank.remap.model import SOURCE, TARGET, TRAIN, VALIDATION
from distrank.tables.feature_lookup import FeatureLookup
from distrank.tables.feature_shards import FeatureShards
from distrank.tables.features import Features, LabelColumns
from distrank.tables.gold import Gold
from distrank.tables.gold_lookup import codes_of, look_up
from distrank.tables.ids import show_id, stable_hash
from distrank.tables.judgments import Judgments
from distrank.tables.order import bits_for
from distrank.tables.units import find_units

Part: TypeAlias = Callable[[Array], Array]
ITEMS_PER_SHARD = 16_384
_SALT = np.uint64(77)


@dataclass(frozen=True)
class Samples:
    """The judged items and their labels: a sample is one label. Items are numbered in code order of query and item."""

    query: Array  # code of the query of every item
    query_hash: Array  # stable hash of that query's id
    values: Array  # features of every item, as given
    item: Array  # item of every sample
    annotator: Array
    rating: Array
    code: Array  # code of every item
    number: Array  # of every item among those of all judgments, honeypots included

    def __len__(self) -> int:
        return len(self.item)


def samples_of(judgments: Judgments, features: Features, honeypots: Gold | None) -> Samples:
    """All labels but those on honeypots, in one canonical order."""
    units = find_units(judgments, "item")
    (item_column,) = judgments.item_columns
    item_code = np.zeros(len(units), np.int64)
    item_code[units.row] = item_column
    kept = np.ones(len(units), bool)
    if honeypots is not None:
        kept = np.isnan(look_up(honeypots, judgments).grades(units.query, item_code))
        if not kept.any():
            raise InputError(f"{honeypots.source}: all judged items are honeypots; there is nothing left to learn from")
    used = kept[units.row]
    if judgments.rating is None:
        raise InputError(f"remapping takes ratings (item, annotator, rating), not {judgments.form}")
    source = dataclasses.replace(
        judgments,
        query=judgments.query[used],
        annotator=judgments.annotator[used],
        item=item_column[used],
        rating=judgments.rating[used],
        weight=None,
        timestamp=None,
    )
    numbers = np.flatnonzero(kept)
    place = np.cumsum(kept) - 1
    rows = place[units.row[used]]
    rating = judgments.rating[used]
    order = np.lexsort((rating, source.annotator, rows))
    query = units.query[numbers]
    return Samples(
        query=query,
        query_hash=stable_hash(judgments.queries)[query],
        values=FeatureLookup(features, source)(query, item_code[numbers]),
        item=rows[order],
        annotator=source.annotator[order],
        rating=rating[order],
        code=item_code[numbers],
        number=numbers,
    )


def own_columns(samples: Samples, judgments: Judgments, table: LabelColumns) -> Array:
    """The user's own numbers for every sample; one without them is an error."""
    kinds = (judgments.queries, judgments.items, judgments.annotators)
    columns = (("query", table.query), ("item", table.item), ("annotator", table.annotator))
    pairs = zip(columns, kinds, strict=True)
    given = np.stack([codes_of(table.source, name, ids, known) for (name, ids), known in pairs])
    rows = np.flatnonzero((given >= 0).all(axis=0))
    keys = _keys(given[:, rows], kinds)
    order = np.argsort(keys, kind="stable")
    rows, keys = rows[order], keys[order]
    codes = np.stack([samples.query[samples.item], samples.code[samples.item], samples.annotator])
    wanted = _keys(codes, kinds)
    place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    missing = keys[place] != wanted if len(keys) else np.ones(len(wanted), bool)
    if missing.any():
        one = codes[:, int(missing.argmax())]
        query, item, annotator = (show_id(ids[int(code)].as_py()) for ids, code in zip(kinds, one, strict=True))
        raise InputError(
            f"{table.source}: {int(missing.sum()):,} of {len(samples):,} judgments have no label features, such as "
            f"query {query}, item {item}, annotator {annotator}; add their rows"
        )
    return table.values[rows[place]]


def _keys(codes: Array, kinds: tuple[pa.Array, ...]) -> Array:
    """One number for every combination of query, item and annotator."""
    query, item, annotator = codes.astype(np.int64)
    return (query * len(kinds[1]) + item) * len(kinds[2]) + annotator


def source_shards(samples: Samples, blocks: Blocks, y: LabelFeatures, label: Array | None = None) -> list[Record]:
    """The samples by block and by the hash of their query: `node.features`, `row.item`, `row.y`, `row.annotator`, and
    `row.label` where relevance values are given."""
    depth = bits_for(-(-len(samples.query) // ITEMS_PER_SHARD))
    shard = np.zeros(len(samples.query), np.int64)
    if depth:
        shard = (samples.query_hash >> np.uint64(64 - depth)).astype(np.int64)
    shards = []
    for block, describe in enumerate(blocks.blocks):
        for number in range(1 << depth):
            here = (shard == number) & (blocks.block == block)
            nodes, rows = np.flatnonzero(here), np.flatnonzero(here[samples.item])
            record = {
                "block": scalar(block),
                "blocks": scalar(len(blocks.blocks)),
                "node.features": describe(samples.values[nodes]),
                "row.item": np.searchsorted(nodes, samples.item[rows]).astype(np.uint32),
                "row.y": y.values[rows],
                "row.annotator": samples.annotator[rows],
            }
            shards.append(frozen(record if label is None else {**record, "row.label": label[rows]}))
    return shards


def target_shards(built: FeatureShards, blocks: Blocks, part: Part) -> list[Record]:
    """Graded items with the features of all blocks side by side, divided by their number: scores are averaged. `part`
    says of every query, given by its hash, whether it is for training or for validation."""
    shards = []
    for shard in built.shards:
        if np.isnan(shard["node.gold"]).any():
            raise InputError("the target must grade every item: give relevance for all of them")
        x = np.hstack([block(shard["node.features"]) for block in blocks.blocks])
        record = {
            "unit.nodes": shard["unit.nodes"],
            "unit.part": part(shard["unit.hash"]).astype(np.int64),
            "node.features": x / len(blocks.blocks),
            "node.gain": np.exp2(shard["node.gold"]) - 1.0,
        }
        shards.append(frozen(record))
    return shards


def by_hash(validation: float) -> Part:
    """A share of the queries for validation, chosen by the hash of their ids."""
    return lambda hashes: np.where(fractions(hashes) < validation, VALIDATION, TRAIN)


def fractions(hashes: Array) -> Array:
    """A number from 0 to 1 for every query, independent of where its shard is."""
    return hash_words(hashes, _SALT).astype(np.float64) / 2.0**64


def info_of(samples: Samples, source: list[Record], target: list[Record]) -> Info:
    """Counts, as a model gets them."""
    count = int(samples.annotator.max(initial=0)) + 1
    used = sum(len(shard["row.y"]) for shard in source)
    return Info(
        judgments=used,
        queries=len(np.unique(samples.query)),
        items=len(samples.query),
        annotators=count,
        annotator_judgments=np.bincount(samples.annotator, minlength=count),
        shards={SOURCE: len(source), TARGET: len(target)},
    )
