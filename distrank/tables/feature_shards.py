"""Items with features and without judgments as shards: the target that a ranker is tuned on, or what it is to rank.

Units are queries, laid out by the hash of their id like those of judgments; there are no rows. The arrays are those of
`contract`: `unit.hash`, `unit.nodes`, `node.features`, `node.gold` and the ids.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distrank.errors import InputError
from distrank.records import Array, Record, frozen
from distrank.tables.features import Features
from distrank.tables.gold import Gold
from distrank.tables.gold_lookup import codes_of
from distrank.tables.ids import pack_ids, show_id, stable_hash
from distrank.tables.order import bits_for

ITEMS_PER_SHARD = 32_768


@dataclass(frozen=True)
class FeatureShards:
    """Queries of items with features, where a fit can take them."""

    shards: list[Record]
    query_type: pa.DataType
    item_type: pa.DataType
    queries: int
    items: int


def build_feature_shards(
    features: Features, gold: Gold | None = None, *, items_per_shard: int = ITEMS_PER_SHARD
) -> FeatureShards:
    """All items that have features, with relevance from gold (or from the features' own grades); or, where gold is
    given, the graded items alone."""
    rows, relevance = _graded(features, gold)
    query, item = features.query.take(pa.array(rows)), features.item.take(pa.array(rows))
    queries = query.unique()
    queries = queries.take(pc.sort_indices(queries))
    code = pc.index_in(query, queries).to_numpy()
    order = np.lexsort((pc.rank(item).to_numpy(), code))
    hashes = stable_hash(queries)
    depth = bits_for(-(-len(rows) // items_per_shard))
    shard = (hashes >> np.uint64(64 - depth)).astype(np.int64) if depth else np.zeros(len(queries), np.int64)
    shards = []
    for number in range(1 << depth):
        units = np.flatnonzero(shard == number)
        here = order[np.isin(code[order], units)]
        counts = np.bincount(code[here], minlength=len(queries))[units]
        shards.append(
            frozen(
                {
                    "unit.hash": hashes[units],
                    "unit.nodes": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
                    "node.features": features.values[rows[here]],
                    "node.gold": relevance[here],
                    **pack_ids("unit.id", queries.take(pa.array(units))),
                    **pack_ids("node.id", item.take(pa.array(here))),
                }
            )
        )
    return FeatureShards(shards, queries.type, item.type, len(queries), len(rows))


def _graded(features: Features, gold: Gold | None) -> tuple[Array, Array]:
    """The rows of features that are used, and their relevance (NaN where unknown)."""
    if gold is None:
        unknown = np.full(len(features), np.nan)
        return np.arange(len(features)), unknown if features.relevance is None else features.relevance
    queries, items = features.query.dictionary_encode(), features.item.dictionary_encode()
    base = max(len(items.dictionary), 1)
    keys = queries.indices.to_numpy().astype(np.int64) * base + items.indices.to_numpy()
    order = np.argsort(keys)
    query = codes_of(gold.source, "query", gold.query, queries.dictionary)
    item = codes_of(gold.source, "item", gold.item, items.dictionary)
    wanted = np.where((query < 0) | (item < 0), -1, query.astype(np.int64) * base + item)
    place = order[np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)]
    missing = keys[place] != wanted
    if missing.any():
        one = int(missing.argmax())
        raise InputError(
            f"{gold.source}: {int(missing.sum()):,} of {len(gold):,} graded items have no features in "
            f"{features.source}, such as query {show_id(gold.query[one].as_py())}, item "
            f"{show_id(gold.item[one].as_py())}; add their rows"
        )
    return place, gold.relevance
