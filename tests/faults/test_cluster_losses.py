"""Losing a node, a store that is too small, work that nobody can take: the same bytes, or an error with a name."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import distrank
from distrank.engine.base import Engine, FileSource
from distrank.engine.local import LocalEngine
from distrank.errors import EngineError
from distrank.fit import Fit, fit
from distrank.models import make_model
from distrank.records import digest
from distrank.runs import Request, aggregate
from distrank.tables.judgments import judgments_from_codes
from distrank.tables.shards import build_shards

pytestmark = [pytest.mark.faults, pytest.mark.ray]
ROOT = Path(distrank.__file__).parent.parent


def test_a_killed_node_and_a_new_one_change_nothing(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment["PYTHONPATH"] = str(ROOT)
    digests = []
    for what in ("calm", "lose"):
        command = [sys.executable, str(Path(__file__).parent / "lose_a_node.py"), str(tmp_path / what), what]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
        digests.append(next(line for line in done.stdout.splitlines() if line.startswith("digest")))
    assert digests[0] == digests[1]
    assert digests[0].endswith("True")


def test_a_run_that_no_node_can_take_ends_with_a_name(
    ray_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All the way from the front door: files that no worker can open, in a resource that no node has."""
    from distrank.engine.ray.tasks import call

    (tmp_path / "in.csv").write_text("query,annotator,winner,loser\nq,a,x,y\nq,b,x,y\n")
    monkeypatch.setattr(ray_engine, "stall_seconds", 3.0)
    monkeypatch.setattr("distrank.engine.ray.engine.call", call.options(resources={"nobody has this": 1}))
    begin = time.monotonic()
    with pytest.raises(EngineError, match=r"stalled: opening the files has 1 of 1 calls pending for 3 s and no node"):
        aggregate(Request(str(tmp_path / "in.csv"), tmp_path / "out"), ray_engine, lambda _: None)
    assert time.monotonic() - begin < 120.0
    assert not (tmp_path / "out" / "latest").exists()


@pytest.mark.slow
def test_an_object_store_that_is_too_small_spills(ray_engine: Engine, tmp_path: Path) -> None:
    """Shards of twice the size of the object store: Ray writes some of them to the disk, and the bytes are the same."""
    random, rows = np.random.default_rng(0), 6_000_000
    one = random.integers(0, 20, rows)
    judgments = judgments_from_codes(
        "preferences",
        queries=pa.array([f"{n:05d}" for n in range(3000)]),
        items=pa.array([f"{n:02d}" for n in range(20)]),
        annotators=pa.array([f"{n:03d}" for n in range(500)]),
        query=random.integers(0, 3000, rows),
        annotator=random.integers(0, 500, rows),
        winner=one,
        loser=(one + random.integers(1, 20, rows)) % 20,
    )
    sharded = build_shards(judgments, form="preferences")
    model = make_model("bradley-terry", {"max_iterations": 5})
    main: Any = partial(fit, model=model, info=sharded.info)
    with LocalEngine(2) as local:
        expected: Fit = local.execute(main, sharded.source, model, lambda _: None)
    files = FileSource.write(tmp_path, sharded.source)
    found: Fit = ray_engine.execute(main, files, model, lambda _: None)
    assert digest([found.theta]) == digest([expected.theta])
    from ray._private.internal_api import memory_summary

    assert "Spilled" in memory_summary(stats_only=True)
