"""One thread per numerical pool: BLAS and OpenMP split sums by the number of their threads, which changes the bytes.

Threads of theirs that spin also slow our own two to three times.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController, threadpool_limits


@cache
def _controller() -> ThreadpoolController:
    """The libraries of this process; looking them up takes milliseconds, so it is done once."""
    return ThreadpoolController()


def one_numerical_thread() -> Any:
    """A context in which the numerical pools of this process have one thread each."""
    return _controller().limit(limits=1)


@cache
def one_numerical_thread_for_good() -> Any:
    """The same for a process that does nothing else, such as a Ray worker."""
    return threadpool_limits(limits=1)
