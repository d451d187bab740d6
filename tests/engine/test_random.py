"""Counter-based random numbers against the published vectors of Threefry-2x64-20 (Random123's known answers)."""

from __future__ import annotations

import numpy as np
import pytest

from distrank.kernels.random import round_key, threefry, uniform

ONES = 0xFFFFFFFFFFFFFFFF
# counter 0, counter 1, key 0, key 1, first word, second word
KNOWN = [
    (0, 0, 0, 0, 0xC2B6E3A8C2C69865, 0x6F81ED42F350084D),
    (ONES, ONES, ONES, ONES, 0xE02CB7C4D95D277A, 0xD06633D0893B8B68),
    (
        0x243F6A8885A308D3,
        0x13198A2E03707344,
        0xA4093822299F31D0,
        0x082EFA98EC4E6C89,
        0x263C7D30BB0F0AF1,
        0x56BE8361D3311526,
    ),
]


@pytest.mark.parametrize(("c0", "c1", "k0", "k1", "first", "second"), KNOWN)
def test_known_answers(c0: int, c1: int, k0: int, k1: int, first: int, second: int) -> None:
    words = threefry(*(np.uint64(value) for value in (k0, k1, c0, c1)))
    assert tuple(int(word) for word in words) == (first, second)


def test_keys_differ_in_every_part() -> None:
    keys = {
        tuple(round_key(seed, start, iteration, number, step).tolist())
        for seed in (0, 1)
        for start in (0, 1)
        for iteration in (1, 2, 11)
        for number in (1, 2, 12)
        for step in ("sweep", "evaluate")
    }
    assert len(keys) == 2 * 2 * 3 * 3 * 2


def test_uniform_numbers_are_uniform() -> None:
    """Kolmogorov-Smirnov on 20,000 draws of one key; the bound is the 1e-6 quantile."""
    key = round_key(7, 0, 1, 1, "test")
    draws = np.sort([uniform(key[0], key[1], np.uint64(5), np.uint64(n)) for n in range(20_000)])
    gap = np.abs(draws - (np.arange(20_000) + 0.5) / 20_000).max()
    assert draws[0] >= 0.0
    assert draws[-1] < 1.0
    assert gap < 2.7 / np.sqrt(20_000)
