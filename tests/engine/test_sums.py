"""Sums follow one fixed tree, whatever the packing and the order of arrival."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distrank.engine.base import contiguous_ranges
from distrank.engine.sums import TreeSum
from distrank.records import Record, digest
from distrank.stats import dense, merged


def leaf(number: int) -> Record:
    """Values of very different size: another order of addition gives other bytes."""
    rng = np.random.default_rng(number)
    codes = np.unique(rng.integers(0, 40, 7))
    return {
        "total": np.asarray(rng.normal() * 10.0 ** rng.integers(-8, 9)),
        "annotator/index": codes,
        "annotator/gradient": rng.normal(size=len(codes)) * 10.0 ** rng.integers(-8, 9, len(codes)),
    }


def literal_tree(shards: int) -> Record:
    """The fixed tree written down: pad to a power of two, add neighbours, level by level."""
    level: list[Record | None] = [leaf(number) for number in range(shards)]
    while len(level) > 1:
        level += [None] * (len(level) % 2)
        level = [merged(level[place], level[place + 1]) for place in range(0, len(level), 2)]
    return level[0] or {}


@given(shards=st.integers(1, 40), pieces=st.integers(1, 12), order=st.randoms(use_true_random=False))
def test_the_sum_does_not_depend_on_packing_or_arrival(shards: int, pieces: int, order: object) -> None:
    ranges = contiguous_ranges([1] * shards, pieces)
    assert [number for numbers in ranges for number in numbers] == list(range(shards))
    order.shuffle(ranges)  # type: ignore[attr-defined]
    total = TreeSum(shards)
    for numbers in ranges:
        part = TreeSum(shards)
        for number in numbers:
            part.add((0, number), leaf(number))
        for node, stats in part.nodes():
            total.add(node, stats)
    assert digest([total.total()]) == digest([literal_tree(shards)])


def test_the_tree_is_not_a_running_sum() -> None:
    """The law above would be empty if float addition were associative here."""
    running: Record | None = None
    for number in range(16):
        running = merged(running, leaf(number))
    assert digest([running or {}]) != digest([literal_tree(16)])


def test_sparse_groups_are_added_by_code() -> None:
    total = merged(leaf(1), leaf(2))
    assert total is not None
    expected = dense(leaf(1), "annotator/gradient", 40) + dense(leaf(2), "annotator/gradient", 40)
    np.testing.assert_array_equal(dense(total, "annotator/gradient", 40), expected)


def test_an_incomplete_sum_is_an_error() -> None:
    tree = TreeSum(3)
    tree.add((0, 0), leaf(0))
    with pytest.raises(RuntimeError, match="not complete"):
        tree.total()


def test_steps_that_return_different_statistics_are_an_error() -> None:
    with pytest.raises(ValueError, match="different statistics"):
        merged({"a": np.zeros(1)}, {"b": np.zeros(1)})


@given(rows=st.lists(st.integers(0, 1000), max_size=60), pieces=st.integers(1, 9))
def test_ranges_are_contiguous_and_cover_every_shard_once(rows: list[int], pieces: int) -> None:
    ranges = contiguous_ranges(rows, pieces)
    assert [number for numbers in ranges for number in numbers] == list(range(len(rows)))
    assert len(ranges) <= pieces
    assert all(len(numbers) > 0 for numbers in ranges)
