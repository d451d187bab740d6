"""Shards hold every row once, in one order, wherever the rows came from."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from tables_help import bytes_of, coded, ids_for, permuted, records_of, rows_of

from distrank.contract import PARTS, UNITS
from distrank.errors import InputError, UsageError
from distrank.tables import shards as shards_module
from distrank.tables import threads as threads_module
from distrank.tables.gold import Gold, gold_from_frame
from distrank.tables.gold_lookup import unknown_items
from distrank.tables.ids import stable_hash, unpack_ids
from distrank.tables.judgments import judgments_from_codes
from distrank.tables.order import canonical_order
from distrank.tables.shards import build_shards

splits = st.sampled_from(["rows", "annotator", "never"])
sizes = st.sampled_from([5, 20, 1000])


def rows_of_input(judgments):
    columns = [judgments.queries.take(pa.array(judgments.query)).to_pylist(), judgments.annotator.tolist()]
    columns += [judgments.items.take(pa.array(column)).to_pylist() for column in judgments.item_columns]
    columns += [] if judgments.value is None else [judgments.value.tolist()]
    if judgments.tie is not None and judgments.tie.any():
        columns.append(judgments.tie.tolist())
    if judgments.weight is not None and (judgments.weight != 1).any():
        columns.append(judgments.weight.tolist())
    return list(zip(*columns, strict=True))


forms = st.sampled_from(["preferences", "ratings", "rankings"])


@given(forms.flatmap(coded), splits, sizes)
def test_every_row_is_in_exactly_one_shard(judgments, split, size):
    sharded = build_shards(judgments, form=judgments.form, split=split, rows_per_shard=size)
    assert Counter(rows_of(sharded)) == Counter(rows_of_input(judgments))


@given(forms.flatmap(coded), splits, sizes, st.integers(0, 99))
def test_the_order_of_the_input_never_shows(judgments, split, size, seed):
    other = permuted(judgments, seed)
    for form in {judgments.form, "preferences"}:
        one = build_shards(judgments, form=form, split=split, rows_per_shard=size)
        two = build_shards(other, form=form, split=split, rows_per_shard=size)
        assert bytes_of(one) == bytes_of(two)
        assert one.info.shards == two.info.shards
    assert judgments.content == other.content


@given(coded(), splits)
def test_the_number_of_threads_never_shows(judgments, split):
    found = set()
    for threads in (1, 3):
        with pytest.MonkeyPatch.context() as patch:
            for module in (threads_module, shards_module):
                patch.setattr(module, "workers", lambda threads=threads: threads)
            found.add(bytes_of(build_shards(judgments, form="preferences", split=split, rows_per_shard=10)))
    assert len(found) == 1


@given(forms.flatmap(coded), splits, sizes)
def test_rows_are_in_canonical_order(judgments, split, size):
    sharded = build_shards(judgments, form=judgments.form, split=split, rows_per_shard=size)
    for record in records_of(sharded):
        unit = np.repeat(np.arange(len(record["unit.hash"])), np.diff(record["unit.rows"]))
        names = (
            "row.annotator",
            "row.winner",
            "row.loser",
            "row.item",
            "row.tie",
            "row.rating",
            "row.rank",
            "row.weight",
        )
        keys = list(zip(unit.tolist(), *(record[name].tolist() for name in names if name in record), strict=True))
        assert keys == sorted(keys)


@given(coded(), splits, sizes)
def test_a_units_shard_is_the_top_bits_of_its_hash(judgments, split, size):
    sharded = build_shards(judgments, form="preferences", split=split, rows_per_shard=size)
    shards = sharded.source.sets[UNITS]
    if not shards:  # only where every unit is split
        assert len(sharded.info.split_items) == sharded.info.queries > 0
        return
    depth = len(shards).bit_length() - 1
    assert len(shards) == 1 << depth
    for number, record in enumerate(shards):
        units = unpack_ids(record, "unit.id", sharded.query_type)
        assert units.to_pylist() == sorted(units.to_pylist())
        assert np.array_equal(record["unit.hash"], stable_hash(units))
        assert all(depth == 0 or value >> (64 - depth) == number for value in record["unit.hash"].tolist())


@given(coded(), sizes)
def test_the_number_of_shards_follows_from_the_rows(judgments, size):
    whole = build_shards(judgments, form="preferences", split="never", rows_per_shard=size)
    count = whole.info.shards[UNITS]
    assert count * size >= len(judgments)
    assert count == 1 or (count // 2) * size < len(judgments)
    assert whole.info.shards[PARTS] == 0


@given(coded(), st.sampled_from(["rows", "annotator"]), sizes)
def test_parts_cover_their_unit_and_the_first_one_names_its_items(judgments, split, size):
    sharded = build_shards(judgments, form="preferences", split=split, rows_per_shard=size)
    parts = sharded.source.sets[PARTS]
    large = [n for n in np.bincount(judgments.query).tolist() if n > size]
    assert [int(part["part.unit"]) for part in parts] == sorted(int(part["part.unit"]) for part in parts)
    assert len(sharded.info.split_items) == len(large)
    for number, (rows, items) in enumerate(zip(large, sharded.info.split_items, strict=True)):
        mine = [part for part in parts if part["part.unit"] == number]
        assert [bool(part["part.first"]) for part in mine] == [True] + [False] * (len(mine) - 1)
        assert sum(len(part["row.annotator"]) for part in mine) == rows
        assert all(len(part["row.annotator"]) for part in mine)
        assert [len(part["node.id.offsets"]) - 1 for part in mine] == [items] + [0] * (len(mine) - 1)
        assert [len(part["node.gold"]) for part in mine] == [items] + [0] * (len(mine) - 1)
        assert all(part["unit.nodes"].tolist() == [0, items] for part in mine)
        assert all(part["unit.judgments"].tolist() == [rows] for part in mine)
        assert all(part["part.unit"].shape == part["part.first"].shape == () for part in mine)
        if split == "rows":
            assert max(len(part["row.annotator"]) for part in mine) <= size
        else:
            groups = [set(part["row.annotator"].tolist()) for part in mine]
            assert sum(map(len, groups)) == len(set.union(*groups))


@given(forms.flatmap(coded), splits, sizes)
def test_counts_are_of_whole_units(judgments, split, size):
    sharded = build_shards(judgments, form=judgments.form, split=split, rows_per_shard=size)
    for record in records_of(sharded):
        if "part.first" in record and not record["part.first"]:
            continue
        names = unpack_ids(record, "unit.id", sharded.query_type).to_pylist()
        for place, name in enumerate(names):
            mine = judgments.query == judgments.queries.to_pylist().index(name)
            items = np.unique(np.concatenate([column[mine] for column in judgments.item_columns]))
            assert record["unit.judgments"][place] == mine.sum()
            assert record["unit.annotators"][place] == len(np.unique(judgments.annotator[mine]))
            begin, end = record["unit.nodes"][place : place + 2]
            ids = unpack_ids(record, "node.id", sharded.item_type).to_pylist()[begin:end]
            assert ids == judgments.items.take(pa.array(items)).to_pylist()
            assert record["unit.components"][place] == components(judgments, mine, items)
    info = sharded.info
    assert info.judgments == len(judgments)
    assert info.queries == len(np.unique(judgments.query))
    assert info.annotator_judgments.tolist() == np.bincount(judgments.annotator, minlength=info.annotators).tolist()


def components(judgments, mine, items):
    """Connected components by scipy: items of one row, or of one annotator, belong together."""
    if judgments.form == "preferences":
        edges = (judgments.winner[mine], judgments.loser[mine])
    else:
        first = {}
        pairs = zip(judgments.annotator[mine].tolist(), judgments.item[mine].tolist(), strict=True)
        edges = np.array([(first.setdefault(annotator, item), item) for annotator, item in pairs]).T
    place = np.searchsorted(items, np.asarray(edges))
    graph = coo_array((np.ones(place.shape[1]), (place[0], place[1])), shape=(len(items),) * 2)
    return connected_components(graph, directed=False)[0]


@given(coded("ratings"), sizes)
def test_units_may_be_items(judgments, size):
    sharded = build_shards(judgments, form="ratings", unit="item", rows_per_shard=size)
    assert Counter(rows_of(sharded)) == Counter(rows_of_input(judgments))
    whole = sharded.source.sets[UNITS]
    assert all(np.array_equal(record["unit.nodes"], np.arange(len(record["unit.hash"]) + 1)) for record in whole)
    assert sharded.info.items == len(set(zip(judgments.query.tolist(), judgments.item.tolist(), strict=True)))
    assert sharded.info.queries == len(np.unique(judgments.query))


def test_columns_without_information_are_left_out():
    columns = {"query": [0, 0], "annotator": [0, 1], "winner": [0, 1], "loser": [1, 0]}
    ids = ids_for({"query": 1, "annotator": 2, "item": 2})
    plain = judgments_from_codes("preferences", **ids, **columns)
    dull = judgments_from_codes("preferences", **ids, **columns, weight=np.ones(2), tie=np.zeros(2, bool))
    assert plain.content == dull.content
    assert bytes_of(build_shards(plain, form="preferences")) == bytes_of(build_shards(dull, form="preferences"))
    (record,) = build_shards(dull, form="preferences").source.sets[UNITS]
    assert "row.weight" not in record
    assert "row.tie" not in record


def test_shards_are_read_only():
    judgments = _one()
    for record in records_of(build_shards(judgments, form="preferences")):
        assert not any(array.flags.writeable for array in record.values())


@given(st.integers(1, 200), st.booleans(), st.integers(0, 99))
def test_rows_whose_codes_need_more_than_64_bits_are_ordered_alike(rows, with_values, seed):
    random = np.random.default_rng(seed)
    codes = [random.integers(0, 4, rows).astype(np.uint32) for _ in range(3)]
    values = [random.integers(0, 3, rows).astype(float) for _ in range(2)] if with_values else []
    narrow = canonical_order(codes, [4, 4, 4], values)
    wide = canonical_order(codes, [2**30, 2**30, 2**30], values)
    for one, other in zip([*narrow[0], *narrow[1]], [*wide[0], *wide[1]], strict=True):
        assert np.array_equal(one, other)


GOLD = {
    "query": ["q000", "q000", "q001", "nowhere"],
    "item": ["i000", "i009", "i001", "i000"],
    "relevance": [2, 1, 3, 1],
}


@pytest.mark.parametrize("size", [2, 1000])
def test_gold_finds_its_nodes_and_strangers_are_told(size):
    judgments = judgments_from_codes(
        "preferences",
        **ids_for({"query": 2, "annotator": 1, "item": 4}),
        query=[0, 0, 0, 1],
        annotator=[0, 0, 0, 0],
        winner=[0, 1, 2, 1],
        loser=[1, 2, 0, 3],
    )
    sharded = build_shards(judgments, form="preferences", gold=gold_from_frame(pa.table(GOLD)), rows_per_shard=size)
    found = {}
    for record in records_of(sharded):
        if len(record["node.gold"]):
            unit = np.repeat(np.arange(len(record["unit.hash"])), np.diff(record["unit.nodes"]))
            queries = unpack_ids(record, "unit.id", pa.string()).take(pa.array(unit)).to_pylist()
            items = unpack_ids(record, "node.id", pa.string()).to_pylist()
            found |= dict(zip(zip(queries, items, strict=True), record["node.gold"].tolist(), strict=True))
    known = {key: value for key, value in found.items() if not np.isnan(value)}
    assert known == {("q000", "i000"): 2.0, ("q001", "i001"): 3.0}
    assert len(found) == 5
    assert sharded.info.gold
    (warning,) = sharded.warnings
    assert "2 of 4 gold items" in warning
    assert "'q000' / 'i009'" in warning
    assert unknown_items(gold_from_frame(pa.table(GOLD)), judgments) == [warning]


def test_gold_of_another_type_is_refused():
    judgments = _one()
    gold = Gold(pa.array(["q000"]), pa.array([7]), np.array([1.0]))
    with pytest.raises(InputError, match="item holds int64, but the judgments hold string"):
        build_shards(judgments, form="preferences", gold=gold)


def test_forms_that_cannot_be_made_are_refused():
    judgments = _one()
    with pytest.raises(UsageError, match="needs ratings"):
        build_shards(judgments, form="ratings")
    with pytest.raises(UsageError, match="item by item"):
        build_shards(judgments, form="preferences", unit="item")


@pytest.mark.parametrize("column", ["query", "annotator", "winner", "loser"])
@pytest.mark.parametrize("code", [-1, 2])
def test_codes_without_an_id_are_refused(column, code):
    columns = {"query": [0], "annotator": [0], "winner": [0], "loser": [1], column: [code]}
    with pytest.raises(ValueError, match=f"the column {column} has codes outside"):
        judgments_from_codes("preferences", **ids_for({"query": 1, "annotator": 1, "item": 2}), **columns)


def test_queries_without_rows_are_no_units():
    judgments = judgments_from_codes(
        "preferences",
        **ids_for({"query": 5, "annotator": 1, "item": 2}),
        query=[3],
        annotator=[0],
        winner=[0],
        loser=[1],
    )
    sharded = build_shards(judgments, form="preferences")
    (record,) = sharded.source.sets[UNITS]
    assert unpack_ids(record, "unit.id", pa.string()).to_pylist() == ["q003"]
    assert sharded.info.queries == 1


def _one():
    return judgments_from_codes(
        "preferences",
        **ids_for({"query": 1, "annotator": 1, "item": 2}),
        query=[0],
        annotator=[0],
        winner=[0],
        loser=[1],
    )
