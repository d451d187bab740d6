"""Shards where an engine can take them."""

from __future__ import annotations

from pathlib import Path

from distrank.engine.base import Engine, FileSource, Source
from distrank.errors import UsageError


def placeable(source: Source, engine: Engine, work: Path | None) -> Source:
    """The source itself, or its shards in files where the engine cannot see this process's memory."""
    if engine.shares_memory:
        return source
    if work is None:
        raise UsageError(f"the {engine.name} engine needs a folder for its shards")
    return FileSource.write(work, source)
