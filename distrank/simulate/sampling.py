"""Random draws that are the same for the same seed, and samples of distinct things that never list all of them.

Every purpose has its own numpy PCG64 generator, `SeedSequence(seed, spawn_key=(number of the purpose,))`: asking for
more annotators does not change the true scores, and another law does not change who judged what.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from distrank.kernels import kernel
from distrank.records import Array

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: spreads consecutive numbers over the table


class Purpose(IntEnum):
    """What a stream of random numbers is for. The numbers are part of the result: never change one, only add."""

    QUALITY = 0
    SCORES = 1
    PAIRS = 2
    ANNOTATORS = 3
    OUTCOMES = 4
    ORDER = 5
    QUERIES = 6
    ITEMS = 20
    EXPERTISE = 21
    LABELS = 22
    KNOWN = 23


def stream(seed: int, purpose: Purpose) -> np.random.Generator:
    """The generator of one purpose."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(int(purpose),))))


def distinct_samples(generator: np.random.Generator, rows: int, size: int, population: int) -> Array:
    """`rows` independent uniform samples of `size` distinct numbers below `population`, as an array (rows, size).

    Time and memory follow the samples, not the population: Floyd's algorithm.  [Bentley87]

    [Bentley87] Bentley, Floyd: Programming pearls: a sample of brilliance. CACM 30, 1987.
    """
    if size == population:
        return np.tile(np.arange(population, dtype=np.int64), (rows, 1))
    highest = np.arange(population - size, population, dtype=np.int64)
    return _floyd(generator.integers(0, highest, size=(rows, size), endpoint=True), population)


@kernel
def _floyd(draws: Array, population: int) -> Array:
    """Draw i is uniform in 0..population-size+i; where it was drawn before, that upper end is taken instead."""
    rows, size = draws.shape
    bits = 1
    while (1 << bits) < 2 * size:
        bits += 1
    capacity, shift = 1 << bits, np.uint64(64 - bits)
    slots = np.zeros(capacity, np.int64)
    owner = np.full(capacity, -1, np.int64)  # the row that filled the slot: older rows need not be cleared
    for row in range(rows):
        for i in range(size):
            value = draws[row, i]
            place = np.int64((np.uint64(value) * _GOLDEN) >> shift)
            while owner[place] == row and slots[place] != value:
                place = (place + 1) % capacity
            if owner[place] == row:
                value = population - size + i
                place = np.int64((np.uint64(value) * _GOLDEN) >> shift)
                while owner[place] == row:
                    place = (place + 1) % capacity
            owner[place], slots[place] = row, value
            draws[row, i] = value
    return draws


@kernel
def pair_of(number: Array) -> tuple[Array, Array]:
    """The two items i < j of pair j(j-1)/2 + i: a numbering of all pairs without listing them."""
    low, high = np.empty(len(number), np.int64), np.empty(len(number), np.int64)
    for row in range(len(number)):
        j = np.int64((1.0 + np.sqrt(1.0 + 8.0 * number[row])) / 2.0)
        # The root is rounded: step to the j with j(j-1)/2 <= number < j(j+1)/2.
        while j * (j - 1) // 2 > number[row]:
            j -= 1
        while j * (j + 1) // 2 <= number[row]:
            j += 1
        low[row], high[row] = number[row] - j * (j - 1) // 2, j
    return low, high
