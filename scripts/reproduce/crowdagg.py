"""CrowdAgg and the aggregation baselines on real and simulated crowds: the tables and figures of [Niu15], section 6.

    DISTRANK_DATA=... python scripts/reproduce/crowdagg.py [--repeats 3] [--ratios 0:1:0.25]

Real data: trec2011-task1 and web-relevance (ratings with gold), faceage (preferences, gold = age). Items without gold
are left out of the lists before they are measured. Relevant are items of grade 1 or more (2 or more on web-relevance,
an age of 50 or more on faceage); NDCG has exponential gain, on faceage it is kappa-NDCG: 2^age says nothing.

em-elo reads preferences in time order; ratings are given to it as the preferences that they imply, in random order.

[Niu15] Niu, Lan, Guo, Cheng, Yu, Long: Listwise approach for rank aggregation in crowdsourcing. WSDM 2015.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from distrank.engine.local import LocalEngine
from distrank.evaluate import compare, evaluate, significance
from distrank.kernels import rank_distribution as ranks
from distrank.metrics import MetricSettings
from distrank.models import MODELS, get_model
from distrank.plot import line_charts
from distrank.runs import Stages, annotators_of, fit_judgments, split_settings
from distrank.simulate import simulate_crowd_agg
from distrank.stress import Stress, parse_ratios, stress
from distrank.tables.gold import gold_from_frame
from distrank.tables.judgments import Judgments
from distrank.tables.read import judgments_from_frame

METHODS: list[tuple[str, dict[str, Any]]] = [
    ("crowd-agg", {}),
    ("crowd-agg", {"measure": "rbp"}),
    ("crowd-agg", {"pair_model": "step"}),
    *((name, {}) for name in ("borda", "median-rank", "condorcet", "greedy-order", "svp", "bradley-terry", "crowd-bt")),
    *((name, {}) for name in ("thurstone", "mpm", "em-elo", "plackett-luce", "mallows")),
    *((name, {}) for name in ("majority", "average", "dawid-skene", "glad", "tpp", "trm")),
]
CUTS = (3, 5, 7, 9, 10)
QUALITY = ("mpm", "crowd-bt", "em-elo", "crowd-agg")


@dataclass(frozen=True)
class Data:
    """A crowd with gold, and how it is measured."""

    name: str
    judgments: pd.DataFrame
    gold: pd.DataFrame
    ndcg: str = "ndcg"
    relevant: float = 1.0

    @property
    def form(self) -> str:
        return "preferences" if "winner" in self.judgments else "ratings"

    @property
    def settings(self) -> MetricSettings:
        return MetricSettings(threshold=self.relevant, judged_only=True)


@dataclass(frozen=True)
class Fitted:
    """What a method made of a crowd."""

    rankings: pa.Table
    annotators: pd.DataFrame
    seconds: float  # of CPU, without reading
    converged: bool


def label(method: str, settings: dict[str, Any]) -> str:
    return " ".join([method, *(str(value) for value in settings.values())])


def available(form: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The methods of the list that there are and that take the form (em-elo takes implied preferences)."""
    for name, settings in METHODS:
        if name in MODELS and (form in get_model(name).accepts or name == "em-elo"):
            yield name, settings


def fitted(judgments: Judgments, method: str, settings: dict[str, Any], engine: LocalEngine) -> Fitted:
    model, _ = split_settings(method, settings)
    clock = time.process_time()
    sharded, result = fit_judgments(judgments, None, model, engine, Stages(lambda _: None), seed=0)
    seconds = time.process_time() - clock
    tables = pa.concat_tables([part["rankings"] for part in result.results])
    annotators = annotators_of(sharded, model, result).to_pandas()
    return Fitted(tables, annotators, seconds, result.converged)


def implied(frame: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """The preferences that ratings imply, in random order; at most 200 items of an annotator and query."""
    if "winner" in frame:
        return frame
    frame = frame.groupby(["query", "annotator"]).head(200)
    pairs = frame.merge(frame, on=["query", "annotator"], suffixes=("", "_other"))
    pairs = pairs[pairs["rating"] > pairs["rating_other"]]
    pairs = pairs.rename(columns={"item": "winner", "item_other": "loser"})
    return pairs[["query", "annotator", "winner", "loser"]].sample(frac=1.0, random_state=seed)


def real_data(folder: Path) -> Iterator[Data]:
    text = {"query": str, "item": str, "annotator": str, "winner": str, "loser": str}
    for name, file, more in (
        ("trec2011-task1", "ratings", {}),
        ("web-relevance", "ratings", {"relevant": 2.0}),
        ("faceage", "preferences", {"ndcg": "kappa-ndcg", "relevant": 50.0}),
    ):
        gold = pd.read_csv(folder / name / "gold.csv.gz", dtype=text)
        yield Data(name, pd.read_csv(folder / name / f"{file}.csv.gz", dtype=text), gold, **more)


def accuracy_table(data: Data, engine: LocalEngine) -> list[str]:
    """Section 6.2: every method, and whether it differs from crowd-agg."""
    names = [f"{data.ndcg}@{k}" for k in CUTS] + [f"p@{k}" for k in CUTS] + ["map", "rbp", "accuracy"]
    judgments = judgments_from_frame(data.judgments)
    rankings, seconds, failed = {}, {}, []
    for method, settings in available(data.form):
        given = judgments_from_frame(implied(data.judgments)) if method == "em-elo" else judgments
        found = fitted(given, method, settings, engine)
        rankings[label(method, settings)], seconds[label(method, settings)] = found.rankings, found.seconds
        if not found.converged:
            failed.append(label(method, settings))
        print(data.name, label(method, settings), f"{found.seconds:.2f} s", flush=True)
    comparison = compare(rankings, data.gold, names, (), data.settings)
    lines = [f"## {data.name}: {len(judgments):,} {data.form}, {len(data.gold):,} items with gold", ""]
    rows = []
    for run, one in comparison.runs.items():
        rows.append([run, *(f"{one.means[name]:.3f}" for name in names), f"{seconds[run]:.2f}"])
    lines += table(["method", *names, "CPU s"], rows)
    if failed:
        lines += ["", f"Not converged within their limits: {', '.join(failed)}."]
    if len(comparison.runs["crowd-agg"].queries) > 1:
        tests = significance(comparison, "crowd-agg").to_pylist()
        wanted = [row for row in tests if row["metric"] == f"{data.ndcg}@10"]
        lines += ["", f"Differences from crowd-agg in {data.ndcg}@10 over queries:", ""]
        rows = [
            [row["run"], f"{row['difference']:+.3f}", f"{row['p_t']:.3f}", f"{row['p_randomisation']:.3f}"]
            for row in wanted
        ]
        lines += table(["method", "difference", "p (t-test)", "p (randomisation)"], rows)
    return [*lines, ""]


def simulated(engine: LocalEngine, seeds: int) -> list[str]:
    """`simulate crowd-agg`: clean, with as many spammers again, with half as many liars again, with nine in ten."""
    crowds: dict[str, dict[str, float]] = {
        "clean": {}, "+ 100 % spammers": {"spammers": 1.0}, "+ 50 % malicious": {"malicious": 0.5},
        "+ 90 % malicious": {"malicious": 0.9},
    }  # fmt: skip
    lines = [f"## Simulated crowds, NDCG@10, mean of {seeds} seeds (`distrank simulate crowd-agg`)", ""]
    for form in ("preferences", "ratings"):
        rows = []
        for method, settings in available(form):
            values = []
            for added in crowds.values():
                found = []
                for seed in range(seeds):
                    data = simulate_crowd_agg(form=form, seed=seed, **added)
                    frame = data[form].to_pandas()
                    given = judgments_from_frame(implied(frame) if method == "em-elo" else frame)
                    ranking = fitted(given, method, settings, engine).rankings
                    found.append(evaluate(ranking, data["gold"], ["ndcg@10"]).means["ndcg@10"])
                values.append(f"{np.mean(found):.3f}")
            rows.append([label(method, settings), *values])
            print("simulated", form, rows[-1], flush=True)
        lines += [f"{form.capitalize()}:", "", *table(["method", *crowds], rows), ""]
    return lines


def equal_against_estimate(data: Data, engine: LocalEngine) -> list[str]:
    """Figure 1."""
    names = ["p@10", "map", f"{data.ndcg}@10", "rbp"]
    rows = []
    for method in QUALITY:
        for choice in ("equal", "estimate"):
            given = judgments_from_frame(implied(data.judgments) if method == "em-elo" else data.judgments)
            ranking = fitted(given, method, {"annotator_quality": choice}, engine).rankings
            means = evaluate(ranking, data.gold, names, (), data.settings).means
            rows.append([method, choice, *(f"{means[name]:.3f}" for name in names)])
    return [f"## Figure 1: annotators alike or estimated, {data.name}", "", *table(["method", "", *names], rows), ""]


def quality_divergence(engine: LocalEngine, seeds: int) -> list[str]:
    """Figure 2: KL divergence between the histograms of estimated and true quality, per query."""
    edges = np.linspace(0.0, 1.0, 11)
    rows = []
    for method in QUALITY:
        found = []
        for seed in range(seeds):
            data = simulate_crowd_agg(seed=seed, malicious=0.2, annotators=40)
            estimate = fitted(judgments_from_frame(data["preferences"]), method, {}, engine).annotators
            both = estimate.merge(data["annotators"].to_pandas(), on="annotator", suffixes=("", "_true"))
            for _, part in both.groupby(both["annotator"].str.split("-").str[0]):
                shares = [
                    (np.histogram(part[name].clip(0.0, 1.0), edges)[0] + 0.5) / (len(part) + 5.0)
                    for name in ("quality_true", "quality")
                ]
                found.append(float((shares[0] * np.log(shares[0] / shares[1])).sum()))
        rows.append([method, f"{np.mean(found):.3f}"])
    about = (
        "Per query, ten bins with half an annotator added to each; simulated preferences, 40 annotators and 8 liars."
    )
    return ["## Figure 2: KL divergence of the estimated from the true quality", "", about, "",
            *table(["method", "KL"], rows), ""]  # fmt: skip


def stress_curves(data: Data, engine: LocalEngine, repeats: int, ratios: list[float], folder: Path) -> list[str]:
    """Figures 3 and 4."""
    chosen = ("greedy-order", "condorcet", "bradley-terry", "mpm", "crowd-bt", "crowd-agg")
    methods: dict[str, dict[str, Any]] = {name: {"method": name} for name in chosen}
    methods["crowd-agg step"] = {"method": "crowd-agg", "pair_model": "step"}
    names = ("ndcg@10", "p@10", "map", "rbp")
    plan = Stress(methods, {"spammers": ratios, "malicious": ratios}, names, repeats)
    judgments, gold = judgments_from_frame(data.judgments), gold_from_frame(data.gold)
    found = stress(judgments, gold, data.gold, plan, engine, lambda entry: print(entry, flush=True), data.settings)
    charts: dict[str, dict[str, list[tuple[float, float]]]] = {"spammers": {}, "malicious": {}}
    curves = found.table.to_pylist()
    for row in curves:
        charts[row["kind"]].setdefault(row["method"], []).append((row["ratio"], row["ndcg@10"]))
    picture = folder / "crowdagg_stress.svg"
    picture.write_text(line_charts(charts, x_label="added annotators, as a share", y_label="ndcg@10"), encoding="utf-8")
    lines = [f"## Figures 3 and 4: added annotators, {data.name}, NDCG@10", "", f"![curves]({picture.name})", ""]
    for kind, title in (("spammers", "Random spammers"), ("malicious", "Malicious annotators")):
        variation = {row["method"]: row for row in found.variation.to_pylist() if row["kind"] == kind}
        rows = [
            [method, *(f"{value:.3f}" for _, value in charts[kind][method]),
             f"{variation[method]['ndcg@10']:.4f}", f"{variation[method]['rbp']:.4f}"]
            for method in methods
        ]  # fmt: skip
        head = ["method", *(f"+{ratio:.0%}" for ratio in ratios), "CV NDCG@10", "CV RBP"]
        lines += [f"{title}:", "", *table(head, rows), ""]
    return lines


def cost_table(engine: LocalEngine) -> list[str]:
    """CPU seconds against items, annotators and judgments of ratings with five grades."""
    sizes = {
        "100 queries, 190 items, 43 annotators x 10": (100, 190, 43, 10),
        "100 queries, 190 items, 43 annotators x 40": (100, 190, 43, 40),
        "1 query, 2,000 items, 200 annotators x 50": (1, 2_000, 200, 50),
        "1 query, 8,000 items, 200 annotators x 50": (1, 8_000, 200, 50),
    }
    columns: dict[str, list[str]] = {}
    for size, shape in sizes.items():
        frame = rated(*shape)
        for method, settings in available("ratings"):
            given = implied(frame) if method == "em-elo" else frame
            found = fitted(judgments_from_frame(given), method, settings, engine)
            columns.setdefault(label(method, settings), []).append(f"{found.seconds:.2f}")
            print("cost", size, label(method, settings), columns[label(method, settings)][-1], flush=True)
    rows = [[method, *values] for method, values in columns.items()]
    return ["## Cost: CPU seconds of a fit, from codes to rankings", "", *table(["method", *sizes], rows), ""]


def speed_targets(engine: LocalEngine) -> list[str]:
    """The sizes that crowd-agg must reach, wall and CPU seconds, median of three."""
    rows = []
    for name, shape, grades, limit in (
        ("100 queries x 190 items x 43 annotators, about 10 ratings each", (100, 190, 43, 10), 2, "1 s"),
        ("the same, everyone rates all items, two grades", (100, 190, 43, 190), 2, "20 s"),
        ("the same, everyone ranks all items", (100, 190, 43, 190), 100_000, "20 s"),
        ("1 query x 5,000 items, 50 annotators x 500 items", (1, 5_000, 50, 500), 100_000, "10 s"),
    ):
        judgments = judgments_from_frame(rated(*shape, grades=grades))
        clocks = []
        for _ in range(3):
            wall = time.perf_counter()
            cpu = fitted(judgments, "crowd-agg", {}, engine).seconds
            clocks.append((time.perf_counter() - wall, cpu))
        wall, cpu = np.median(clocks, axis=0)
        rows.append([name, f"{wall:.2f}", f"{cpu:.2f}", limit])
    return ["## Speed of crowd-agg", "", *table(["data", "wall s", "CPU s", "target (wall)"], rows), ""]


def crossover() -> list[str]:
    """Algorithm 1 against Algorithm 2, milliseconds per distribution."""
    rows = []
    for opponents in (100, 500, 1_000, 2_000, 4_000, 8_000, 16_000):
        lose = np.random.default_rng(0).random(opponents)
        times = []
        for algorithm in (ranks.distribution, ranks.distribution_by_halves):
            algorithm(lose)
            turns = max(1, int(5e7 / opponents**2))
            clock = time.process_time()
            for _ in range(turns):
                algorithm(lose)
            times.append(1e3 * (time.process_time() - clock) / turns)
        rows.append([f"{opponents:,}", *(f"{value:.3f}" for value in times)])
    head = ["opponents", "Algorithm 1 (direct)", "Algorithm 2 (Fourier)"]
    return ["## Rank distributions: milliseconds per item", "", *table(head, rows), "",
            f"The fit takes Algorithm 2 from {ranks.HALVES_FROM:,} judged opponents on.", ""]  # fmt: skip


def rated(queries: int, items: int, annotators: int, each: int, grades: int = 5) -> pd.DataFrame:
    """Ratings of random items with annotators of mixed noise."""
    rng = np.random.default_rng(0)
    truth, parts = rng.normal(size=(queries, items)), []
    for a in range(annotators):
        item = np.argsort(rng.random((queries, items)), axis=1)[:, :each]
        value = np.take_along_axis(truth, item, 1) + rng.uniform(0.2, 2.0) * rng.normal(size=item.shape)
        rating = np.clip((value + 2.5) / 5.0 * grades, 0, grades - 1).astype(int)
        query = np.repeat(np.arange(queries), each)
        columns = {"query": query, "annotator": a, "item": item.ravel(), "rating": rating.ravel()}
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/results/crowdagg.md"))
    parser.add_argument("--repeats", type=int, default=3, help="crowds per ratio and seeds of simulations")
    parser.add_argument("--ratios", default="0:1:0.25", help="of added annotators, as in distrank stress")
    options = parser.parse_args()
    command = f"python scripts/reproduce/crowdagg.py --repeats {options.repeats} --ratios {options.ratios}"
    lines = ["# CrowdAgg and the aggregation baselines", "", f"Command: `{command}`", ""]
    with LocalEngine(2) as engine:
        for section in sections(engine, options.repeats, options.ratios, options.out.parent):
            lines += section
            options.out.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def sections(engine: LocalEngine, repeats: int, ratios: str, folder: Path) -> Iterator[list[str]]:
    """One after the other: what was measured is written even if a later section is interrupted."""
    yield [*speed_targets(engine), *crossover()]
    place = os.environ.get("DISTRANK_DATA")
    if place is None:
        yield ["DISTRANK_DATA was not set: no real data.", ""]
    for data in real_data(Path(place)) if place else ():
        yield accuracy_table(data, engine)
        if data.name == "trec2011-task1":
            yield equal_against_estimate(data, engine)
    yield simulated(engine, repeats)
    yield quality_divergence(engine, repeats)
    if place is not None:
        yield stress_curves(next(real_data(Path(place))), engine, repeats, parse_ratios(ratios), folder)
    yield cost_table(engine)


if __name__ == "__main__":
    main()
