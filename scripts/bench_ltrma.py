"""Speed of `ltrma` beside its targets.

    python scripts/bench_ltrma.py [--out docs/results/ltrma_speed.md]

Data is made in memory; reading and sharding are not part of the figures. Wall seconds depend on who else uses the
machine, so CPU seconds of all threads stand beside them: on two idle cores half of them pass.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from distrank.engine.local import LocalEngine
from distrank.fit import fit
from distrank.kernels import kernel
from distrank.models import make_model
from distrank.simulate.output import text_ids
from distrank.simulate.permutations import insert, mallows_insertions
from distrank.tables.feature_nodes import Training, with_training
from distrank.tables.features import Features
from distrank.tables.judgments import judgments_from_codes
from distrank.tables.shards import Sharded, build_shards

WORKERS = 2


@kernel
def label(order: Any, theta: Any, chance: Any, labels: Any) -> None:
    """A ranking of every query by every annotator, by Mallows' law."""
    inserted = np.zeros(order.shape[1], np.int64)
    for query in range(len(order)):
        for annotator in range(len(theta)):
            mallows_insertions(theta[annotator], chance[query, annotator], inserted)
            labels[query, annotator] = insert(order[query], inserted)


def crowd(queries: int, items: int, annotators: int, features: int, top_k: int | None = None) -> Sharded:
    """Shards of a crowd with a linear truth; with `top_k`, annotators see the truth through noise and stop there."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(queries * items, features))
    score = (values @ (3.0 * rng.normal(size=features) / np.sqrt(features))).reshape(queries, items)
    score += rng.gumbel(size=score.shape)
    if top_k is None:
        labels = np.empty((queries, annotators, items), np.int64)
        theta = rng.uniform(-1.0, -0.2, annotators)
        label(np.argsort(-score, axis=1), theta, rng.random(labels.shape), labels)
    else:
        noisy = [score + (0.3 + 0.3 * g) * rng.normal(size=score.shape) for g in range(annotators)]
        labels = np.stack([np.argsort(-seen, axis=1)[:, :top_k] for seen in noisy], axis=1)
    length = labels.shape[2]
    ids = {"queries": text_ids("q", queries), "items": text_ids("i", items), "annotators": text_ids("a", annotators)}
    judgments = judgments_from_codes(
        "rankings",
        **ids,
        query=np.repeat(np.arange(queries), annotators * length),
        annotator=np.tile(np.repeat(np.arange(annotators), length), queries),
        item=labels.ravel(),
        rank=np.tile(np.arange(1, length + 1), queries * annotators),
    )
    named = (
        ids["queries"].take(np.repeat(np.arange(queries), items)),
        ids["items"].take(np.tile(np.arange(items), queries)),
    )
    training = Training(Features(*named, tuple(f"f{n}" for n in range(features)), values))
    size = training.rows_per_shard(len(judgments))
    return with_training(build_shards(judgments, form="rankings", split="never", rows_per_shard=size), training, None)


def measured(sharded: Sharded, **settings: Any) -> dict[str, Any]:
    """A fit, after one that compiled everything: seconds of an iteration (median) and of the whole."""
    model = make_model("ltrma", settings)
    moments: list[tuple[float, float]] = []
    main = partial(fit, model=model, info=sharded.info)

    def note(entry: dict[str, Any]) -> None:
        if "iteration" in entry:
            moments.append((time.perf_counter(), time.process_time()))

    with LocalEngine(WORKERS) as engine:
        engine.execute(
            partial(main, model=make_model("ltrma", {**settings, "max_iterations": 1})), sharded.source, model, note
        )
        moments.clear()
        begin = time.perf_counter(), time.process_time()
        result = engine.execute(main, sharded.source, model, note)
        end = time.perf_counter(), time.process_time()
    steps = [np.subtract(after, before) for before, after in pairwise(moments)]
    return {
        "iterations": result.iterations,
        "converged": result.converged,
        "iteration, wall s": statistics.median(step[0] for step in steps),
        "iteration, CPU s": statistics.median(step[1] for step in steps),
        "fit, wall s": end[0] - begin[0],
        "fit, CPU s": end[1] - begin[1],
    }


CASES = {
    "10,000 queries of 15 items, 15 annotators, 45 features, 500 Metropolis steps": (
        (10_000, 15, 15, 45),
        {},
        "an iteration under 0.5 s on 2 cores, the fit under 15 s",
    ),
    "1,000 queries of 12 items, 10 annotators, 10 features, summed over exactly": (
        (1_000, 12, 10, 10),
        {},
        "the E-step under 0.2 s on 2 cores",
    ),
    "top-10 of lists of 1,000 items, 1,700 queries, 8 annotators, 45 features": (
        (1_700, 1_000, 8, 45, 10),
        {"top_k": 10},
        "under 5 minutes",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the figures to this file, as a page")
    options = parser.parse_args()
    lines = [
        "# Speed of ltrma",
        "",
        f"Made with `python scripts/bench_ltrma.py`, local engine with {WORKERS} threads on {os.cpu_count()} cores",
        f"({platform.machine()}) that were shared with other work; CPU seconds are of all threads.",
    ]
    for title, (sizes, settings, target) in CASES.items():
        found = measured(crowd(*sizes), **settings)
        lines += ["", f"## {title}", "", f"Target: {target}.", "", "| | |", "|---|---|"]
        lines += [
            f"| {name} | {f'{value:.2f}' if isinstance(value, float) else value} |" for name, value in found.items()
        ]
        print("\n".join(lines[-10:]), flush=True)
    if options.out is not None:
        options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
