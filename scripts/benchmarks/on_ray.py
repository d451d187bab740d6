"""The same fits on Ray and on threads."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import crowd, fit_once, sharded_of


def bench_ray(rows: int) -> dict[str, Any]:
    """The same fit on Ray and local: seconds per round, and whether the bytes are the same."""
    from distrank.engine.base import FileSource
    from distrank.engine.local import LocalEngine
    from distrank.engine.ray.engine import RayEngine
    from distrank.records import digest

    found: dict[str, Any] = {"rows": rows}
    for case, sizes in {
        "one query": {},
        "10,000 queries": {"queries": 10_000, "items": 100, "annotators": 10_000},
    }.items():
        sharded = sharded_of(crowd(rows, **sizes))
        digests, times = set(), {}
        with LocalEngine() as engine:
            results = [fit_once(engine, "crowd-bt", sharded) for _ in range(4)]
            digests |= {digest([result.theta]) for result in results}
            times["local"] = statistics.median(result.facts["seconds"]["fit"] for result in results[1:])
        with tempfile.TemporaryDirectory() as folder, RayEngine("local") as engine:
            source = FileSource.write(Path(folder), sharded.source)
            results = [fit_once(engine, "crowd-bt", sharded, source) for _ in range(4)]
            digests |= {digest([result.theta]) for result in results}
            times["ray"] = statistics.median(result.facts["seconds"]["fit"] for result in results[1:])
            found[f"{case}: Ray's start-up, s"] = engine.startup_seconds
        rounds = results[0].facts["rounds"]
        found[f"{case}: rounds"] = rounds
        for name, seconds in times.items():
            found[f"{case}: {name}, s"] = seconds
            found[f"{case}: {name}, ms per round"] = 1000.0 * seconds / rounds
        found[f"{case}: Ray / local"] = times["ray"] / times["local"]
        found[f"{case}: Ray more, ms per round"] = 1000.0 * (times["ray"] - times["local"]) / rounds
        found[f"{case}: same bytes"] = len(digests) == 1
    return found
