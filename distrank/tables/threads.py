"""Work on pieces of a table in threads: kernels, numpy's sorts and pyarrow release the GIL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def workers() -> int:
    """How many threads work at a time."""
    return os.cpu_count() or 1


def each(function: Callable[[A], B], pieces: Iterable[A]) -> list[B]:
    """The function of every piece, in the order of the pieces; how many threads work never shows in the result."""
    todo = list(pieces)
    if len(todo) <= 1:
        return [function(piece) for piece in todo]
    with ThreadPoolExecutor(min(len(todo), workers()), thread_name_prefix="tables") as pool:
        return list(pool.map(function, todo))
