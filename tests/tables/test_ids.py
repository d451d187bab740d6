"""Ids come back as they went in, and hash the same everywhere."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distrank.errors import InputError
from distrank.kernels.hashing import sum_rows
from distrank.tables import interner as interner_module
from distrank.tables.ids import pack_ids, show_id, sort_order, stable_hash, unpack_ids
from distrank.tables.interner import Interner

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
whole = {f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)}
whole |= {f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)}
moment = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1))

VALUES: list[tuple[pa.DataType, st.SearchStrategy]] = [
    (pa.string(), text),
    (pa.large_string(), text),
    (pa.binary(), st.binary(max_size=20)),
    (pa.large_binary(), st.binary(max_size=20)),
    (pa.binary(5), st.binary(min_size=5, max_size=5)),
    (pa.bool_(), st.booleans()),
    *((pa.type_for_alias(name), st.integers(*bounds)) for name, bounds in whole.items()),
    (pa.float16(), st.floats(width=16, allow_nan=False)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.date32(), st.dates()),
    (pa.date64(), st.dates(dt.date(1900, 1, 1), dt.date(2200, 1, 1))),
    (pa.timestamp("us"), moment),
    (pa.timestamp("ns", tz="UTC"), moment.map(lambda value: value.replace(tzinfo=dt.UTC))),
    (pa.time64("us"), st.times()),
    (pa.duration("us"), st.timedeltas(dt.timedelta(-(10**4)), dt.timedelta(10**4))),
    (pa.decimal128(12, 3), st.decimals(-(10**8), 10**8, places=3)),
    (pa.decimal256(50, 3), st.decimals(-(10**8), 10**8, places=3)),
]
arrays = st.sampled_from(VALUES).flatmap(
    lambda kind: st.lists(kind[1], max_size=12).map(lambda values: pa.array(values, kind[0]))
)


@given(arrays)
def test_ids_of_every_type_come_back_as_they_went_in(ids):
    assert unpack_ids(pack_ids("id", ids), "id", ids.type).equals(ids)


@given(arrays, st.integers(0, 12))
def test_a_slice_packs_and_hashes_as_its_values_do(ids, start):
    part = ids.slice(min(start, len(ids)))
    assert unpack_ids(pack_ids("id", part), "id", ids.type).equals(part)
    assert np.array_equal(stable_hash(part), stable_hash(ids)[start:])


@given(arrays)
def test_packed_ids_are_plain_arrays(ids):
    assert all(not array.dtype.hasobject for array in pack_ids("id", ids).values())


@given(arrays)
def test_hashes_agree_exactly_where_ids_do(ids):
    hashes, values = stable_hash(ids), ids.to_pylist()
    for i in range(len(ids)):
        for j in range(i):
            assert (hashes[i] == hashes[j]) == (values[i] == values[j])


@given(st.lists(text))
def test_the_hash_of_text_does_not_depend_on_how_it_is_stored(values):
    narrow, wide = pa.array(values, pa.string()), pa.array(values, pa.large_string())
    assert np.array_equal(stable_hash(narrow), stable_hash(wide))


GOLDEN_TEXT = ["5e41ab087439611e", "8fcc9d57ed83f50d", "56ad0ade092ce54a", "7a38a323a8925015", "c4043f5b3eac5bbb"]
GOLDEN_WHOLE = ["64684c4f0fd784b4", "e06dd043328bd285", "fc071b2cceca31ad", "35e1bd916200e81f"]
GOLDEN_REAL = ["c9996a2d8fd0ecd1", "d715793c5b2182f7"]
ONES = 2**64 - 1


def literal_mix(word):
    word = (word + 0x9E3779B97F4A7C15) & ONES
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & ONES
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & ONES
    return word ^ (word >> 31)


@given(st.lists(st.binary(max_size=40)))
def test_the_hash_of_bytes_is_what_it_is_said_to_be(values):
    def literal(value):
        state = literal_mix(1 ^ len(value))
        for start in range(0, len(value) + 1 if len(value) % 8 == 0 else len(value), 8):
            state = literal_mix(state ^ int.from_bytes(value[start : start + 8], "little"))
        return state

    assert stable_hash(pa.array(values, pa.binary())).tolist() == [literal(value) for value in values]


def test_hashes_never_change():
    """Shard numbers, random numbers and run ids hang on these values."""
    ids = pa.array(["", "a", "query-7", "a text of more than eight bytes", "é"])
    assert [f"{value:016x}" for value in stable_hash(ids).tolist()] == GOLDEN_TEXT
    assert [f"{value:016x}" for value in stable_hash(pa.array([0, 1, -1, 2**40])).tolist()] == GOLDEN_WHOLE
    assert [f"{value:016x}" for value in stable_hash(pa.array([0.5, -2.0])).tolist()] == GOLDEN_REAL


@given(st.lists(st.integers(0, 2**128 - 1)))
def test_row_hashes_are_added_modulo_two_to_the_128(values):
    low = np.array([value % 2**64 for value in values], np.uint64)
    high = np.array([value >> 64 for value in values], np.uint64)
    total_low, total_high = sum_rows(low, high).tolist()
    assert total_low + (total_high << 64) == sum(values) % 2**128


def test_hashes_spread_over_shards():
    top = stable_hash(pa.array([f"q{number}" for number in range(64_000)])) >> np.uint64(58)
    counts = np.bincount(top.astype(int), minlength=64)
    assert abs(counts - 1000).max() < 6 * np.sqrt(1000)


@given(arrays)
def test_interned_ids_are_distinct_sorted_and_complete(ids):
    interner = Interner()
    codes = np.concatenate([interner.codes(ids.slice(0, 3)), interner.codes(ids.slice(3))])
    if len(ids) == 0:
        return
    found, place = interner.sorted_ids(ids.type, np.ones(interner.count, bool))
    assert found.take(pa.array(place[codes])).to_pylist() == ids.to_pylist()
    values = found.to_pylist()
    assert all(_key(one) < _key(other) for one, other in itertools.pairwise(values))


def _key(value):
    return value.encode() if isinstance(value, str) else value


def test_an_interner_grows_with_its_ids():
    interner = Interner()
    values = [f"{'x' * (number % 50)}{number}" for number in range(20_000)]
    first = interner.codes(pa.array(values))
    assert np.array_equal(first, np.arange(20_000))
    again = interner.codes(pa.array(values[::-1]).dictionary_encode())
    assert np.array_equal(again, first[::-1])


def test_ids_that_collide_are_told_apart(monkeypatch):
    """Even if every id had the same hash."""
    monkeypatch.setattr(interner_module, "hash_bytes", lambda _, offsets, *__: np.zeros(len(offsets) - 1, np.uint64))
    interner = Interner()
    values = [f"id {number % 3000}" for number in range(4000)]
    assert interner.codes(pa.array(values)).tolist() == [number % 3000 for number in range(4000)]


@given(st.binary(max_size=12), st.lists(st.binary(max_size=12), unique=True), st.integers(0, 3))
def test_text_is_sorted_bytewise_whatever_it_begins_with(shared, ends, start):
    values = [shared + end for end in ends]
    ids = pa.array(values, pa.binary()).slice(start)
    assert [values[start + place] for place in sort_order(ids).tolist()] == sorted(values[start:])


def test_values_that_cannot_be_ids_are_refused():
    with pytest.raises(InputError, match="cannot be ids"):
        stable_hash(pa.array([[1], [2]]))


@pytest.mark.parametrize(
    "value", ["\x1b[31mred", "a\nb", "\u202egnp", "x" * 10_000, b"\xff\x00", decimal.Decimal("1.50")]
)
def test_hostile_ids_are_shown_escaped_and_short(value):
    shown = show_id(value)
    assert len(shown) <= 80
    assert shown.isprintable()
