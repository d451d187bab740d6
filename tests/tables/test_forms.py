"""Ratings and rankings as preferences, against a literal double loop."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables_help import coded, ids_for, rows_of

from distrank.errors import InputError
from distrank.tables import shards
from distrank.tables.judgments import judgments_from_codes
from distrank.tables.shards import build_shards


def literal_pairs(judgments):
    """Every pair of rows of one annotator in one query: the better item wins, with the smaller weight."""
    sign = 1 if judgments.form == "ratings" else -1
    weighted = judgments.weight is not None and (judgments.weight != 1).any()
    found = Counter()
    for i in range(len(judgments)):
        for j in range(len(judgments)):
            same = judgments.query[i] == judgments.query[j] and judgments.annotator[i] == judgments.annotator[j]
            better = sign * judgments.value[i] > sign * judgments.value[j]
            if same and better and judgments.item[i] != judgments.item[j]:
                names = [judgments.items[int(judgments.item[k])].as_py() for k in (i, j)]
                weight = [min(judgments.weight[i], judgments.weight[j])] if weighted else []
                query = judgments.queries[int(judgments.query[i])].as_py()
                found[(query, int(judgments.annotator[i]), *names, *weight)] += 1
    return found


@given(st.sampled_from(["ratings", "rankings"]).flatmap(coded), st.sampled_from([3, 1000]))
def test_preferences_are_the_pairs_with_different_values(judgments, size):
    sharded = build_shards(judgments, form="preferences", rows_per_shard=size)
    assert Counter(rows_of(sharded)) == literal_pairs(judgments)


@given(st.sampled_from(["ratings", "rankings"]).flatmap(coded))
def test_items_without_a_pair_stay_items(judgments):
    """Everything that was judged is ranked, and counts are of the judgments as given."""
    sharded = build_shards(judgments, form="preferences")
    assert sharded.info.items == len(set(zip(judgments.query.tolist(), judgments.item.tolist(), strict=True)))
    assert sharded.info.judgments == len(judgments)
    compared = {(row[0], item) for row in literal_pairs(judgments) for item in row[2:4]}
    told = sum(int(warning.split()[0]) for warning in sharded.warnings if "compared with no other" in warning)
    assert told == sharded.info.items - len(compared)


def test_a_top_list_gives_pairs_among_its_items_only():
    top = judgments_from_codes(
        "rankings",
        **ids_for({"query": 1, "annotator": 2, "item": 4}),
        query=[0] * 5,
        annotator=[0, 0, 1, 1, 1],
        item=[2, 0, 3, 2, 1],
        rank=np.array([1.0, 2.0, 1.0, 2.0, 3.0]),
    )
    rows = [row[1:] for row in rows_of(build_shards(top, form="preferences"))]
    assert rows == [(0, "i002", "i000"), (1, "i002", "i001"), (1, "i003", "i001"), (1, "i003", "i002")]


def test_too_many_pairs_are_an_error_before_memory_runs_out(monkeypatch):
    monkeypatch.setattr(shards, "MOST_DERIVED", 5)
    ratings = judgments_from_codes(
        "ratings",
        **ids_for({"query": 1, "annotator": 1, "item": 4}),
        query=[0] * 4,
        annotator=[0] * 4,
        item=range(4),
        rating=np.arange(4.0),
    )
    with pytest.raises(InputError, match="up to 6 preferences, more than 5"):
        build_shards(ratings, form="preferences")


def test_annotators_of_a_split_unit_stay_together():
    rows = 60
    ratings = judgments_from_codes(
        "ratings",
        queries=pa.array(["q"]),
        items=pa.array(range(6)),
        annotators=pa.array(range(10)),
        query=np.zeros(rows),
        annotator=np.repeat(np.arange(10), 6),
        item=np.tile(np.arange(6), 10),
        rating=np.tile(np.arange(6.0), 10),
    )
    sharded = build_shards(ratings, form="preferences", split="rows", rows_per_shard=40)
    parts = sharded.source.sets["parts"]
    assert [len(part["row.winner"]) for part in parts] == [45, 30, 45, 30]
    groups = [set(part["row.annotator"].tolist()) for part in parts]
    assert sum(map(len, groups)) == len(set.union(*groups)) == 10
    assert all(part["unit.judgments"].tolist() == [60] for part in parts)
