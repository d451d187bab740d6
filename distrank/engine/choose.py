"""Which engine: a name, an address, or what the surroundings say."""

from __future__ import annotations

import os

from distrank.engine.base import Engine
from distrank.engine.local import LocalEngine
from distrank.errors import UsageError

ENGINES = ("auto", "local", "ray")


def open_engine(
    name: str = "auto", *, address: str | None = None, workers: int | None = None, stall_seconds: float = 60.0
) -> Engine:
    """`auto` is ray inside a Ray job or when an address is given, else local; `ray` without either starts its own."""
    if name not in ENGINES:
        raise UsageError(f"unknown engine {name!r}; known: {', '.join(ENGINES)}")
    if workers is not None and workers < 1:
        raise UsageError(f"workers={workers}: at least one is needed")
    inside = "RAY_ADDRESS" in os.environ or "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ
    if name == "local" or (name == "auto" and address is None and not inside):
        if address is not None:
            raise UsageError("--address belongs to the ray engine, not to the local one")
        return LocalEngine(workers)
    from distrank.engine.ray.engine import RayEngine  # noqa: PLC0415 (ray is heavy)

    return RayEngine(address or ("auto" if inside else "local"), workers, stall_seconds)
