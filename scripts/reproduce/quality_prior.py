"""Does a Beta prior on quality help where annotators judge little?  (crowd-bt, setting quality_prior)

    python scripts/reproduce/quality_prior.py [--seeds 10] [--out docs/results/quality_prior.md]

Every prior is tried on crowds from sparse to dense. One prior is chosen on seeds 1000, 1001, ... and judged on seeds
0, 1, ...: what is reported had no say in the choice. Chosen is the best mean accuracy over the sparse crowds of both
laws, among the priors that lose no more than LOSS of it to no prior on any crowd, dense ones included.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from distrank import CrowdBT
from distrank.evaluate import evaluate
from distrank.simulate import simulate_crowd_bt

PRIORS = (None, (2, 1), (3, 1.5), (4, 2), (6, 3), (5, 1), (10, 1), (10, 4))
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
LAWS = ("truth", "model")
CHOOSING = 1000
LOSS = 0.005
FIGURES = ("accuracy", "error of quality", "called perfect")
Found = dict[tuple[str, str, str], np.ndarray]  # by law, size and crowd: figures by prior


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


def measured(seeds: range) -> Found:
    """Means over seeds."""
    return {
        (law, size, crowd): np.mean([figures(size, crowd, law, seed) for seed in seeds], axis=0)
        for law in LAWS
        for size in SIZES
        for crowd in CROWDS
    }


def mean_over(found: Found, *, sparse: bool, law: str | None = None) -> np.ndarray:
    """Figures by prior, over the sparse crowds or the others."""
    return np.mean(
        [values for (of_law, size, _), values in found.items() if (size in SPARSE) == sparse and law in (None, of_law)],
        axis=0,
    )


def chosen(found: Found) -> int:
    """The number of the prior that a default should have."""
    changes = np.array([values[:, 0] - values[0, 0] for values in found.values()])
    return int(np.where(changes.min(axis=0) >= -LOSS, mean_over(found, sparse=True)[:, 0], -np.inf).argmax())


def shown(prior: tuple[float, float] | None) -> str:
    return "none" if prior is None else f"{prior[0]:g},{prior[1]:g}"


def tables(found: Found, law: str) -> list[str]:
    lines = [f"## law={law}"]
    names = " | ".join(shown(prior) for prior in PRIORS)
    for place, figure in enumerate(FIGURES[:2]):
        lines += ["", f"{figure.capitalize()}, by `quality_prior`:", "", f"| judgments | crowd | {names} |"]
        lines.append("|---" * (len(PRIORS) + 2) + "|")
        for (of_law, size, crowd), values in found.items():
            if of_law == law:
                lines.append(f"| {size} | {crowd} | {' | '.join(f'{value:.3f}' for value in values[:, place])} |")
    return [*lines, ""]


def verdict(found: Found, choice: int) -> list[str]:
    """What the chosen prior does to every figure, on seeds that did not choose it."""
    lines = ["| crowds | law | " + " | ".join(f"{figure}: none, {shown(PRIORS[choice])}" for figure in FIGURES) + " |"]
    lines.append("|---" * (len(FIGURES) + 2) + "|")
    for sparse in (True, False):
        for law in LAWS:
            means = mean_over(found, sparse=sparse, law=law)
            cells = [f"{none:.3f}, {with_prior:.3f}" for none, with_prior in zip(means[0], means[choice], strict=True)]
            lines.append(f"| {'2 to 10 each' if sparse else '40 each'} | {law} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, help="write the tables to this file as well")
    options = parser.parse_args()
    choice = chosen(measured(range(CHOOSING, CHOOSING + options.seeds)))
    found = measured(range(options.seeds))
    lines = [
        "# A Beta prior on quality, where annotators judge little",
        "",
        f"Made with `python scripts/reproduce/quality_prior.py --seeds {options.seeds}`: crowd-bt and `quality_prior`,",
        f"4,000 judgments of 100 items, means over {options.seeds} seeds. `Called perfect` is the share of annotators",
        "with an estimated quality above 0.995.",
        "",
        "Chosen on other seeds, by accuracy over the crowds with 2 to 10 judgments each, among those that lose no more",
        f"than {LOSS} on any crowd: **{shown(PRIORS[choice])}** (on these seeds: {shown(PRIORS[chosen(found)])}).",
        "Against no prior:",
        "",
        *verdict(found, choice),
        "",
        *(line for law in LAWS for line in tables(found, law)),
    ]
    text = "\n".join(lines).rstrip() + "\n"
    print(text)
    if options.out is not None:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
