"""Samples of distinct things: distinct, uniform, and never larger than what was asked for."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distrank.simulate.sampling import Purpose, distinct_samples, pair_of, stream


@settings(deadline=None)
@given(st.integers(0, 2**64), st.integers(1, 20), st.integers(1, 40), st.integers(0, 10**12))
def test_samples_are_distinct_and_in_range(seed, rows, size, more):
    samples = distinct_samples(stream(seed, Purpose.PAIRS), rows, size, size + more)
    assert samples.shape == (rows, size)
    assert samples.min() >= 0
    assert samples.max() < size + more
    assert all(len(set(row)) == size for row in samples.tolist())


@pytest.mark.parametrize(("size", "population"), [(2, 6), (3, 6), (5, 6), (1, 4)])
def test_every_subset_is_equally_likely(size, population):
    rows = 60_000
    samples = distinct_samples(stream(3, Purpose.PAIRS), rows, size, population)
    subsets = list(combinations(range(population), size))
    counts = dict.fromkeys(subsets, 0)
    for row in samples.tolist():
        counts[tuple(sorted(row))] += 1
    share = 1 / len(subsets)
    deviation = math.sqrt(rows * share * (1 - share))
    assert all(abs(count - rows * share) < 4.5 * deviation for count in counts.values())


def test_all_of_the_population():
    assert distinct_samples(stream(0, Purpose.PAIRS), 2, 4, 4).tolist() == [[0, 1, 2, 3], [0, 1, 2, 3]]


def test_pairs_are_numbered_without_gaps():
    items = 60
    low, high = pair_of(np.arange(items * (items - 1) // 2))
    assert sorted(zip(low.tolist(), high.tolist(), strict=True)) == list(combinations(range(items), 2))


@given(st.integers(2, 2**30))
@settings(deadline=None)
def test_pairs_of_huge_sets_are_exact_at_the_rounding_of_the_root(j):
    start = j * (j - 1) // 2
    low, high = pair_of(np.array([start - 1, start, start + j - 1]))
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == [(j - 2, j - 1), (0, j), (j - 1, j)]


def test_purposes_have_streams_of_their_own():
    firsts = {stream(5, purpose).integers(2**63) for purpose in Purpose}
    assert len(firsts) == len(Purpose)
    assert stream(5, Purpose.SCORES).integers(2**63) == stream(5, Purpose.SCORES).integers(2**63)
