"""Experiments of the remapping paper on simulated crowds, written to a page.  [Ustinovskiy16] section 6

    python scripts/reproduce/remap.py --out docs/results/remap.md          about ten minutes on two cores
    DISTRANK_DATA=/data python scripts/reproduce/remap.py ...              also on the queries of ltr-sample

Figure 3 (weights by the annotators' quality), Figure 2 (relevance values by their rigor) as printed and scale-free,
Figure 4 (DCG by the number of trees), a comparison like Table 4 with significance, and feature ablation like Table 5.

[Ustinovskiy16] Ustinovskiy, Fedorova, Gusev, Serdyukov: An optimization framework for remapping and reweighting noisy
relevance labels. SIGIR 2016.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from distrank.engine.local import LocalEngine
from distrank.remap.baselines import LinearFit, consensus_labels, label_counts
from distrank.remap.compare import TEST, Compared, compare, fold_parts, paired_p
from distrank.remap.consensus import fit_consensus
from distrank.remap.data import samples_of
from distrank.remap.extension import extend
from distrank.remap.label_features import LabelFeatures, label_features
from distrank.remap.model import RemapSettings
from distrank.remap.train import query_dcg, train
from distrank.simulate import Simulated, simulate
from distrank.tables.feature_shards import build_feature_shards
from distrank.tables.features import features_from_frame
from distrank.tables.gold import gold_from_frame
from distrank.tables.read import judgments_from_frame
from distrank.trees import TreeShape

SHAPE = TreeShape(least_rows=50)


def quiet(_: dict[str, Any]) -> None:
    """No progress."""


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def experiment(engine: Any, preset: str, seed: int, sizes: dict[str, int], **settings: Any) -> tuple[np.ndarray, Any]:
    """Simulated experiment 1 or 2: what was learned for the four kinds of annotators, and the fit."""
    tables = simulate("remap", {"preset": preset, "seed": seed, **sizes})
    judgments = judgments_from_frame(tables["ratings"])
    features = features_from_frame(tables["features"])
    target = build_feature_shards(features, gold_from_frame(tables["gold"]))
    samples = samples_of(judgments, features, None)
    truth = tables["annotators"].to_pandas().set_index("annotator")["truth"]
    kind = truth.loc[judgments.annotators.to_pylist()].to_numpy()[samples.annotator]
    counted = samples.rating == 1 if preset == "exp1" else np.ones(len(samples), bool)
    values = np.stack([(kind == value) & counted for value in sorted(set(truth))], axis=1).astype(float)
    y = LabelFeatures(("a", "b", "c", "d"), values, np.ones(4))
    chosen = RemapSettings(**{"patience": 1000, **settings})
    if preset == "exp1":
        trained = train(samples, y, target, "remap", chosen, engine, quiet, start=np.ones(4))
        return sigmoid(trained.fit.theta["beta"]), trained
    label = samples.rating / 4.0
    trained = train(samples, y, target, "reweight", chosen, engine, quiet, label=label, start=np.zeros(4))
    return sigmoid(trained.fit.theta["alpha"]), trained


def figures(engine: Any, seeds: int) -> list[str]:
    """Figures 2 and 3."""
    sizes = {"queries": 2000, "target_queries": 3000}
    lines = ["## Simulated experiment 2 (Figure 3): weights grow with the quality of annotators", ""]
    lines += [
        f"One grade per item from annotators who are right with probability q. 2,000 queries, 40 steps, {seeds} seeds.",
        "",
        "| q | 0 | 0.5 | 0.75 | 1 | grows in | DCG@10, validation |",
        "|---|---|---|---|---|---|---|",
    ]
    for free in (False, True):
        lines.append(_figure(engine, "exp2", seeds, sizes, free, steps=40))
    lines += ["", "## Simulated experiment 1 (Figure 2): relevance values and the rigor of annotators", ""]
    lines += [
        f"One binary label per item, 1 if the grade is above the annotator's rigor. 60 steps, {seeds} seeds.",
        "As printed, the values drift to 1 whatever the rigor: LambdaRank's smoothing of DCG rewards every spread of",
        "the scores.",
        "",
        "| rigor | 0 | 1 | 2 | 3 | grows in | DCG@10, validation |",
        "|---|---|---|---|---|---|---|",
    ]
    for free in (False, True):
        lines.append(_figure(engine, "exp1", seeds, sizes, free, steps=60))
    return [*lines, ""]


def _figure(engine: Any, preset: str, seeds: int, sizes: dict[str, int], free: bool, steps: int) -> str:
    learned, gains = [], []
    for seed in range(seeds):
        values, trained = experiment(engine, preset, seed, sizes, scale_free=free, steps=steps)
        learned.append(values)
        gains.append((trained.fit.trace[0]["validation"], trained.validation))
    mean = np.mean(learned, axis=0)
    grows = sum(bool((np.diff(values) > 0).all()) for values in learned)
    cells = " | ".join(f"{value:.3f}" for value in mean)
    before, after = (statistics.mean(pair[place] for pair in gains) for place in (0, 1))
    name = "scale-free" if free else "as printed"
    return f"| {name} | {cells} | {grows} of {seeds} seeds | {before:.3f} to {after:.3f} |"


def crowd_tables(engine: Any, seeds: int, trees: int, tables_of: Any) -> tuple[dict[str, list], dict[int, list], dict]:
    """All comparisons over seeds: DCG by method, by number of trees, and by label features."""
    found: dict[str, list[np.ndarray]] = {}
    by_trees: dict[int, list[float]] = {}
    ablation: dict[str, list[np.ndarray]] = {}
    for seed in range(seeds):
        tables: Simulated = tables_of(seed)
        judgments, features = judgments_from_frame(tables["ratings"]), features_from_frame(tables["features"])
        honeypots = gold_from_frame(tables["honeypots"])
        target = build_feature_shards(features, gold_from_frame(tables["gold"]))
        samples = samples_of(judgments, features, honeypots)
        consensus = fit_consensus(judgments, honeypots, engine, quiet)
        label = (samples.rating == consensus.grades[1]).astype(int)
        y = label_features(consensus, samples.annotator, samples.number[samples.item], label)
        soft, weight = consensus_labels(samples, consensus)["dawid-skene soft"], label_counts(samples)
        given = (samples.values, samples.query_hash, soft, weight)
        grown = extend(*given, trees=trees, shape=SHAPE)
        extended = {
            "linear": extend(*given, how="none"),
            "trees": grown,
            "trees, disjoint": extend(*given, how="disjoint", trees=trees, shape=SHAPE),
        }
        settings = RemapSettings(steps=30, patience=8)
        compared = compare(
            samples, y, consensus, target, settings, engine, quiet, extended=extended, folds=3, trees=trees, shape=SHAPE
        )
        for name, values in compared.found.items():
            found.setdefault(name, []).append(values)
        for count in sorted({0, trees // 6, trees // 3, 2 * trees // 3, trees}):
            blocks = grown.with_trees(count, samples.values) if count else extended["linear"]
            b = LinearFit.of(blocks, samples.values, weight)(soft, 1e-2)
            shards = [
                {**shard, "node.features": np.hstack([block(shard["node.features"]) for block in blocks.blocks])}
                for shard in target.shards
            ]
            by_trees.setdefault(count, []).append(float(query_dcg(shards, lambda v, b=b: v @ b, 10).mean()))
        for name, groups in {
            "basic": ("basic",),
            "basic + glad": ("basic", "glad"),
            "basic + dawid-skene": ("basic", "dawid-skene"),
            "all": ("basic", "glad", "dawid-skene"),
        }.items():
            some, part = y.chosen(groups), partial(fold_parts, fold=0, folds=3)
            test = np.concatenate([part(shard["unit.hash"]) for shard in target.shards]) == TEST
            for method in ("reweight", "remap", "both"):
                ridged = dataclasses.replace(settings, ridge=1e-2)
                trained = train(samples, some, target, method, ridged, engine, quiet, blocks=grown, part=part)
                scored = query_dcg(target.shards, trained.score, 10)[test]
                ablation.setdefault(f"{name}|{method}", []).append(scored)
                ablation.setdefault("base", []).append(compared.found["linear, majority"][: int(test.sum())])
        print(f"seed {seed} done", file=sys.stderr)
    return found, by_trees, ablation


def comparison(title: str, engine: Any, seeds: int, trees: int, tables_of: Any) -> list[str]:
    """Tables 4 and 5 and Figure 4 on one kind of data."""
    found, by_trees, ablation = crowd_tables(engine, seeds, trees, tables_of)
    joined = Compared(10, {name: np.concatenate(values) for name, values in found.items()})
    hard, lambdamart = joined.found["trees, dawid-skene"], joined.found["lambdamart, dawid-skene"]
    soft, both = joined.found["trees, dawid-skene soft"], joined.found["trees, both"]
    lines = [f"## {title}", "", f"{seeds} seeds, {len(both):,} test queries in all, {trees} trees.", ""]
    lines += ["| ranker, labels | DCG@10 | to linear, majority | p |", "|---|---|---|---|"]
    lines += [
        f"| {row['method']} | {row['dcg']:.3f} | {row['gain_percent']:+.2f} % | {row['p']:.4f} |"
        for row in joined.table()
    ]
    lines += ["", "Paired by query, `both` with trees is", ""]
    for name, other in (
        ("hard dawid-skene with the same trees", hard),
        ("lambdamart on hard dawid-skene", lambdamart),
        ("soft dawid-skene with the same trees", soft),
    ):
        lines.append(f"- {both.mean() - other.mean():+.3f} to {name} (p = {paired_p(both, other):.4f})")
    lines += ["", "DCG@10 by the number of trees (Figure 4; soft labels, linear on features and trees):", ""]
    lines += ["| " + " | ".join(str(count) for count in by_trees) + " |", "|" + "---|" * len(by_trees)]
    lines.append("| " + " | ".join(f"{statistics.mean(values):.3f}" for values in by_trees.values()) + " |")
    base = np.concatenate(ablation["base"]).mean()
    lines += ["", "By groups of label features (Table 5; with trees, one fold of three, to linear, majority):", ""]
    lines += ["| | basic | basic + glad | basic + dawid-skene | all |", "|---|---|---|---|---|"]
    for method in ("reweight", "remap", "both"):
        cells = [
            f"{100 * (np.concatenate(ablation[f'{name}|{method}']).mean() / base - 1):+.2f} %"
            for name in ("basic", "basic + glad", "basic + dawid-skene", "all")
        ]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def real_features(folder: Path, seed: int) -> Simulated:
    """A simulated crowd over the queries of ltr-sample: its grades are the truth, half of its queries the target."""
    import pyarrow as pa

    from distrank.tables.features import read_features

    features = read_features([folder / "train.svm.gz", folder / "test.svm.gz"])
    rng = np.random.default_rng(seed)
    query, grade = np.array(features.query.to_pylist()), features.relevance
    names = np.unique(query)
    source = np.isin(query, names[rng.random(len(names)) < 0.5])
    people = 60
    strict, sharp = rng.normal(1.5, 0.8, people), rng.gamma(4.0, 0.5, people)
    sharp[rng.random(people) < 0.15] = 0.0
    item = np.array(features.item.to_pylist())
    rows = np.repeat(np.flatnonzero(source), 3)
    who = np.concatenate([rng.choice(people, 3, replace=False) for _ in range(int(source.sum()))])
    said = (rng.random(len(rows)) < sigmoid(sharp[who] * (grade[rows] - strict[who]))).astype(int)
    pots = rng.integers(5, size=60)
    pot_rows = np.repeat(np.arange(60), 10)
    pot_who = np.concatenate([rng.choice(people, 10, replace=False) for _ in range(60)])
    pot_said = (rng.random(600) < sigmoid(sharp[pot_who] * (pots[pot_rows] - strict[pot_who]))).astype(int)
    annotator = [f"a{w:02d}" for w in np.concatenate([who, pot_who])]
    table = {
        "query": [*query[rows], *["honeypots"] * 600],
        "item": [*item[rows], *(f"h{i}" for i in pot_rows)],
        "annotator": annotator,
        "rating": np.concatenate([said, pot_said]),
    }
    columns = {name: features.values[:, place] for place, name in enumerate(features.names)}
    honeypots = {
        "query": ["honeypots"] * 60,
        "item": [f"h{i}" for i in range(60)],
        "relevance": (pots >= 2).astype(int),
    }
    gold = {"query": query[~source], "item": item[~source], "relevance": grade[~source]}
    described = pa.table({"query": query, "item": item, **columns})
    made = {"ratings": pa.table(table), "features": described, "gold": pa.table(gold), "honeypots": pa.table(honeypots)}
    return Simulated(made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the page there (default: print it)")
    parser.add_argument("--seeds", type=int, default=5, help="of the simulated experiments (default 5)")
    parser.add_argument("--crowds", type=int, default=3, help="simulated crowds of the comparison (default 3)")
    parser.add_argument("--queries", type=int, default=1000, help="queries of source and target (default 1000)")
    parser.add_argument("--trees", type=int, default=90, help="default 90")
    options = parser.parse_args()
    begin = time.perf_counter()

    def synthetic(seed: int) -> Simulated:
        sizes = {"queries": options.queries, "target_queries": options.queries, "items": 15, "features": 30}
        return simulate("remap", {"seed": seed, **sizes, "annotators": 200, "honeypots": 100})

    command = " ".join(["python scripts/reproduce/remap.py", *sys.argv[1:]])
    lines = ["# Rankers from noisy labels", "", f"Made with `{command}`.", ""]
    with LocalEngine() as engine:
        lines += figures(engine, options.seeds)
        lines += comparison(
            "A simulated crowd (Tables 4 and 5, Figure 4)", engine, options.crowds, options.trees, synthetic
        )
        folder = os.environ.get("DISTRANK_DATA")
        if folder:
            path = Path(folder) / "ltr-sample"
            title = "A simulated crowd on the queries of ltr-sample"
            lines += comparison(
                title, engine, 2 * options.crowds, options.trees, lambda seed: real_features(path, seed)
            )
    print(f"{time.perf_counter() - begin:.0f} s", file=sys.stderr)
    page = "\n".join(lines)
    if options.out:
        options.out.write_text(page)
    else:
        print(page)


if __name__ == "__main__":
    main()
