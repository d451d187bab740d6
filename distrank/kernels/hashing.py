"""Stable 64-bit hashes: the same on every machine, in every process, for every slicing of the input.

A unit's shard and its random numbers hang on the hash of its id, and the fingerprint of the data on the hashes of its
rows, so these functions never change: a test holds golden values.

The building block is the output function of SplitMix64 [Steele14], a bijection of 64-bit words in which every bit of
the output depends on every bit of the input; a longer input is folded into it word by word.

[Steele14] Steele, Lea, Flood: Fast splittable pseudorandom number generators. OOPSLA 2014.
"""

from __future__ import annotations

import numpy as np

from distrank.kernels import kernel
from distrank.records import Array

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_SHIFT30, _SHIFT27, _SHIFT31 = np.uint64(30), np.uint64(27), np.uint64(31)
_BYTE = np.uint64(8)
_WORD = 8
_OTHER_HALF = np.uint64(0xD1B54A32D192ED03)  # start of the upper 64 bits of a row's hash


@kernel
def mix(word: np.uint64) -> np.uint64:
    """A bijection of 64-bit words without structure."""
    word = word + _GOLDEN
    word = (word ^ (word >> _SHIFT30)) * _FIRST
    word = (word ^ (word >> _SHIFT27)) * _SECOND
    return word ^ (word >> _SHIFT31)


@kernel
def hash_bytes(data: Array, offsets: Array, salt: np.uint64) -> Array:
    """The hash of every slice data[offsets[i]:offsets[i + 1]] of bytes."""
    count = len(offsets) - 1
    result = np.empty(count, np.uint64)
    for i in range(count):
        begin, end = offsets[i], offsets[i + 1]
        state = mix(salt ^ np.uint64(end - begin))
        position = begin
        while position + _WORD <= end:
            word = np.uint64(0)
            for j in range(_WORD):
                word |= np.uint64(data[position + j]) << (np.uint64(j) * _BYTE)
            state = mix(state ^ word)
            position += _WORD
        word = np.uint64(0)
        for j in range(end - position):
            word |= np.uint64(data[position + j]) << (np.uint64(j) * _BYTE)
        result[i] = mix(state ^ word)
    return result


@kernel
def hash_words(words: Array, salt: np.uint64) -> Array:
    """The hash of every 64-bit word."""
    result = np.empty(len(words), np.uint64)
    start = mix(salt)
    for i in range(len(words)):
        result[i] = mix(start ^ words[i])
    return result


@kernel
def hash_pairs(first: Array, second: Array) -> Array:
    """The hash of every pair of hashes; the order of the two matters."""
    result = np.empty(len(first), np.uint64)
    for i in range(len(first)):
        result[i] = mix(mix(first[i]) ^ second[i])
    return result


@kernel
def fold_rows(low: Array, high: Array, hashes: Array, codes: Array) -> None:
    """Fold one column, given as codes into hashes, into the two halves of every row's 128-bit hash."""
    for i in range(len(codes)):
        word = hashes[codes[i]]
        low[i] = mix(low[i] ^ word)
        high[i] = mix(high[i] ^ mix(word ^ _OTHER_HALF))


@kernel
def fold_words(low: Array, high: Array, words: Array) -> None:
    """Fold one column of 64-bit words into the two halves of every row's 128-bit hash."""
    for i in range(len(words)):
        low[i] = mix(low[i] ^ words[i])
        high[i] = mix(high[i] ^ mix(words[i] ^ _OTHER_HALF))


@kernel
def sum_rows(low: Array, high: Array) -> Array:
    """The sum of 128-bit numbers modulo 2**128, as (low, high) words."""
    total_low, total_high = np.uint64(0), np.uint64(0)
    for i in range(len(low)):
        new = total_low + low[i]
        if new < total_low:
            total_high += np.uint64(1)
        total_low = new
        total_high += high[i]
    return np.array([total_low, total_high], dtype=np.uint64)
