"""Does a Beta prior on quality help where annotators judge little?  (crowd-bt, setting quality_prior)

    python scripts/reproduce/quality_prior.py [--seeds 10] [--out docs/results/quality_prior.md]

Every prior is tried on crowds from sparse to dense. One prior is chosen on seeds 1000, 1001, ... (the best mean
accuracy over the sparse crowds) and judged on seeds 0, 1, ...: what is reported was not seen when choosing.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from distrank import CrowdBT
from distrank.evaluate import evaluate
from distrank.simulate import simulate_crowd_bt

PRIORS = (None, (2, 1), (4, 2), (5, 1), (10, 1), (10, 4))
SIZES = {  # name -> settings; judgments per annotator on average
    "2 each": {"items": 100, "annotators": 2000, "judgments": 4000},
    "5 each": {"items": 100, "annotators": 800, "judgments": 4000},
    "10 each": {"items": 100, "annotators": 400, "judgments": 4000},
    "40 each (the paper's)": {"items": 100, "annotators": 100, "judgments": 4000},
}
SPARSE = list(SIZES)[:3]
CROWDS = {
    "Beta(5, 1)": {"quality": "beta:5,1"},
    "Beta(2, 1)": {"quality": "beta:2,1"},
    "Beta(5, 1), 20 % lie": {"quality": "beta:5,1", "malicious": 0.2},
}
CHOOSING = 1000
FIGURES = ("accuracy", "error of quality", "called perfect")


def figures(size: str, crowd: str, law: str, seed: int) -> np.ndarray:
    """By prior: pair accuracy, mean absolute error of quality, share of annotators with quality above 0.995."""
    simulated = simulate_crowd_bt(**SIZES[size], **CROWDS[crowd], law=law, seed=seed)
    truth = simulated["annotators"].to_pandas().set_index("annotator")["quality"]
    rows = []
    for prior in PRIORS:
        settings: dict[str, Any] = {} if prior is None else {"quality_prior": prior}
        result = CrowdBT(**settings).fit(simulated["preferences"])
        found = result.annotators.set_index("annotator")["quality"]
        error = (found - truth.loc[found.index]).abs().mean()
        accuracy = evaluate(result.rankings, simulated["gold"], "accuracy").means["accuracy"]
        rows.append([accuracy, error, (found > 0.995).mean()])
    return np.array(rows)


def measured(seeds: range, law: str) -> dict[tuple[str, str], np.ndarray]:
    """Means over seeds by size and crowd."""
    return {
        (size, crowd): np.mean([figures(size, crowd, law, seed) for seed in seeds], axis=0)
        for size in SIZES
        for crowd in CROWDS
    }


def chosen(found: dict[tuple[str, str], np.ndarray]) -> int:
    """The number of the prior with the best mean accuracy over the sparse crowds."""
    sparse = np.mean([values[:, 0] for (size, _), values in found.items() if size in SPARSE], axis=0)
    return int(sparse.argmax())


def shown(prior: tuple[int, int] | None) -> str:
    return "none" if prior is None else f"{prior[0]},{prior[1]}"


def tables(found: dict[tuple[str, str], np.ndarray]) -> list[str]:
    lines = []
    for place, figure in enumerate(FIGURES):
        names = " | ".join(shown(prior) for prior in PRIORS)
        lines += ["", f"{figure.capitalize()}, by `quality_prior`:", "", f"| judgments | crowd | {names} |"]
        lines.append("|---" * (len(PRIORS) + 2) + "|")
        for (size, crowd), values in found.items():
            lines.append(f"| {size} | {crowd} | {' | '.join(f'{value:.3f}' for value in values[:, place])} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, help="write the tables to this file as well")
    options = parser.parse_args()
    lines = [
        "# A Beta prior on quality, where annotators judge little",
        "",
        f"Made with `python scripts/reproduce/quality_prior.py --seeds {options.seeds}`: crowd-bt and `quality_prior`,",
        f"4,000 judgments of 100 items, means over {options.seeds} seeds.",
    ]
    for law in ("truth", "model"):
        choice = chosen(measured(range(CHOOSING, CHOOSING + options.seeds), law))
        found = measured(range(options.seeds), law)
        gain = np.mean([v[choice, :] - v[0, :] for (size, _), v in found.items() if size in SPARSE], axis=0)
        dense = np.mean([v[choice, :] - v[0, :] for (size, _), v in found.items() if size not in SPARSE], axis=0)
        lines += [
            "",
            f"## law={law}",
            "",
            f"Chosen on other seeds, by accuracy over the sparse crowds: **{shown(PRIORS[choice])}**. On these seeds,",
            f"against no prior: accuracy {gain[0]:+.4f} and error of quality {gain[1]:+.4f} on the sparse crowds,",
            f"{dense[0]:+.4f} and {dense[1]:+.4f} at 40 judgments each.",
            *tables(found),
        ]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.out is not None:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
