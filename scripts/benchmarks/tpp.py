"""Speed of tpp: a part of scripts/bench.py.

python scripts/bench.py tpp [--rows 2e6] [--out docs/results/tpp_speed.md]
"""

from __future__ import annotations

import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

QUERIES, ANNOTATORS, DOMAINS, PAIRS = 1000, 100, 10, 435


def bench_tpp(rows: int) -> dict[str, Any]:
    """DOC30: 1,000 queries of 30 items, 100 annotators, 10 domains. One start of the marginal inference (aimed at:
    under 20 s on 2 cores), a sweep of the Gibbs samplers (aimed at: 30 million latent variables per second and core),
    and Ray beside local (aimed at: the same bytes, at most 20 % or 5 ms per round slower)."""
    from distrank.engine.local import LocalEngine

    sharded = _sharded(rows)
    found: dict[str, Any] = {"rows": sharded.info.judgments}
    found |= _passes(sharded)
    found |= _sweeps(sharded)
    with LocalEngine() as engine:
        _fit(engine, sharded, max_iterations=1)  # compiles
        found |= _marginal(engine, sharded)
    return found | _ray(sharded)


def _sharded(rows: int) -> Any:
    import pyarrow as pa

    from distrank.simulate import TPPSimulation, tpp_codes
    from distrank.tables.read import judgments_from_frame
    from distrank.tables.shards import build_shards

    sparsity = rows / (QUERIES * ANNOTATORS * PAIRS)
    sizes = {"queries": QUERIES, "annotators": ANNOTATORS, "domains": DOMAINS, "sparsity": sparsity}
    codes = tpp_codes(TPPSimulation(dataset="DOC30SR0.05DEMO1", **sizes))
    columns = {name: pa.array(getattr(codes, name)) for name in ("query", "annotator", "winner", "loser")}
    return build_shards(judgments_from_frame(pa.table(columns)), form="preferences", split="annotator")


def _fit(engine: Any, sharded: Any, source: Any = None, report: Any = None, **settings: Any) -> Any:
    from distrank.fit import fit
    from distrank.models import make_model

    model = make_model("tpp", {"domains": DOMAINS, "starts": 1, "interval": None, **settings})
    main = partial(fit, model=model, info=sharded.info)
    return engine.execute(main, source or sharded.source, model, report or (lambda _: None))


def _marginal(engine: Any, sharded: Any) -> dict[str, Any]:
    """One start, moves and EM until it converges; and what of it the start alone takes."""
    marks: list[tuple[float, float]] = []

    def report(entry: dict[str, Any]) -> None:
        if "iteration" in entry:
            marks.append((time.perf_counter(), time.process_time()))

    wall, cpu = time.perf_counter(), time.process_time()
    result = _fit(engine, sharded, report=report)
    found: dict[str, Any] = {
        "one start to convergence, s": time.perf_counter() - wall,
        "one start to convergence, CPU s": time.process_time() - cpu,
        "the start alone, s": marks[1][0] - marks[0][0],
        "the start alone, CPU s": marks[1][1] - marks[0][1],
        "rounds": result.facts["rounds"],
        "iterations": result.iterations,
        "converged": result.converged,
    }
    wall = time.perf_counter()
    _fit(engine, sharded, interval=0.9, max_iterations=1)
    with_intervals = time.perf_counter() - wall
    wall = time.perf_counter()
    _fit(engine, sharded, max_iterations=1)
    found["intervals of all scores, s"] = with_intervals - (time.perf_counter() - wall)
    return found


def _shard(sharded: Any) -> Any:
    """The largest shard, prepared for the samplers."""
    from distrank.models import make_model

    shards = sharded.source.sets["units"]
    return make_model("tpp", {"inference": "gibbs"}).prepare(max(shards, key=lambda shard: len(shard["row.winner"])))


def _passes(sharded: Any) -> dict[str, float]:
    """Nanoseconds per preference of the kernels of the marginal inference."""
    from distrank.kernels import expertise
    from distrank.kernels.normal_table import log_cdf_table
    from distrank.models._pairwise import rows_of

    shard, rng = _shard(sharded), np.random.default_rng(1)
    units, items, rows = len(shard["unit.hash"]), int(shard["unit.nodes"][-1]), len(shard["pair.winner"])
    tau, posterior = rng.normal(1, 1.5, (ANNOTATORS, DOMAINS)), np.eye(DOMAINS)[rng.integers(DOMAINS, size=units)]
    score, hardness, table = 3.0 * rng.normal(size=items), np.zeros(units), log_cdf_table()
    given = shard["pair.unit"], *rows_of(shard), score, hardness, tau

    def slopes() -> tuple[Any, ...]:
        return np.zeros(items), np.zeros(units), np.zeros(tau.shape)

    looks = _seconds(lambda: expertise.domain_likelihood(*given, table, np.zeros((units, DOMAINS))))
    steps = _seconds(lambda: expertise.expected_likelihood(*given, posterior, table, *slopes()))
    return {
        "E-step, ns per preference and domain": 1e9 * looks / rows / DOMAINS,
        "M-step, ns per preference": 1e9 * steps / rows,
    }


def _sweeps(sharded: Any) -> dict[str, float]:
    """Million latent variables per second and core, the whole step of a sweep: draws and what the M-step needs."""
    from distrank.kernels.random import round_key
    from distrank.models import _tpp_chains as chains
    from distrank.records import frozen, scalar

    shard, found = frozen(_shard(sharded)), {}
    latent = len(shard["pair.winner"]) + len(shard["slot.node"]) + len(shard["unit.hash"])
    tau = np.random.default_rng(1).normal(1, 1.5, (ANNOTATORS, DOMAINS))
    items = int(shard["unit.nodes"][-1])
    local, _ = chains.start_units(shard, {"score": np.full(items, 0.5)}, {"tau": tau}, round_key(1, 0, 0, 0, "start"))
    for name, collapsed in (("gibbs", False), ("gibbs-collapsed", True)):
        theta = {"tau": tau, "log_share": np.full(DOMAINS, -np.log(DOMAINS)), "mixing": scalar(True)}
        theta["collapsed"] = scalar(collapsed)
        step = partial(chains.sweep_units, shard, frozen(local), theta, round_key(1, 0, 0, 1, "sweep"))
        found[f"{name}, million latent variables/s/core"] = latent / _seconds(step) / 1e6
    return found


def _seconds(function: Any) -> float:
    """The median CPU seconds of this thread."""
    function()
    times = []
    for _ in range(7):
        begin = time.thread_time()
        function()
        times.append(time.thread_time() - begin)
    return statistics.median(times)


def _ray(sharded: Any) -> dict[str, Any]:
    """Some iterations on both engines."""
    from distrank.engine.base import FileSource
    from distrank.engine.local import LocalEngine
    from distrank.engine.ray.engine import RayEngine
    from distrank.records import digest

    digests, seconds, rounds = set(), {}, 0
    with LocalEngine() as engine:
        results = [_fit(engine, sharded, max_iterations=3) for _ in range(3)]
        digests |= {digest([result.theta]) for result in results}
        seconds["local"] = statistics.median(result.facts["seconds"]["fit"] for result in results)
        rounds = results[0].facts["rounds"]
    with tempfile.TemporaryDirectory() as folder, RayEngine("local") as engine:
        source = FileSource.write(Path(folder), sharded.source)
        results = [_fit(engine, sharded, source, max_iterations=3) for _ in range(3)]
        digests |= {digest([result.theta]) for result in results}
        seconds["ray"] = statistics.median(result.facts["seconds"]["fit"] for result in results)
    return {
        "local, ms per round": 1000.0 * seconds["local"] / rounds,
        "Ray, ms per round": 1000.0 * seconds["ray"] / rounds,
        "Ray / local": seconds["ray"] / seconds["local"],
        "Ray more, ms per round": 1000.0 * (seconds["ray"] - seconds["local"]) / rounds,
        "same bytes": len(digests) == 1,
    }
