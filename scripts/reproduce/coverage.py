"""How often the intervals contain the truth, by simulation, and what they cost.

    python scripts/reproduce/coverage.py [--seeds 40] [--out docs/results/coverage.md]

Crowds are those of `distrank simulate crowd-bt --law model`: scores N(0, 1), quality from a Beta law, judgments by
equation 5 of [Chen13]. An item counts as covered if its true score, as a distance from the mean of its query, lies in
the interval of its score as a distance from that mean; if its true rank among the items of the query lies within the
bounds; an annotator if the true quality lies in the interval. A share is the mean over seeds, with its standard error.

crowd-bt is also fitted with `quality_prior` at the law that qualities come from: what an interval can promise where an
annotator has twenty judgments depends on what is believed of annotators before the first.

Cost is the time of a fit with intervals over that without, minus one, in CPU seconds on shards in memory.

[Chen13] Chen, Bennett, Collins-Thompson, Horvitz: Pairwise ranking aggregation in a crowdsourced setting. WSDM 2013.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from distrank.contract import Model
from distrank.engine.base import Placement, Report
from distrank.engine.local import LocalEngine
from distrank.fit import fit
from distrank.models import make_model
from distrank.runs import Stages, annotators_of, fit_judgments
from distrank.simulate import CrowdBTSimulation, crowd_bt_codes, simulate_crowd_bt
from distrank.tables.read import judgments_from_frame
from distrank.tables.shards import build_shards

LEVEL = 0.9
DESIGNS = {
    "4,000 judgments of 400 pairs": {"items": 100, "annotators": 100, "pairs": 400, "annotators_per_pair": 10},
    "4,000 judgments of random pairs": {"items": 100, "annotators": 100, "judgments": 4000},
    "sparse: 1,000 judgments by 50": {"items": 100, "annotators": 50, "judgments": 1000},
    "40,000 judgments": {"items": 100, "annotators": 100, "judgments": 40_000},
    "30 queries of 10 items, 3,000 judgments by 30": {
        "queries": 30,
        "items": 10,
        "annotators": 30,
        "judgments": 3000,
    },
    "1,000 items, 40,000 judgments by 200": {"items": 1000, "annotators": 200, "judgments": 40_000},
}
QUALITIES = ("5,1", "2,1")
METHODS: dict[str, tuple[str, bool]] = {  # name -> method, whether the prior is the law of the qualities
    "crowd-bt": ("crowd-bt", False),
    "crowd-bt, matching quality_prior": ("crowd-bt", True),
    "crowd-bt-online, matching quality_prior": ("crowd-bt-online", True),
}
COSTS = {
    "1,000 items, 1,000 annotators, one query": {"items": 1000, "annotators": 1000},
    "20 queries of 500 items, 1,000 annotators": {"queries": 20, "items": 500, "annotators": 1000},
    "2,000 queries of 50 items, 2,000 annotators": {"queries": 2000, "items": 50, "annotators": 2000},
    "100,000 queries of 10 items, 2,000 annotators": {"queries": 100_000, "items": 10, "annotators": 2000},
}


def coverage(method: str, settings: dict[str, Any], design: dict[str, Any], seed: int) -> tuple[float, float, float]:
    """Shares of covered scores, ranks and qualities (NaN where quality is no parameter) of one simulated crowd."""
    simulated = simulate_crowd_bt(law="model", seed=seed, **design)
    rankings, annotators = fitted(make_model(method, {"interval": LEVEL, **settings}), simulated["preferences"])
    items = rankings.merge(simulated["gold"].to_pandas(), on=["query", "item"])
    queries = items.groupby("query")
    truth = items["relevance"] - queries["relevance"].transform("mean") + queries["score"].transform("mean")
    scores = truth.between(items["score_low"], items["score_high"]).mean()
    rank = queries["relevance"].rank(ascending=False)
    ranks = rank.between(items["rank_low"], items["rank_high"]).mean()
    if method not in ("crowd-bt", "crowd-bt-online"):
        return scores, ranks, float("nan")
    known = annotators.merge(simulated["annotators"].to_pandas(), on="annotator", suffixes=("", "_true"))
    quality = known["quality_true"].between(known["quality_low"], known["quality_high"]).mean()
    return scores, ranks, quality


def fitted(model: Model, preferences: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables of a fit."""
    with LocalEngine(1) as engine:
        judgments = judgments_from_frame(preferences)
        sharded, result = fit_judgments(judgments, None, model, engine, Stages(lambda _: None), seed=0)
    if not result.converged:
        raise RuntimeError("a fit did not converge; its coverage is not reported")
    rankings = pd.concat([part["rankings"].to_pandas() for part in result.results])
    return rankings, annotators_of(sharded, model, result).to_pandas()


def shown(values: Any) -> str:
    values = np.asarray(values)
    if np.isnan(values).all():
        return "-"
    return f"{values.mean():.3f} ± {values.std() / np.sqrt(len(values)):.3f}"


def coverage_table(seeds: int) -> list[str]:
    lines = ["| design | quality | method | scores | ranks | quality |", "|---|---|---|---|---|---|"]
    for name, design in DESIGNS.items():
        for law in QUALITIES:
            for title, (method, matching) in METHODS.items():
                settings = {"quality_prior": law} if matching else {}
                found = [
                    coverage(method, settings, {**design, "quality": f"beta:{law}"}, seed) for seed in range(seeds)
                ]
                cells = " | ".join(shown([entry[place] for entry in found]) for place in range(3))
                lines.append(f"| {name} | Beta({law}) | {title} | {cells} |")
                print(lines[-1], flush=True)
    for method in ("bradley-terry", "trueskill"):
        for name, design in DESIGNS.items():
            found = [coverage(method, {}, {**design, "quality": "fixed:1"}, seed) for seed in range(seeds)]
            cells = " | ".join(shown([entry[place] for entry in found]) for place in range(3))
            lines.append(f"| {name} | 1 for all | {method} | {cells} |")
            print(lines[-1], flush=True)
    return lines


def seconds(method: str, settings: dict[str, Any], judgments: Any, repeats: int = 3) -> float:
    """CPU seconds of a fit on shards in memory."""
    model = make_model(method, settings)
    sharded = build_shards(judgments, form=model.form, unit=model.unit, split=model.split)

    def main(placement: Placement, report: Report) -> float:
        begin = time.process_time()
        fit(placement, report, model=model, info=sharded.info)
        return time.process_time() - begin

    with LocalEngine(2) as engine:
        times = [engine.execute(main, sharded.source, model, lambda _: None) for _ in range(repeats + 1)]
    return float(np.median(times[1:]))  # the first one compiles


def cost_table(rows: int) -> list[str]:
    lines = ["| design | method | fit, CPU s | intervals, CPU s | intervals / fit |", "|---|---|---|---|---|"]
    for name, design in COSTS.items():
        codes = crowd_bt_codes(CrowdBTSimulation(**design, judgments=rows, law="model", ids="int"))
        columns = ("query", "annotator", "winner", "loser")
        judgments = judgments_from_frame(pd.DataFrame({column: getattr(codes, column) for column in columns}))
        for method in ("bradley-terry", "crowd-bt"):
            plain = seconds(method, {"interval": None}, judgments)
            more = seconds(method, {}, judgments) - plain
            lines.append(f"| {name} | {method} | {plain:.3f} | {more:.3f} | {more / plain:.2f} |")
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--rows", type=int, default=1_000_000, help="preferences of the cost table")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    command = f"python scripts/reproduce/coverage.py --seeds {options.seeds} --out docs/results/coverage.md"
    costs = cost_table(options.rows)
    lines = [
        "# Coverage and cost of intervals",
        "",
        f"Made with `{command}`. What is counted is in the script's docstring.",
        "",
        f"## Share of intervals of level {LEVEL:g} that contain the truth, {options.seeds} seeds",
        "",
        "The aim is 0.86 to 0.94 for scores and quality; ranks are whole numbers, so theirs may be higher.",
        "",
        *coverage_table(options.seeds),
        "",
        NOTES,
        "",
        f"## Cost, {options.rows:,} preferences",
        "",
        "The aim is at most 3 fits.",
        "",
        *costs,
    ]
    if options.out is not None:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


NOTES = """\
The intervals of scores are those of a normal posterior at the penalised estimate, whose virtual games are a weaker
belief than the N(0, 1) of the simulation; with few judgments per item they are therefore rather too wide. Without a
prior, qualities of annotators with some twenty judgments are covered too rarely: a flat belief cannot know that
qualities near 1 are common. Ranks of sparse designs are covered too rarely, because estimates spread farther than true
scores do and the extreme ones look more certain of their end of the ranking than they are. The online methods report
the deviations that their own updates end with; nothing in them was adjusted here. trueskill's scale is not that of the
simulation (its judgments follow a normal law with its own noise), so its scores are not comparable with the true ones,
only its ranks are."""


if __name__ == "__main__":
    main()
