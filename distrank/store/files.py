"""Small things that durability needs: fsync, sha256, and names that stay inside their folder."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from distrank.errors import StoreError

_CHUNK = 1 << 20


def sha256_of(path: Path) -> str:
    """The sha256 of a file, read in pieces."""
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            sha.update(piece)
    return sha.hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Write JSON that reads the same everywhere, and flush it to the disk. NaN and infinity are refused."""
    write_bytes(path, (json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n").encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write and flush to the disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def read_json(path: Path) -> Any:
    """Read JSON; a file that is missing or broken is a StoreError that names it."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise StoreError(f"{path} does not exist") from None
    except ValueError as error:
        raise StoreError(f"{path} is not JSON ({error}); the run it belongs to is damaged") from error


def fsync_file(path: Path) -> None:
    """Flush a file that someone else wrote."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


fsync_folder = fsync_file  # a folder's entries are flushed the same way


def inside(root: Path, name: str) -> Path:
    """The path of `name` under root; anything that would leave the folder is refused."""
    if not name or "\0" in name or Path(name).is_absolute() or ".." in Path(name).parts:
        raise StoreError(f"{name!r} is not a name inside {root}")
    path = root / name
    if not path.resolve().is_relative_to(root.resolve()):
        raise StoreError(f"{name!r} leads out of {root}")
    return path
