"""Features brought into shards: `node.features`, and nodes for the items that nobody judged.

A query's items are those of the features table: a list that stops at ten of a thousand says something about the other
990. Every judged item must have features. Gold is looked up here as well, for all of these items.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distrank.contract import UNITS
from distrank.engine.base import MemorySource
from distrank.errors import InputError
from distrank.records import Array, Record, frozen
from distrank.tables.annotator_info import AnnotatorInfo, side_information
from distrank.tables.features import Features
from distrank.tables.gold import AnyGold
from distrank.tables.gold_lookup import Lookup, look_up
from distrank.tables.ids import pack_ids, same_ids, show_id, sort_order, unpack_ids, whole_numbers
from distrank.tables.shards import ROWS_PER_SHARD, Sharded

ROWS = ("row.item", "row.winner", "row.loser")  # arrays that hold node numbers


@dataclass(frozen=True)
class CodedFeatures:
    """Rows of a features table in the order of query and item; codes follow the sorted order of the ids."""

    queries: pa.Array  # distinct ids
    items: pa.Array
    query: Array  # code of every row
    item: Array
    row: Array  # its place in the table

    @staticmethod
    def of(features: Features) -> CodedFeatures:
        queries, query = _coded(features.query)
        items, item = _coded(features.item)
        order = np.lexsort((item, query))
        return CodedFeatures(queries, items, query[order], item[order], order)


def _coded(ids: pa.Array) -> tuple[pa.Array, Array]:
    encoded = ids.dictionary_encode()
    order = sort_order(encoded.dictionary)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return encoded.dictionary.take(pa.array(order)), place[encoded.indices.to_numpy()]


@dataclass(frozen=True)
class Training:
    """What a ranker learns from, besides judgments and gold."""

    features: Features
    annotator_info: AnnotatorInfo | None = None

    @property
    def identity(self) -> dict[str, str | None]:
        """Fingerprints, for the identity of a run."""
        info = self.annotator_info
        return {"features": self.features.content, "annotator_info": None if info is None else info.content}

    def rows_per_shard(self, judgments: int) -> int:
        """Judgments of a shard, such that it holds about `ROWS_PER_SHARD` of judgments and items together."""
        return max(ROWS_PER_SHARD * judgments // max(judgments + len(self.features), 1), 1)


def with_training(sharded: Sharded, training: Training, gold: AnyGold | None) -> Sharded:
    """The shards with a matrix of features by node; judgments without gold come in, gold is added here."""
    features, coded = training.features, CodedFeatures.of(training.features)
    lookup = None if gold is None else look_up(gold, coded)
    shards = [_extended(shard, sharded, features, coded, lookup) for shard in sharded.in_memory[UNITS]]
    side, strangers = side_information(training.annotator_info, sharded.annotators)
    info = replace(
        sharded.info,
        items=sum(int(shard["unit.nodes"][-1]) for shard in shards),
        gold=gold is not None,
        features=features.names,
        annotator_info=side,
    )
    told = [*([] if lookup is None else lookup.warnings()), *strangers]
    return replace(
        sharded,
        source=MemorySource({**sharded.in_memory, UNITS: [frozen(shard) for shard in shards]}),
        info=info,
        warnings=(*sharded.warnings, *told),
    )


def _extended(
    shard: Record, sharded: Sharded, features: Features, coded: CodedFeatures, lookup: Lookup | None
) -> Record:
    """One shard with the nodes of the features table in place of its own."""
    starts = np.searchsorted(coded.query, np.arange(len(coded.queries) + 1))
    nodes = shard["unit.nodes"]
    units = unpack_ids(shard, "unit.id", sharded.query_type)
    judged = unpack_ids(shard, "node.id", sharded.item_type)
    query = _codes(features, "query", units, coded.queries)
    of_node = np.repeat(np.arange(len(units)), np.diff(nodes))
    item = _codes(features, "item", judged, coded.items)
    base = np.int64(len(coded.items) + 1)
    keys = coded.query * base + coded.item
    wanted = query[of_node] * base + item
    row = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    missing = np.flatnonzero((query[of_node] < 0) | (item < 0) | (keys[row] != wanted))
    if len(missing):
        examples = [
            f"{show_id(units[int(of_node[place])].as_py())} / {show_id(judged[int(place)].as_py())}"
            for place in missing[:3]
        ]
        raise InputError(
            f"{features.source}: {len(missing):,} judged items have no features, such as (query / item) "
            f"{', '.join(examples)}; add their rows, or leave their judgments out"
        )
    sizes = starts[query + 1] - starts[query]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = np.repeat(starts[query] - offsets[:-1], sizes) + np.arange(offsets[-1])
    number = offsets[:-1][of_node] + row - starts[query[of_node]]  # new number of every old node
    moved = {name: number[shard[name]].astype(np.uint32) for name in ROWS if name in shard}
    query_code, item_code = coded.query[rows], coded.item[rows]
    grade = np.full(len(rows), np.nan) if lookup is None else lookup.grades(query_code, item_code)
    return {
        **shard,
        **moved,
        **({} if lookup is None else lookup.pairs(query_code, item_code)),
        "unit.nodes": offsets,
        "node.gold": grade,
        "node.features": features.values[coded.row[rows]],
        **pack_ids("node.id", _taken(coded.items, item_code, sharded.item_type)),
    }


def _taken(ids: pa.Array, codes: Array, kind: pa.DataType) -> pa.Array:
    return ids.take(pa.array(codes)).cast(kind)


def _codes(features: Features, name: str, ids: pa.Array, known: pa.Array) -> Array:
    """The code of every id in the features table, -1 where it does not know it."""
    if not same_ids(ids.type, known.type):
        # CSV holds the numbers of a Parquet file as text
        numbers, known_numbers = whole_numbers(ids), whole_numbers(known)
        if numbers is None or known_numbers is None:
            raise InputError(
                f"{features.source}: the column {name} holds {known.type}, but the judgments hold {ids.type}; "
                "ids must have one type in all tables"
            )
        ids, known = numbers, known_numbers
    found = pc.index_in(ids, value_set=known.cast(ids.type))
    return pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
