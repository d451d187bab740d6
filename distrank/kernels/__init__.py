"""Compiled mathematics: arrays in, arrays out.

Kernels are serial and release the GIL; parallelism is over shards only, so that a sum has one order. No `fastmath`
flags that change results between a fresh and a cached compilation, no `parallel=True`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile on first use, keep the machine code on disk, release the GIL."""
    return numba.njit(nogil=True, cache=True, error_model="numpy")(function)
