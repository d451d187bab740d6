"""Ids as plain arrays, and their stable hashes.

A shard carries the ids of its own units and nodes, so that any worker can write results without a global dictionary.
Ids may be of any Arrow type that has a plain value: text, bytes, numbers, truth values, dates, times, decimals. They
come back as they went in.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distrank.errors import InputError
from distrank.kernels.hashing import hash_bytes, hash_words
from distrank.kernels.interning import leading_words
from distrank.records import Array, Record

# Ids of different kinds hash differently even where their bytes agree; within a kind the width does not matter.
_TEXT, _WHOLE, _REAL, _FIXED = (np.uint64(salt) for salt in (1, 2, 3, 4))
_WIDE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def is_id_type(kind: pa.DataType) -> bool:
    """Whether values of this Arrow type can be ids."""
    return _is_variable(kind) or _is_fixed(kind)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type in which ids are held: dictionaries and views are only another way to store the same values."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if kind == pa.string_view():
        return pa.string()
    if kind == pa.binary_view():
        return pa.binary()
    return kind


def plain_ids(place: str, column: pa.Array) -> pa.Array:
    """A column of ids in its plain type, still as a dictionary if it is one; a type that cannot be ids is refused."""
    kind = plain_type(column.type)
    if pa.types.is_null(kind):
        return pa.nulls(len(column))
    if not is_id_type(kind):
        raise InputError(
            f"{place} holds {kind}, which cannot be ids; use text, numbers, dates, times, decimals or bytes"
        )
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(kind))
    return column.cast(kind)


def same_ids(first: pa.DataType, second: pa.DataType) -> bool:
    """Whether ids of the two types can be compared: the same plain type, or text of either offset width."""
    first, second = plain_type(first), plain_type(second)
    narrow = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    return narrow.get(first, first) == narrow.get(second, second)


def whole_numbers(ids: pa.Array) -> pa.Array | None:
    """The same ids as int64, or None where one of them would not come back as it was (007 is not 7)."""
    if not (pa.types.is_integer(ids.type) or plain_type(ids.type) in (pa.string(), pa.large_string())):
        return None
    try:
        numbers = ids.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return numbers if numbers.cast(ids.type).equals(ids) else None


def pack_ids(prefix: str, ids: pa.Array) -> Record:
    """The ids as numpy arrays: `{prefix}.data`, and `{prefix}.offsets` for ids of varying length."""
    _check(ids)
    if _is_variable(ids.type):
        data, offsets = _bytes_and_offsets(ids)
        first = int(offsets[0])
        return {
            f"{prefix}.data": data[first : int(offsets[-1])].copy(),
            f"{prefix}.offsets": offsets.astype(np.int64) - first,
        }
    return {f"{prefix}.data": _values(ids).copy()}


def unpack_ids(record: Record, prefix: str, type: pa.DataType) -> pa.Array:  # noqa: A002 (Arrow's own word)
    """The ids of the given type that `pack_ids` packed."""
    data = np.ascontiguousarray(record[f"{prefix}.data"])
    if _is_variable(type):
        wide = pa.types.is_large_string(type) or pa.types.is_large_binary(type)
        offsets = record[f"{prefix}.offsets"].astype(np.int64 if wide else np.int32)
        return pa.Array.from_buffers(type, len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    if pa.types.is_boolean(type):
        return pa.array(data.astype(bool), pa.bool_())
    return pa.Array.from_buffers(type, len(data), [None, pa.py_buffer(data)])


def stable_hash(ids: pa.Array) -> Array:
    """A 64-bit hash of every id: the same on every machine, for every slicing, for text of either offset width."""
    _check(ids)
    if _is_variable(ids.type):
        return hash_bytes(*_bytes_and_offsets(ids), _TEXT)
    values = _values(ids)
    if values.ndim == 2:
        count, width = values.shape
        return hash_bytes(values.reshape(-1), np.arange(count + 1, dtype=np.int64) * width, _FIXED)
    if values.dtype.kind == "f":
        return hash_words((values.astype(np.float64) + 0.0).view(np.uint64), _REAL)  # -0 is 0
    if values.dtype.kind == "u":
        return hash_words(values.astype(np.uint64), _WHOLE)
    return hash_words(values.astype(np.int64).view(np.uint64), _WHOLE)


def id_bytes(ids: pa.Array) -> tuple[Array, Array]:
    """The bytes of ids of any type, and where each begins and ends; equal ids have equal bytes."""
    if _is_variable(ids.type):
        return _bytes_and_offsets(ids)
    values = _values(ids)
    if values.dtype.kind == "f":
        values = values + values.dtype.type(0)  # -0 is 0
    width = values.itemsize if values.ndim == 1 else values.shape[1]
    return np.ascontiguousarray(values).view(np.uint8).reshape(-1), np.arange(len(ids) + 1, dtype=np.int64) * width


def ids_from_bytes(data: Array, offsets: Array, type: pa.DataType) -> pa.Array:  # noqa: A002 (Arrow's own word)
    """The ids whose bytes `id_bytes` gave; text beyond 2 GB gets the wider offsets."""
    if _is_variable(type):
        if offsets[-1] > np.iinfo(np.int32).max:
            type = _WIDE.get(type, type)  # noqa: A001
        return unpack_ids({"id.data": data[: offsets[-1]], "id.offsets": offsets}, "id", type)
    values = data[: offsets[-1]]
    dtype = np.uint8 if pa.types.is_boolean(type) else _dtype(type)
    return unpack_ids({"id.data": values.view(dtype) if dtype else values.reshape(len(offsets) - 1, -1)}, "id", type)


def sort_order(ids: pa.Array) -> Array:
    """The places of distinct ids in sorted order: bytewise for text, numeric for numbers."""
    if _is_variable(ids.type):
        return _text_order(ids)
    if _dtype(ids.type) is None:
        return pc.sort_indices(ids).to_numpy()
    return np.argsort(_values(ids))


def show_id(value: object) -> str:
    """An id for people to read: hostile text is escaped and cut."""
    text = repr(value.decode("utf-8", "backslashreplace")) if isinstance(value, bytes) else repr(value)
    if not isinstance(value, bytes | str):
        text = repr(str(value)).strip("'")
    return text if len(text) <= 80 else text[:77] + "..."


def _text_order(ids: pa.Array) -> Array:
    """Bytewise order: by the first eight bytes after what all ids begin with, which decides nearly all of it.

    Sorting words is several times faster than comparing texts. Ids whose words are equal are compared as texts, all
    together: their order agrees with the order of their words, so they fall into the places that they came from.
    """
    words = leading_words(*_bytes_and_offsets(ids))
    order = np.argsort(words)
    words = words[order]
    same = words[1:] == words[:-1]
    undecided = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if len(undecided):
        texts = order[undecided]
        order[undecided] = texts[pc.sort_indices(ids.take(pa.array(texts))).to_numpy()]
    return order


def _check(ids: pa.Array) -> None:
    if not is_id_type(ids.type):
        raise InputError(f"values of type {ids.type} cannot be ids; use text, numbers, dates, times, decimals or bytes")
    if ids.null_count:
        raise ValueError("ids must not be null")


def _is_variable(kind: pa.DataType) -> bool:
    return (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _is_fixed(kind: pa.DataType) -> bool:
    return (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind))
        or pa.types.is_decimal(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _bytes_and_offsets(ids: pa.Array) -> tuple[Array, Array]:
    """The bytes behind an array of text, and the offsets of its slice into them."""
    wide = pa.types.is_large_string(ids.type) or pa.types.is_large_binary(ids.type)
    _, offset_buffer, data_buffer = ids.buffers()
    if offset_buffer is None or len(ids) == 0:
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    offsets = np.frombuffer(offset_buffer, np.int64 if wide else np.int32)[ids.offset : ids.offset + len(ids) + 1]
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return data, offsets


def _values(ids: pa.Array) -> Array:
    """The values of a fixed-width array: numbers, or rows of bytes where no number is wide enough."""
    if pa.types.is_boolean(ids.type):
        return ids.fill_null(False).cast(pa.uint8()).to_numpy(zero_copy_only=False)
    width = ids.type.bit_width // 8
    dtype = _dtype(ids.type)
    count = ids.offset + len(ids)
    buffer = ids.buffers()[1]
    if buffer is None or len(ids) == 0:
        return np.empty(0 if dtype else (0, width), dtype or np.uint8)
    values = np.frombuffer(buffer, dtype or np.uint8, count if dtype else count * width)
    return (values if dtype else values.reshape(count, width))[ids.offset :]


def _dtype(kind: pa.DataType) -> str | None:
    """The numpy type of the values, None for bytes."""
    if pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        return None
    if pa.types.is_floating(kind):
        return f"<f{kind.bit_width // 8}"
    if pa.types.is_unsigned_integer(kind):
        return f"<u{kind.bit_width // 8}"
    return f"<i{kind.bit_width // 8}"
