"""Bradley-Terry and Crowd-BT beside evalica and crowd-kit, one query and many."""

from __future__ import annotations

import resource
import time
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common import crowd, fit_once, median_seconds, sharded_of


def bench_fit(rows: int) -> dict[str, Any]:
    """crowd-bt and bradley-terry beside evalica's bradley_terry and crowd-kit's NoisyBradleyTerry."""
    from distrank.engine.local import LocalEngine

    codes = crowd(rows)
    found: dict[str, Any] = {"rows": rows}
    found["columns to shards, s"], _, sharded = median_seconds(lambda: sharded_of(codes), 3)
    with LocalEngine() as engine:
        for name in ("crowd-bt", "bradley-terry"):
            wall, cpu, result = median_seconds(partial(fit_once, engine, name, sharded))
            best = fit_once(engine, name, sharded, tolerance=1e-15, max_iterations=400)
            reached, optimum = float(result.theta["objective"]), float(best.theta["objective"])
            found[f"{name}, fit on shards, s"] = wall
            found[f"{name}, fit on shards, CPU s"] = cpu
            with_intervals = partial(fit_once, engine, name, sharded, interval=0.9)
            found[f"{name}, with intervals, CPU s"] = median_seconds(with_intervals)[1]
            found[f"{name}, rounds"] = result.facts["rounds"]
            found[f"{name}, iterations"] = result.iterations
            found[f"{name}, relative gap to the optimum"] = max(optimum - reached, 0.0) / abs(optimum)
    found["peak memory of distrank, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found |= _evalica(codes)
    for name in ("crowd-bt", "bradley-terry"):
        whole = found["columns to shards, s"] + found[f"{name}, fit on shards, s"]
        found[f"{name} from columns / evalica"] = whole / found["evalica, s"]
        found[f"{name} fit / evalica"] = found[f"{name}, fit on shards, s"] / found["evalica, s"]
        for kind in ("lists", "arrays"):
            core = found[f"evalica's core, indexed {kind}, s"]
            found[f"{name} fit / evalica's core on {kind}"] = found[f"{name}, fit on shards, s"] / core
    if rows <= 1_000_000:
        found["crowd-kit NoisyBradleyTerry, 1 of 100 iterations, s"] = _crowd_kit(codes)
        found["crowd-kit (1 iteration) / crowd-bt"] = (
            found["crowd-kit NoisyBradleyTerry, 1 of 100 iterations, s"] / found["crowd-bt, fit on shards, s"]
        )
    return found


def _evalica(codes: Any) -> dict[str, float]:
    """Its public function on the same rows, and its compiled core on rows that are indexed already.

    evalica hands lists to its core; the core also takes arrays, and is much faster then.
    """
    import evalica

    xs, ys = codes.winner.tolist(), codes.loser.tolist()
    winners = [evalica.Winner.X] * len(xs)
    found: dict[str, float] = {}
    found["evalica, s"], _, result = median_seconds(lambda: evalica.bradley_terry(xs, ys, winners), 3)
    indexed = evalica.indexing(xs, ys)
    total, count = len(indexed[2]), len(xs)
    inputs = {
        "lists": (indexed[0], indexed[1], winners, [1.0] * count),
        "arrays": (
            np.array(indexed[0], np.uintp),
            np.array(indexed[1], np.uintp),
            np.full(count, int(evalica.Winner.X), np.uint8),
            np.ones(count),
        ),
    }
    for kind, (x, y, w, weights) in inputs.items():
        core = partial(
            evalica._brzo.bradley_terry,
            xs=x,
            ys=y,
            winners=w,
            weights=weights,
            total=total,
            win_weight=1.0,
            tie_weight=0.5,
            tolerance=1e-6,
            limit=100,
        )
        found[f"evalica's core, indexed {kind}, s"], _, _ = median_seconds(core, 5)
    found["evalica, iterations"] = result.iterations
    return found


def _crowd_kit(codes: Any) -> float:
    """A lower bound: one of its (by default up to 100) iterations, once; the default took more than ten minutes."""
    import pandas as pd
    from crowdkit.aggregation import NoisyBradleyTerry

    frame = pd.DataFrame({"worker": codes.annotator, "left": codes.winner, "right": codes.loser, "label": codes.winner})
    begin = time.perf_counter()
    NoisyBradleyTerry(n_iter=1).fit(frame)
    return time.perf_counter() - begin


def bench_kernel(rows: int) -> dict[str, Any]:
    """The pass over preferences, on one core, beside a loop that only reads and adds (the memory's limit)."""
    import numba

    from distrank.kernels import preferences as kernels

    codes = crowd(rows)
    order = np.argsort(codes.annotator, kind="stable")
    winner, loser = codes.winner[order].astype(np.uint32), codes.loser[order].astype(np.uint32)
    annotator = codes.annotator[order]
    run = np.append(np.flatnonzero(np.r_[True, annotator[1:] != annotator[:-1]]), rows).astype(np.int64)
    owner = annotator[run[:-1]].astype(np.uint32)
    odds, quality = np.exp(codes.score), np.clip(codes.quality, 0.0, 1.0)
    gradient, first, second = np.zeros(1000), np.zeros(1000), np.zeros(1000)

    @numba.njit(nogil=True)
    def floor(winner: Any, loser: Any, odds: Any, sums: Any) -> None:
        for r in range(len(winner)):
            i, j = winner[r], loser[r]
            sums[i] += odds[j]
            sums[j] -= odds[i]

    rows_of = (run, owner, winner, loser, None, odds)
    passes = {
        "plain pass (likelihood, gradient)": lambda: kernels.log_likelihood(*rows_of, None, gradient, None, None),
        "crowd pass (also quality)": lambda: kernels.log_likelihood(*rows_of, quality, gradient, first, second),
        "quality pass": lambda: kernels.quality_derivatives(*rows_of, quality, first, second),
        "floor: gather and scatter": lambda: floor(winner, loser, odds, gradient),
    }
    found: dict[str, Any] = {"rows": rows}
    for name, function in passes.items():
        found[f"{name}, million preferences/s/core"] = rows / median_seconds(function, 9)[1] / 1e6
    return found


def bench_queries(rows: int) -> dict[str, Any]:
    """Many queries: 10,000 of 100 items each, 10,000 annotators."""
    from distrank.engine.local import LocalEngine

    codes = crowd(rows, queries=10_000, items=100, annotators=10_000)
    begin = time.perf_counter()
    sharded = sharded_of(codes)
    found: dict[str, Any] = {"rows": rows, "columns to shards, s": time.perf_counter() - begin}
    with LocalEngine() as engine:
        wall, cpu, result = median_seconds(partial(fit_once, engine, "crowd-bt", sharded), 3)
    found |= {"crowd-bt, s": wall, "crowd-bt, CPU s": cpu, "rounds": result.facts["rounds"]}
    found |= {"iterations": result.iterations, "items": sharded.info.items}
    return found
