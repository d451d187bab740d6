"""Codes for ids that arrive batch by batch, in memory that grows with the distinct ids and not with the rows."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distrank.kernels.hashing import hash_bytes
from distrank.kernels.interning import fill_slots, intern, look_up, mark_seen
from distrank.records import Array
from distrank.tables.ids import id_bytes, ids_from_bytes, sort_order

_FIRST_SLOTS = 1 << 12
_FIRST_BYTES = 1 << 16


class Interner:
    """Ids of one type; codes count up as ids are first seen."""

    def __init__(self) -> None:
        self.count = 0
        self.salt = np.uint64(int.from_bytes(os.urandom(8), "little"))  # so that no file can be made of collisions
        self.slots = np.zeros(_FIRST_SLOTS, np.uint64)
        self.store = np.empty(_FIRST_BYTES, np.uint8)
        self.offsets = np.zeros(_FIRST_SLOTS // 2 + 1, np.int64)

    def codes(self, ids: pa.Array) -> Array:
        """The code of every id; nulls get the code of some id and must be told apart by the caller."""
        if pa.types.is_dictionary(ids.type):
            known = self.codes(ids.dictionary)
            if len(known) == 0:
                return np.zeros(len(ids), np.uint32)
            return known[pc.fill_null(ids.indices, 0).to_numpy(zero_copy_only=False)]
        if pa.types.is_integer(ids.type) and ids.type != pa.uint64() and ids.null_count == 0 and len(ids):
            numbers = ids.to_numpy()
            low, high = int(numbers.min()), int(numbers.max())
            if high - low < len(ids):
                return self._close_codes(numbers, low, high - low + 1, ids.type)
        return self._hashed_codes(ids)

    def _close_codes(self, numbers: Array, low: int, width: int, kind: pa.DataType) -> Array:
        """Codes of whole numbers that lie close together: a table over their range, and only distinct ones hashed."""
        seen = np.zeros(width, bool)
        mark_seen(numbers, low, seen)
        distinct = np.flatnonzero(seen)
        table, codes = np.empty(width, np.uint32), np.empty(len(numbers), np.uint32)
        table[distinct] = self._hashed_codes(pa.array(distinct + low).cast(kind))
        look_up(numbers, low, table, codes)
        return codes

    def _hashed_codes(self, ids: pa.Array) -> Array:
        data, offsets = id_bytes(ids)
        hashes = hash_bytes(data, offsets, self.salt)
        codes = np.empty(len(ids), np.uint32)
        position = 0
        while True:
            position, self.count, _ = intern(
                data, offsets, hashes, position, self.count, self.slots, self.store, self.offsets, codes
            )
            if position == len(ids):
                return codes
            self._enlarge(int(offsets[position + 1] - offsets[position]))

    def sorted_ids(self, kind: pa.DataType, used: Array) -> tuple[pa.Array, Array]:
        """The ids that are used, in sorted order, and the place of every code in it; ends the filling."""
        self.slots = np.zeros(0, np.uint64)
        codes = np.flatnonzero(used)
        ids = ids_from_bytes(self.store, self.offsets[: self.count + 1], kind)
        if len(codes) < self.count:
            ids = ids.take(pa.array(codes))
        order = sort_order(ids)
        place = np.zeros(self.count, np.uint32)
        place[codes[order]] = np.arange(len(codes), dtype=np.uint32)
        return ids.take(pa.array(order)), place

    def _enlarge(self, length: int) -> None:
        """Double what is full."""
        used = int(self.offsets[self.count])
        if used + length > len(self.store):
            self.store = _grown(self.store, used, max(2 * len(self.store), used + length))
        if self.count >= len(self.offsets) - 1:
            self.offsets = _grown(self.offsets, self.count + 1, 2 * self.count + 1)
            self.slots = np.zeros(2 * len(self.slots), np.uint64)
            fill_slots(hash_bytes(self.store, self.offsets[: self.count + 1], self.salt), self.slots)


def _grown(array: Array, used: int, size: int) -> Array:
    larger = np.empty(size, array.dtype)
    larger[:used] = array[:used]
    return larger
