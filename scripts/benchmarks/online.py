"""Methods in the order of time beside the trueskill package."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import crowd, fit_once, median_seconds


def bench_online(rows: int) -> dict[str, Any]:
    """One pass in time order, on one core: the kernels alone, and the whole pass with blocks and agreement (aimed at:
    30 million judgments/s with 1,000 items, 4 million with 1e7 items). TrueSkill beside the trueskill package. A run
    from file to folder, and an update of it."""
    found: dict[str, Any] = {"rows": rows}
    for case, items in {"1,000 items": 1_000, "1e7 items": 10_000_000}.items():
        codes = crowd(rows, items=items)
        found |= {f"{case}: {name}": value for name, value in _online_passes(codes, items).items()}
    codes = crowd(20_000)
    ours = median_seconds(_online_kernels(codes, 1_000)["trueskill"], 5)[1]
    found["trueskill package / our kernel, 20,000 judgments"] = _trueskill_package(codes) / ours
    return found | _update_seconds(rows)


def _online_kernels(codes: Any, items: int) -> dict[str, Callable[[], None]]:
    """Passes over codes in the order as drawn."""
    from distrank.kernels import online

    annotator, winner, loser = (getattr(codes, name).astype(np.uint32) for name in ("annotator", "winner", "loser"))
    beliefs, skills, people = (
        np.tile(prior, (n, 1)) for prior, n in (([0.0, 1.0], items), ([25.0, 70.0], items), ([10.0, 1.0], 1_000))
    )
    return {
        "crowd-bt-online": lambda: online.crowd_bt_pass(annotator, winner, loser, None, None, 1e-4, beliefs, people),
        "trueskill": lambda: online.trueskill_pass(winner, loser, None, None, 34.7, 0.007, skills),
    }


def _online_passes(codes: Any, items: int) -> dict[str, float]:
    """Million judgments per CPU second: kernels, and whole passes with one worker."""
    import pyarrow as pa

    from distrank.engine.local import LocalEngine
    from distrank.tables.read import judgments_from_frame
    from distrank.tables.shards import build_shards

    rows, found = len(codes.winner), {}
    for name, function in _online_kernels(codes, items).items():
        found[f"{name}, kernel, million judgments/s/core"] = rows / median_seconds(function, 5)[1] / 1e6
    table = pa.table({name: pa.array(getattr(codes, name)) for name in ("query", "annotator", "winner", "loser")})
    judgments = judgments_from_frame(table)
    build = partial(build_shards, judgments, form="preferences", split="ordered")
    _, found["columns to shard, CPU s"], sharded = median_seconds(build, 1)
    with LocalEngine(1) as engine:
        for name in ("crowd-bt-online", "trueskill"):
            _, cpu, _ = median_seconds(partial(fit_once, engine, name, sharded), 3)
            found[f"{name}, whole pass, million judgments/s/core"] = rows / cpu / 1e6
    return found


def _trueskill_package(codes: Any) -> float:
    """CPU seconds of the peer on the same judgments."""
    import trueskill

    pairs = list(zip(codes.winner.tolist(), codes.loser.tolist(), strict=True))
    environment = trueskill.TrueSkill(draw_probability=0.0)

    def rate() -> None:
        ratings = [environment.create_rating()] * 1_000
        for winner, loser in pairs:
            ratings[winner], ratings[loser] = trueskill.rate_1vs1(ratings[winner], ratings[loser], env=environment)

    return median_seconds(rate, 3)[1]


def _update_seconds(rows: int) -> dict[str, float]:
    """A run over all rows, and an update of it with 10,000 more, from file to published run."""
    from distrank.engine.local import LocalEngine
    from distrank.runs import Request, aggregate
    from distrank.simulate import simulate_crowd_bt
    from distrank.updates import UpdateRequest, update

    with tempfile.TemporaryDirectory() as folder, LocalEngine() as engine:
        paths = [
            simulate_crowd_bt(judgments=count, items=1_000, annotators=1_000, seed=seed).write(f"{folder}/{seed}")
            for seed, count in enumerate((rows, 10_000))
        ]
        old, new = (str(path["preferences"]) for path in paths)
        begin = time.perf_counter()
        request = Request(source=old, out=Path(folder) / "out", method="crowd-bt-online")
        parent = aggregate(request, engine, lambda _: None).run.folder
        found = {"from file to published run, s": time.perf_counter() - begin}
        begin = time.perf_counter()
        update(UpdateRequest(run=str(parent), source=new), engine, lambda _: None)
        found["update of it with 10,000 judgments, s"] = time.perf_counter() - begin
    return found
