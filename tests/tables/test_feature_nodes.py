"""How features and gold reach the nodes of shards: every item of the features is a node, judged or not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from distrank.contract import UNITS
from distrank.errors import InputError
from distrank.tables.feature_nodes import Training, with_training
from distrank.tables.features import features_from_frame
from distrank.tables.gold import gold_from_frame
from distrank.tables.ids import unpack_ids
from distrank.tables.read import judgments_from_frame
from distrank.tables.shards import build_shards

TABLE = pd.DataFrame(
    {
        "query": ["q2", "q1", "q1", "q2", "q1"],
        "item": ["x", "y", "x", "z", "w"],
        "bm25": [1.0, 2.0, 3.0, 4.0, 5.0],
        "length": [10, 20, 30, 40, 50],
    }
)
RANKINGS = pd.DataFrame(
    {
        "query": ["q1", "q1", "q2", "q2"],
        "annotator": ["a", "a", "b", "b"],
        "item": ["y", "w", "z", "x"],
        "rank": [1, 2, 1, 2],
    }
)


def test_nodes_are_all_items_of_the_features_in_the_order_of_their_ids() -> None:
    gold = gold_from_frame(pd.DataFrame({"query": ["q1", "q2"], "item": ["x", "z"], "relevance": [2.0, 1.0]}))
    plain = build_shards(judgments_from_frame(RANKINGS), form="rankings", split="never")
    sharded = with_training(plain, Training(features_from_frame(TABLE)), gold)
    (shard,) = sharded.source.sets[UNITS]
    items = unpack_ids(shard, "node.id", sharded.item_type).to_pylist()
    queries = unpack_ids(shard, "unit.id", sharded.query_type).to_pylist()
    nodes = shard["unit.nodes"]
    by_query = {query: items[nodes[n] : nodes[n + 1]] for n, query in enumerate(queries)}
    assert by_query == {"q1": ["w", "x", "y"], "q2": ["x", "z"]}
    assert [items[int(node)] for node in shard["row.item"]] == ["w", "y", "x", "z"]
    value = {(row.query, row.item): row.bm25 for row in TABLE.itertuples()}
    names = [(query, item) for query in queries for item in by_query[query]]
    assert shard["node.features"][:, 0].tolist() == [value[name] for name in names]
    known = {name: grade for name, grade in zip(names, shard["node.gold"], strict=True) if not np.isnan(grade)}
    assert known == {("q1", "x"): 2.0, ("q2", "z"): 1.0}  # also where nobody judged the item
    assert sharded.info.items == 5
    assert sharded.info.features == ("bm25", "length")
    assert sharded.warnings == ()


def test_judged_items_without_features_are_an_error_that_names_them() -> None:
    plain = build_shards(judgments_from_frame(RANKINGS), form="rankings", split="never")
    with pytest.raises(InputError, match=r"1 judged items have no features, such as \(query / item\) 'q2' / 'z'"):
        with_training(plain, Training(features_from_frame(TABLE[TABLE["item"] != "z"])), None)


def test_whole_numbers_meet_their_text() -> None:
    """Judgments from Parquet with whole numbers, features from text."""
    frame = pd.DataFrame({"query": [1, 1], "annotator": [5, 5], "item": [10, 9], "rank": [1, 2]})
    table = pd.DataFrame({"query": ["1", "1"], "item": ["9", "10"], "x": [0.5, 1.5]})
    plain = build_shards(judgments_from_frame(frame), form="rankings", split="never")
    sharded = with_training(plain, Training(features_from_frame(table)), None)
    (shard,) = sharded.source.sets[UNITS]
    items = unpack_ids(shard, "node.id", sharded.item_type).to_pylist()
    assert dict(zip(items, shard["node.features"][:, 0], strict=True)) == {9: 0.5, 10: 1.5}


def test_shards_are_sized_by_items_as_well() -> None:
    training = Training(features_from_frame(TABLE))
    assert training.rows_per_shard(5) == 125_000
    assert training.rows_per_shard(5_000_000) > 249_000
