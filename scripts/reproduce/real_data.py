"""Real crowds: every pairwise method on faceage and crowdrag25.

    DISTRANK_DATA=... python scripts/reproduce/real_data.py [--out docs/results/real_data.md]

faceage      which of two faces is older; the truth is the age. Pair accuracy and Kendall's tau-b against it.
crowdrag25   which of two answers is better; there is no truth. Held out is what can be measured: the share of judgments
             of a fifth of the data that agree with the order found on the rest, over five folds. Ties are left out, and
             equal scores count half.

Intervals are the mean of score_high - score_low, divided by the standard deviation of the scores so that methods can be
compared, where a method gives them. Methods that read judgments in time order read them as they are in the file.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from distrank import BradleyTerry, CrowdBT, CrowdBTOnline, MajorityBT, Result, Thurstone, TrueSkill, VarianceBT
from distrank.evaluate import evaluate

METHODS: dict[str, Any] = {
    "bradley-terry": BradleyTerry(),
    "crowd-bt": CrowdBT(),
    "crowd-bt, quality_prior=4,2": CrowdBT(quality_prior=(4, 2)),
    "crowd-bt, quality_prior=5,1": CrowdBT(quality_prior=(5, 1)),
    "variance-bt": VarianceBT(),
    "thurstone": Thurstone(),
    "majority-bt": MajorityBT(),
    "trueskill": TrueSkill(),
    "crowd-bt-online": CrowdBTOnline(),
}
FOLDS = 5
REPEATS = 3


def table(folder: Path, name: str) -> pd.DataFrame:
    frame = pd.read_csv(folder / f"{name}.csv.gz", dtype=str)
    if "tie" in frame:
        frame["tie"] = frame["tie"] == "1"
    return frame


def fitted(method: Any, preferences: pd.DataFrame) -> tuple[Result, float]:
    """The result, and the median seconds of a fit."""
    seconds = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        result = method.fit(preferences)
        seconds.append(time.perf_counter() - begin)
    return result, statistics.median(seconds)


def held_out(method: Any, preferences: pd.DataFrame) -> float:
    """The share of held-out judgments, ties left out, whose winner is above its loser; of pairs with known items."""
    fold = np.random.default_rng(0).permutation(len(preferences)) % FOLDS
    agreed, total = 0.0, 0
    for left_out in range(FOLDS):
        scores = method.fit(preferences[fold != left_out]).rankings.set_index(["query", "item"])["score"]
        judged = preferences[fold == left_out]
        judged = judged[~judged["tie"]] if "tie" in judged else judged
        sides = [
            scores.reindex(pd.MultiIndex.from_frame(judged[["query", side]])).to_numpy() for side in ("winner", "loser")
        ]
        known = ~np.isnan(sides[0] + sides[1])
        agreed += float(np.where(sides[0] == sides[1], 0.5, sides[0] > sides[1])[known].sum())
        total += int(known.sum())
    return agreed / total


def width(result: Result) -> str:
    if "score_low" not in result.rankings:
        return "none"
    rankings = result.rankings
    return f"{(rankings['score_high'] - rankings['score_low']).mean() / rankings['score'].std():.2f}"


def perfect(result: Result) -> str:
    """The share of annotators whose quality is 1 for all that can be told."""
    return f"{(result.annotators['quality'] > 0.995).mean():.0%}"


def section(name: str, preferences: pd.DataFrame, gold: pd.DataFrame | None) -> list[str]:
    pairs = [preferences[["query", side]].set_axis(["query", "item"], axis=1) for side in ("winner", "loser")]
    counts = {
        "preferences": len(preferences),
        "items": len(pd.concat(pairs).drop_duplicates()),
        "annotators": preferences["annotator"].nunique(),
        "queries": preferences["query"].nunique(),
    }
    truth = ["accuracy", "kendall"] if gold is not None else []
    columns = ["method", *truth, "held out", "seconds", "converged", "width of intervals / sd", "quality above 0.995"]
    lines = [
        f"## {name}: {', '.join(f'{count:,} {kind}' for kind, count in counts.items())}",
        "",
        f"| {' | '.join(columns)} |",
        "|---" * len(columns) + "|",
    ]
    for title, method in METHODS.items():
        result, seconds = fitted(method, preferences)
        values = list(evaluate(result.rankings, gold, truth).means.values()) if gold is not None else []
        cells = [f"{value:.4f}" for value in [*values, held_out(method, preferences)]]
        state = "yes" if result.converged else "NO"
        lines.append(
            f"| {title} | {' | '.join(cells)} | {seconds:.2f} | {state} | {width(result)} | {perfect(result)} |"
        )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the tables to this file as well")
    options = parser.parse_args()
    if "DISTRANK_DATA" not in os.environ:
        sys.stderr.write("DISTRANK_DATA names no folder with faceage and crowdrag25: nothing was measured\n")
        return 0
    data = Path(os.environ["DISTRANK_DATA"])
    gold = table(data / "faceage", "gold").astype({"relevance": float})
    lines = [
        "# Pairwise methods on real crowds",
        "",
        "Made with `DISTRANK_DATA=... python scripts/reproduce/real_data.py`; its docstring says what the columns are.",
        f"Seconds are the median of {REPEATS} fits from a DataFrame, with reading and tables.",
        "",
        *section("faceage", table(data / "faceage", "preferences"), gold),
        "",
        *section("crowdrag25", table(data / "crowdrag25", "preferences"), None),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.out is not None:
        options.out.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
