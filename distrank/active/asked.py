"""The triples that were asked already, as a set of 64-bit hashes: no (annotator, pair) is asked twice.

Two triples with the same hash would only keep one question from being asked; among ten million of them the odds of one
such case are a few in a million.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel
from distrank.kernels.hashing import mix
from distrank.records import Array

Words = NDArray[np.uint64]
_HALF = np.uint64(32)
_ONE = np.uint64(1)


def asked_set(triples: tuple[Array, Array, Array], room: int) -> Array:
    """The set of these triples (columns of items, items and annotators), with room for so many more."""
    first, second, annotator = (column.astype(np.int64) for column in triples)
    words = np.zeros(1 << (2 * (len(first) + room) + 1).bit_length(), np.uint64)
    _add_all(words, first, second, annotator)
    return words


@kernel
def triple_word(i: int, j: int, k: int) -> np.uint64:
    """The hash of a triple, never 0; the order of the two items does not matter."""
    pair = (np.uint64(min(i, j)) << _HALF) | np.uint64(max(i, j))
    return mix(mix(pair) ^ np.uint64(k)) | _ONE


@kernel
def is_asked(words: Words, word: np.uint64) -> bool:
    last = np.uint64(len(words) - 1)
    place = (word >> _ONE) & last
    while words[place] != np.uint64(0):
        if words[place] == word:
            return True
        place = (place + _ONE) & last
    return False


@kernel
def add_asked(words: Words, word: np.uint64) -> None:
    last = np.uint64(len(words) - 1)
    place = (word >> _ONE) & last
    while words[place] != np.uint64(0) and words[place] != word:
        place = (place + _ONE) & last
    words[place] = word


@kernel
def _add_all(words: Words, first: Array, second: Array, annotator: Array) -> None:
    for r in range(len(first)):
        add_asked(words, triple_word(first[r], second[r], annotator[r]))
