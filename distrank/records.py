"""Records: flat dicts of numpy arrays, the only thing that crosses the engine's edge.

Shards, local state, parameters and statistics are all records. Scalars are 0-d arrays; there are no objects, so a
record can be shared between threads, sent to another node, hashed, or written to a file that cannot run code.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Record: TypeAlias = dict[str, Array]


def frozen(record: Mapping[str, Any]) -> Record:
    """The record with every array read-only; a step that wants to change one has to copy it."""
    result: Record = {}
    for name, value in record.items():
        array = np.asarray(value)
        if array.dtype.hasobject:
            raise TypeError(f"record entry {name!r} holds Python objects; only plain arrays cross the engine's edge")
        if array.flags.writeable:
            array = array.view()
            array.flags.writeable = False
        result[name] = array
    return result


def scalar(value: float | int | bool) -> Array:
    """A 0-d array, the way a record holds a number."""
    return np.asarray(value)


def save_record(path: Path, record: Mapping[str, Array]) -> None:
    """Write the record to an uncompressed npz file and flush it to the disk."""
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **dict(record))
        file.flush()
        os.fsync(file.fileno())


def load_record(path: Path) -> Record:
    """Read a record; a file with anything but plain arrays is refused by numpy."""
    with np.load(path, allow_pickle=False) as file:
        return frozen({name: file[name] for name in file.files})


def digest(records: Iterable[Mapping[str, Array]]) -> str:
    """A sha256 over names, types, shapes and bytes: equal exactly when the records are the same bytes."""
    sha = hashlib.sha256()
    for record in records:
        for name in sorted(record):
            array = np.ascontiguousarray(record[name])
            sha.update(f"{name}|{array.dtype.str}|{record[name].shape}|".encode())
            sha.update(array.tobytes())
    return sha.hexdigest()
