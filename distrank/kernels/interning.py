"""Ids (strings of bytes) in bulk: a hash table from ids to codes, filled batch by batch, and words to sort them by.

A slot holds the upper half of the id's hash and its code, so that nearly every probe is decided by one word of memory;
the bytes are compared all the same, because ids may be made to collide.
"""

from __future__ import annotations

import numpy as np

from distrank.kernels import kernel
from distrank.records import Array

_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_EMPTY = np.uint64(0)
_ONE = np.uint64(1)
_WORD = 8


_AHEAD = 64  # ids whose places in the table are visited before they are looked up one by one


@kernel
def _visit(hashes: Array, begin: int, end: int, slots: Array, store: Array, store_offsets: Array) -> np.uint64:
    """Bring the memory that the coming lookups need into the cache, many misses at a time.

    Lookups wait for memory most of their time, one after the other; these loads do not depend on each other. The
    result only keeps the compiler from leaving them out.
    """
    mask = np.uint64(len(slots) - 1)
    seen = np.uint64(0)
    codes = np.empty(_AHEAD, np.int64)
    for i in range(begin, end):
        codes[i - begin] = np.int64(slots[hashes[i] & mask] & _LOW_HALF)
    for i in range(end - begin):
        codes[i] = store_offsets[max(codes[i] - 1, 0)]
    for i in range(end - begin):
        seen ^= np.uint64(store[codes[i]])
    return seen


@kernel
def intern(
    data: Array,
    offsets: Array,
    hashes: Array,
    position: int,
    count: int,
    slots: Array,
    store: Array,
    store_offsets: Array,
    codes: Array,
) -> tuple[int, int, np.uint64]:
    """Look up or add the ids from `position` on and write their codes.

    Returns the next position, the number of ids in the table, and a word without meaning (see `_visit`). Stops early
    when the table or the store is full: the caller enlarges them and goes on.
    """
    mask = np.uint64(len(slots) - 1)
    most = min(len(slots) // 2, len(store_offsets) - 1)
    visited, seen = position, np.uint64(0)
    while position < len(hashes):
        if position == visited:
            visited = min(position + _AHEAD, len(hashes))
            seen ^= _visit(hashes, position, visited, slots, store, store_offsets)
        begin = offsets[position]
        length = offsets[position + 1] - begin
        tag = hashes[position] & ~_LOW_HALF
        place = hashes[position] & mask
        while True:
            slot = slots[place]
            if slot == _EMPTY:
                start = store_offsets[count]
                if count >= most or start + length > len(store):
                    return position, count, seen
                for i in range(length):
                    store[start + i] = data[begin + i]
                count += 1
                store_offsets[count] = start + length
                slots[place] = tag | np.uint64(count)
                codes[position] = count - 1
                break
            if (slot & ~_LOW_HALF) == tag:
                code = np.int64(slot & _LOW_HALF) - 1
                start = store_offsets[code]
                if store_offsets[code + 1] - start == length:
                    same = True
                    for i in range(length):
                        if store[start + i] != data[begin + i]:
                            same = False
                            break
                    if same:
                        codes[position] = code
                        break
            place = (place + _ONE) & mask
        position += 1
    return position, count, seen


@kernel
def fill_slots(hashes: Array, slots: Array) -> None:
    """Enter ids that are known to be distinct into an empty table."""
    mask = np.uint64(len(slots) - 1)
    for code in range(len(hashes)):
        place = hashes[code] & mask
        while slots[place] != _EMPTY:
            place = (place + _ONE) & mask
        slots[place] = (hashes[code] & ~_LOW_HALF) | np.uint64(code + 1)


@kernel
def leading_words(data: Array, offsets: Array) -> Array:
    """The first eight bytes of every text after the beginning that all share, as numbers that sort alike."""
    shared = offsets[1] - offsets[0] if len(offsets) > 1 else 0
    for i in range(1, len(offsets) - 1):
        shared = min(shared, offsets[i + 1] - offsets[i])
        for j in range(shared):
            if data[offsets[i] + j] != data[offsets[0] + j]:
                shared = j
                break
    words = np.zeros(len(offsets) - 1, np.uint64)
    for i in range(len(words)):
        begin = offsets[i] + shared
        length = min(offsets[i + 1] - begin, _WORD)
        for j in range(length):
            words[i] |= np.uint64(data[begin + j]) << np.uint64(8 * (_WORD - 1 - j))
    return words


@kernel
def mark_seen(numbers: Array, low: int, seen: Array) -> None:
    """Which whole numbers occur, counted from the lowest."""
    for number in numbers:
        seen[np.int64(number) - low] = True


@kernel
def look_up(numbers: Array, low: int, table: Array, result: Array) -> None:
    """The entry of every whole number in a table that begins at the lowest."""
    for i in range(len(numbers)):
        result[i] = table[np.int64(numbers[i]) - low]
