"""Waiting for tasks: results in order, or an error that says what no node does. Never a hang."""

from __future__ import annotations

import time
from typing import Any

import ray

from distrank.errors import DistrankError, EngineError

POLL_SECONDS = 5.0
# A host that vanishes without a word is declared dead within seconds, but calls that were under way there are given up
# only when their connections are: by default Ray asks after 300 s whether anybody is left, and waits 120 s more.
LOSS_SECONDS = 480.0


def collected(refs: list[Any], what: str, stall_seconds: float) -> list[Any]:
    """The results in order. A wait that no node can end is an error with a name."""
    last_progress, done_before = time.monotonic(), 0
    nodes, patience = _alive(), stall_seconds
    while True:
        try:
            return ray.get(refs, timeout=min(POLL_SECONDS, stall_seconds))
        except ray.exceptions.GetTimeoutError:
            done = len(ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)[0])
            if done != done_before or not _idle():
                last_progress, done_before = time.monotonic(), done
            if nodes - _alive():
                patience = max(stall_seconds, LOSS_SECONDS)
            if time.monotonic() - last_progress > patience:
                raise EngineError(
                    f"stalled: {what} has {len(refs) - done} of {len(refs)} calls pending for {patience:.0f} s "
                    f"and no node of the cluster is taking them (resources: {_resources()}). Each call needs 1 CPU on "
                    "one node."
                ) from None
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, DistrankError):
                raise error.cause from None
            raise
        except ray.exceptions.RayError as error:
            lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
            raise EngineError(f"{what}: lost more often than it was tried again: {lines[0]}") from error


def _alive() -> set[str]:
    return {node["NodeID"] for node in ray.nodes() if node["Alive"]}


def _idle() -> bool:
    """Whether nothing runs although work is pending: no CPU in the cluster, or all of them free."""
    total, free = ray.cluster_resources().get("CPU", 0.0), ray.available_resources().get("CPU", 0.0)
    return total < 1.0 or free >= total


def _resources() -> str:
    return ", ".join(f"{name} {value:g}" for name, value in sorted(ray.cluster_resources().items()) if ":" not in name)
