"""Speed beside peers and known limits, as ratios within one run.

    pip install '.[bench]'
    python scripts/bench.py                    everything, 1e6 and 1e7 preferences (several minutes)
    python scripts/bench.py fit --rows 1e6     one part: fit, kernel, queries, labels, read, online, tpp, ray
    python scripts/bench.py --out docs/results/speed.md

Machines are noisy: everything is repeated, medians are reported, peers run in the same process minutes apart at most.
Each part runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bench_tpp import bench_tpp

REPEATS = 5


def median_seconds(function: Callable[[], Any], repeats: int = REPEATS, warm: bool = True) -> tuple[float, float, Any]:
    """Median wall and CPU seconds of a call, and its last result."""
    result = function() if warm else None
    walls, cpus = [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        result = function()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return statistics.median(walls), statistics.median(cpus), result


def crowd(rows: int, **changes: Any) -> Any:
    """One query, 1,000 items, 1,000 annotators of quality Beta(5, 1), equation 5: integer columns in memory."""
    from distrank.simulate import CrowdBTSimulation, crowd_bt_codes

    settings = {"items": 1000, "annotators": 1000, "quality": "beta:5,1", "law": "model", "seed": 1, **changes}
    return crowd_bt_codes(CrowdBTSimulation(judgments=rows, **settings))


def sharded_of(codes: Any) -> Any:
    """Integer columns as shards: dictionary, canonical order, layout."""
    import pyarrow as pa

    from distrank.tables.read import judgments_from_frame
    from distrank.tables.shards import build_shards

    columns = {name: pa.array(getattr(codes, name)) for name in ("query", "annotator", "winner", "loser")}
    return build_shards(judgments_from_frame(pa.table(columns)), form="preferences")


def fit_once(engine: Any, name: str, sharded: Any, source: Any = None, **settings: Any) -> Any:
    from distrank.fit import fit
    from distrank.models import make_model

    model = make_model(name, settings)
    main = partial(fit, model=model, info=sharded.info)
    return engine.execute(main, source or sharded.source, model, lambda _: None)


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


def bench_labels(rows: int) -> dict[str, Any]:
    """dawid-skene and glad on binary labels, 3 per item, 1,000 annotators, beside crowd-kit's at its tolerance (1e-5).

    crowd-kit's Dawid-Skene runs as it is; its GLAD is left out: one of its iterations takes minutes.
    """
    from distrank.engine.local import LocalEngine
    from distrank.tables.judgments import judgments_from_codes
    from distrank.tables.shards import build_shards

    codes = _labels(rows)
    found: dict[str, Any] = {"rows": rows}
    begin = time.perf_counter()
    sharded = build_shards(judgments_from_codes("ratings", **codes), form="ratings", unit="item", graded=True)
    found["columns to shards, s"] = time.perf_counter() - begin
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        "dawid-skene at crowd-kit's tolerance": ("dawid-skene", {"tolerance": 1e-5, "quality_prior": None}),
        "dawid-skene": ("dawid-skene", {}),
        "glad": ("glad", {}),
    }
    with LocalEngine() as engine:
        for case, (name, settings) in cases.items():
            wall, cpu, result = median_seconds(partial(fit_once, engine, name, sharded, **settings), 3)
            found |= {f"{case}, s": wall, f"{case}, CPU s": cpu, f"{case}, rounds": result.facts["rounds"]}
            found[f"{case}, log-likelihood"] = float(result.theta["log_likelihood"])
    if rows <= 1_000_000:
        import pandas as pd
        from crowdkit.aggregation import DawidSkene

        columns = {"task": codes["item"], "worker": codes["annotator"], "label": codes["rating"]}
        peer = DawidSkene(n_iter=100, tol=1e-5)
        _, cpu, _ = median_seconds(lambda: peer.fit(pd.DataFrame(columns)), 1, warm=False)
        found |= {"crowd-kit Dawid-Skene, CPU s": cpu, "crowd-kit, iterations": len(peer.loss_history_)}
        ours = found["dawid-skene at crowd-kit's tolerance, CPU s"]
        found["crowd-kit / dawid-skene at its tolerance, CPU s"] = cpu / ours
    return found


def _labels(rows: int, annotators: int = 1000) -> dict[str, Any]:
    """Columns of binary labels; annotators differ in how well they know either grade."""
    import pyarrow as pa

    rng = np.random.default_rng(1)
    items = rows // 3
    truth, right = rng.random(items) < 0.4, rng.beta(8, 2, (2, annotators))
    item, annotator = np.repeat(np.arange(items), 3), rng.integers(annotators, size=3 * items)
    true = truth[item]
    label = np.where(rng.random(3 * items) < right[true.astype(int), annotator], true, ~true)
    ids = {"items": pa.array(np.arange(items)), "annotators": pa.array(np.arange(annotators))}
    rated = {"item": item, "annotator": annotator, "rating": label.astype(float)}
    return {"queries": pa.array(["all"]), **ids, "query": np.zeros(3 * items, np.uint32), **rated}


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


def bench_remap(rows: int) -> dict[str, Any]:
    """Steps of `both` at the size of the paper's data: 3 labels per item, 300 features, 29 label features, a target of
    90,000 items in 6,600 queries; with 300 trees (two rankers on 600 columns each) beside it. Local, all threads."""
    from distrank.engine.local import LocalEngine
    from distrank.remap.data import Samples
    from distrank.remap.extension import Block, Blocks, Scaling
    from distrank.remap.label_features import LabelFeatures
    from distrank.remap.model import RemapSettings
    from distrank.remap.train import train
    from distrank.tables.feature_shards import build_feature_shards
    from distrank.tables.features import Features

    rng = np.random.default_rng(1)
    items, queries, target_items, target_queries, columns = rows // 3, rows // 55, rows * 90 // 396, rows // 60, 300
    query, item = np.sort(rng.integers(queries, size=items)), np.repeat(np.arange(items), 3)
    hashes = rng.integers(2**63, size=queries).astype(np.uint64) * np.uint64(2)
    found: dict[str, Any] = {"rows": rows}
    for case, width, blocks in (("300 features", columns, 1), ("300 features and 300 trees", 2 * columns, 2)):
        who, said = rng.integers(1720, size=rows).astype(np.uint32), rng.integers(2, size=rows).astype(float)
        x, number = rng.normal(size=(items, width)), np.arange(items)
        samples = Samples(query, hashes[query], x, item, who, said, number, number)
        y = LabelFeatures(tuple(f"y{k}" for k in range(29)), rng.random((rows, 29)), np.ones(29))
        ids = (
            pa_text("q", np.sort(rng.integers(target_queries, size=target_items))),
            pa_text("i", np.arange(target_items)),
        )
        described = Features(*ids, (), rng.normal(size=(target_items, width)), rng.integers(5, size=target_items) + 0.0)
        plain = tuple(Block(Scaling(np.zeros(width), np.ones(width)), None, 0) for _ in range(blocks))
        beats: list[float] = []
        with LocalEngine() as engine:
            trained = train(
                samples, y, build_feature_shards(described), "both", RemapSettings(steps=6), engine,
                lambda _, beats=beats: beats.append(time.perf_counter()), blocks=Blocks(plain, query % blocks),
                start=np.zeros(29),
            )  # fmt: skip
        found[f"{case}: a step, s"] = statistics.median(np.diff(beats).tolist())
        found[f"{case}: rounds"] = trained.fit.facts["rounds"]
        found[f"{case}: peak memory so far, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def pa_text(prefix: str, codes: Any) -> Any:
    import pyarrow as pa

    return pa.array([f"{prefix}{code:06d}" for code in codes])


def bench_read(rows: int) -> dict[str, Any]:
    """From a Parquet file with text ids to a published run, and reading beside pyarrow's own dictionary encoding."""
    import pyarrow.parquet as pq

    from distrank.engine.local import LocalEngine
    from distrank.runs import Request, aggregate
    from distrank.simulate import simulate_crowd_bt
    from distrank.tables.read import read_judgments

    found: dict[str, Any] = {"rows": rows}
    cases = {
        "1,000 item ids": {"items": 1000, "annotators": 1000},
        "1,000,000 item ids": {"queries": 10_000, "annotators": 10_000},
    }
    for case, sizes in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            simulated = simulate_crowd_bt(judgments=rows, quality="beta:5,1", law="model", seed=1, **sizes)
            path = simulated.write(folder)["preferences"]
            del simulated
            columns = ["query", "annotator", "winner", "loser"]

            def encode(path: Path = path, columns: list[str] = columns) -> None:
                table = pq.read_table(path, columns=columns)
                for name in columns:
                    table[name].combine_chunks().dictionary_encode()

            peer, _, _ = median_seconds(encode, 3)
            ours, _, _ = median_seconds(partial(read_judgments, path), 3)
            found[f"{case}: read and encode, s"] = ours
            found[f"{case}: pyarrow reads and encodes, s"] = peer
            found[f"{case}: ratio"] = ours / peer
            request = Request(source=str(path), out=Path(folder) / "out")
            begin = time.perf_counter()
            with LocalEngine() as engine:
                published = aggregate(request, engine, lambda _: None)
            found[f"{case}: to a published run, s"] = time.perf_counter() - begin
            stages = published.facts["execution"]["seconds"]
            found |= {f"{case}: stage {name}, s": seconds for name, seconds in stages.items()}
    return found


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


def in_a_process_of_its_own(part: str, rows: int) -> dict[str, Any]:
    command = [sys.executable, __file__, part, "--rows", str(rows), "--worker"]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, check=True, text=True, env={**os.environ, "RAY_DEDUP_LOGS": "0"}
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--rows", action="append", type=lambda text: int(float(text)), help="1e6 and 1e7 by default")
    parser.add_argument("--out", type=Path, help="write the figures to this file, as a page")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        found = PARTS[options.parts[0]](options.rows[0])
        found["peak memory, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(found))
        return
    everything = []
    for part in options.parts:
        for rows in options.rows or SIZES.get(part, [10_000_000]):
            found = in_a_process_of_its_own(part, rows)
            everything.append(
                (f"{part}, {found.pop('rows'):,} {'labels' if part in LABELLED else 'preferences'}", found)
            )
            print(f"\n{everything[-1][0]}")
            for name, value in found.items():
                print(f"  {name:<60} {shown(value)}")
    if options.out:
        options.out.write_text(report(everything))


def shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:,.3g}" if isinstance(value, float) and value < 100 else f"{value:,.0f}"


def report(everything: list[tuple[str, dict[str, Any]]]) -> str:
    """The figures as a page, with what they were measured on."""
    from distrank.identity import versions

    machine = f"{os.cpu_count()} cores ({platform.machine()})"
    libraries = ", ".join(f"{name} {version}" for name, version in versions().items())
    lines = [
        "# Speed",
        "",
        f"Made with `python scripts/bench.py {' '.join(sys.argv[1:])}` on {machine}: {libraries}.",
    ]
    lines += [
        "What each part measures is in the docstrings of the script. Medians of repeats; ratios are within one run.",
        "",
    ]
    for title, found in everything:
        lines += [f"## {title}", "", f"{PARTS[title.split(',')[0]].__doc__}", "", "| | |", "|---|---|"]
        lines += [f"| {name} | {shown(value)} |" for name, value in found.items()] + [""]
    return "\n".join(lines)


LABELLED = ("labels", "remap")
SIZES = {"fit": [1_000_000, 10_000_000], "labels": [1_000_000, 10_000_000], "remap": [396_000], "tpp": [2_000_000]}
PARTS = {
    "kernel": bench_kernel,
    "fit": bench_fit,
    "queries": bench_queries,
    "labels": bench_labels,
    "remap": bench_remap,
    "read": bench_read,
    "online": bench_online,
    "tpp": bench_tpp,
    "ray": bench_ray,
}


if __name__ == "__main__":
    main()
