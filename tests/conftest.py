"""Fixtures that all suites share. Ray starts once per session, and only if a test asks for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from distrank.engine.base import Engine
from distrank.engine.local import LocalEngine

settings.register_profile("distrank", deadline=None)  # the first call of a kernel compiles it
settings.load_profile("distrank")


@pytest.fixture(scope="session")
def ray_engine() -> Iterator[Engine]:
    """A Ray of our own with two workers and the smallest object store."""
    from distrank.engine.ray.engine import RayEngine

    # models that tests define are found by the workers, too
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent / "faults"), *sys.path])
    with RayEngine("local", workers=2, object_store_bytes=1) as engine:
        yield engine


@pytest.fixture(scope="session")
def local_engine() -> Iterator[Engine]:
    with LocalEngine(2) as engine:
        yield engine


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data that DISTRANK_DATA names; tests that need it are skipped where it is not set."""
    folder = os.environ.get("DISTRANK_DATA")
    if not folder:
        pytest.skip("DISTRANK_DATA is not set: the real data is not part of the project")
    return Path(folder)
