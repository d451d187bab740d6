"""Active learning on a simulated crowd: section 5.1 of [Chen13] (Figures 2 and 3), and what the defaults rest on.

    python scripts/reproduce/active.py [--seeds 10] [--out docs/results/active.md] [--quick]

100 items, 100 annotators of quality Beta(2, 1) who report the true order of a pair with probability eta_k; every triple
is asked at most once, ties are broken at random. The prior is Beta(10, 1), N(0, 1) for scores.

[Chen13] Chen, Bennett, Collins-Thompson, Horvitz: Pairwise ranking aggregation in a crowdsourced setting. WSDM 2013.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from distrank.active.batch import BatchSettings, Beliefs, choose_batch, even_limit
from distrank.active.play import Played, PlaySettings, learning_area, play

AFTER = (500, 1000, 1500, 2000, 3000)
POLICIES: dict[str, dict[str, Any]] = {
    "random": {"policy": "random"},
    "gamma 0": {"gamma": 0.0},
    "gamma 1": {"gamma": 1.0},
    "gamma 5": {"gamma": 5.0},
    "gamma 30": {"gamma": 30.0},
}
LOOP = {"gamma": 0.0, "batch": 50, "per_annotator": 2, "refit_every": 50}  # aggregate, next, ask, aggregate, ...
BEST = LOOP | {"epsilon": 0.2}
REFERENCE = {  # means of an independent implementation, 5 seeds, after 500, 1000, 2000, 3000 answers
    "random": (0.691, 0.746, 0.800, 0.838),
    "gamma 0": (0.727, 0.862, 0.943, 0.974),
    "gamma 1": (0.719, 0.807, 0.894, 0.960),
    "gamma 5": (0.697, 0.760, 0.860, 0.894),
    "gamma 30": (0.626, 0.645, 0.660, 0.660),
}
VARIANTS: dict[str, dict[str, Any]] = {
    "the loop: gamma 0, batches of 50, at most 2 to one annotator, a batch fit after each": LOOP,
    "without batch fits": LOOP | {"refit_every": 0},
    "gamma 1": LOOP | {"gamma": 1.0},
    "gamma 5": LOOP | {"gamma": 5.0},
    "gamma 5, halved after every quarter": LOOP | {"gamma": 5.0, "gamma_decay": True},
    "at most 1 to one annotator": LOOP | {"per_annotator": 1},
    "at most 5 to one annotator": LOOP | {"per_annotator": 5},
    "no limit by annotator": LOOP | {"per_annotator": None},
    "batches of 25, at most 1": LOOP | {"batch": 25, "per_annotator": 1, "refit_every": 25},
    "batches of 100, at most 4": LOOP | {"batch": 100, "per_annotator": 4, "refit_every": 100},
    "batches of 200, at most 8": LOOP | {"batch": 200, "per_annotator": 8, "refit_every": 200},
    "batch fits of maximum likelihood, without the Beta(3, 2) prior": LOOP | {"refit_prior": None},
    "10 % at random": LOOP | {"epsilon": 0.1},
    "20 % at random": BEST,
    "40 % at random": LOOP | {"epsilon": 0.4},
}
MEAN_QUALITY = {(2, 1): 0.667, (4, 1): 0.800, (9, 1): 0.900, (19, 1): 0.950}
FIGURE_3 = (0.0, 1.0, 5.0, 10.0)
SCALE = (1, 1_000, 30_000)  # queries that 100,000 items are spread over


def games(settings: Iterable[dict[str, Any]], after: tuple[int, ...], *, refits: bool) -> list[Played]:
    with ThreadPoolExecutor(2) as pool:  # kernels release the GIL
        made = [PlaySettings(**{"answers": after[-1], **values}) for values in settings]
        return list(pool.map(lambda one: play(one, after, refits=refits), made))


def cell(values: Any, reference: float | None = None) -> str:
    beside = f" ({reference:.3f})" if reference is not None else ""
    return f"{np.mean(values):.3f} ± {np.std(values):.3f}{beside}"


def learning_curves(seeds: int, after: tuple[int, ...]) -> tuple[list[str], dict[str, Any]]:
    lines = [
        f"| choice | answers | {' | '.join(str(count) for count in after)} |",
        "|---|---" + "|---" * len(after) + "|",
    ]
    found = {}
    for name, values in (POLICIES | {"the loop, 20 % at random": BEST}).items():
        played = games([{**values, "seed": seed} for seed in range(seeds)], after, refits=True)
        online, fitted = (np.array([getattr(game, part) for game in played]) for part in ("accuracy", "refitted"))
        known = dict(zip((500, 1000, 2000, 3000), REFERENCE.get(name, ()), strict=False))
        if name in POLICIES:
            cells = [cell(online[:, n], known.get(count)) for n, count in enumerate(after)]
            lines.append(f"| {name} | online | {' | '.join(cells)} |")
        lines.append(f"| {name} | batch fit | {' | '.join(cell(fitted[:, n]) for n in range(len(after)))} |")
        found[name] = (online, fitted)
    return lines, found


def a_third(found: dict[str, Any], after: tuple[int, ...]) -> list[str]:
    """Whether the best choice is, after a third of the answers, where random is at the end."""
    last = after[-1]
    third = max(n for n, count in enumerate(after) if 3 * count <= last)
    goal, fitted_goal = found["random"][0][:, -1].mean(), found["random"][1][:, -1].mean()
    name, best = max(
        ((name, max(online[:, third].mean(), fitted[:, third].mean())) for name, (online, fitted) in found.items()),
        key=lambda pair: pair[1],
    )
    verdict = "reached" if best >= goal else "NOT reached"
    text = (
        f"Random choice has {goal:.3f} after {last:,} answers (online). The best choice here, {name}, has {best:.3f} "
        f"after {after[third]:,}: {verdict} with a third of the answers. A batch fit on the random answers has "
        f"{fitted_goal:.3f} at {last:,}."
    )
    return [text]


def figure_3(seeds: int, answers: int) -> list[str]:
    after = tuple(range(answers // 10, answers + 1, answers // 10))
    lines = []
    for title, prior in (("prior Beta(10, 1)", {}), ("prior from 5 gold pairs", {"gold_pairs": 5})):
        lines += ["", f"{title}:", "", f"| mean quality | {' | '.join(f'gamma {g:g}' for g in FIGURE_3)} | random |"]
        lines.append("|---" * (len(FIGURE_3) + 2) + "|")
        for (a, b), mean in MEAN_QUALITY.items():
            cells = []
            for values in [*({"gamma": gamma} for gamma in FIGURE_3), {"policy": "random"}]:
                crowd = {**values, **prior, "quality": f"beta:{a},{b}"}
                played = games([{**crowd, "seed": seed} for seed in range(seeds)], after, refits=False)
                cells.append(cell([learning_area(game.after, game.accuracy) for game in played]))
            lines.append(f"| {mean:.3f} | {' | '.join(cells)} |")
    return lines


def variants(seeds: int, after: tuple[int, ...]) -> list[str]:
    lines = [f"| variant | {' | '.join(f'{n} | worst' for n in after)} |", "|---" + "|---|---" * len(after) + "|"]
    for name, values in VARIANTS.items():
        played = games([{**values, "seed": seed} for seed in range(seeds)], after, refits=True)
        fitted = np.array([game.refitted for game in played])
        cells = [f"{fitted[:, n].mean():.3f} | {fitted[:, n].min():.3f}" for n in range(len(after))]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def scale(budgets: tuple[int, ...], items: int) -> list[str]:
    lines = [
        "| items | queries | annotators | gamma | budget | CPU seconds | exact | within | items asked about |",
        "|---" * 9 + "|",
    ]
    rng = np.random.default_rng(0)
    for queries in (min(queries, items // 3) for queries in SCALE):
        for gamma in (0.0, 5.0):
            for budget in budgets:
                scores = np.column_stack([rng.normal(0.0, 1.5, items), rng.gamma(5.0, 0.04, items)])
                crowd = np.column_stack([rng.gamma(5.0, 3.0, 1000) + 1.0, rng.gamma(2.0, 2.0, 1000) + 0.5])
                beliefs = Beliefs(scores, np.linspace(0, items, queries + 1).astype(int), crowd)
                clock = time.process_time()
                settings = BatchSettings(gamma=gamma, per_annotator=even_limit(budget, 1000))
                batch = choose_batch(beliefs, budget, settings)
                seconds = time.process_time() - clock
                exact = np.mean(batch.tolerance < 1e-8)
                asked = len(np.unique(np.concatenate([batch.first, batch.second])))
                lines.append(
                    f"| {items:,} | {queries:,} | 1,000 | {gamma:g} | {budget:,} | {seconds:.1f} | {exact:.0%} | "
                    f"{batch.tolerance.max():.1%} | {asked:,} |"
                )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="crowds of Figure 2; half and a third of it elsewhere")
    parser.add_argument("--out", type=Path, help="write the tables to this file as well")
    parser.add_argument("--quick", action="store_true", help="two seeds and few answers: only to see that it runs")
    options = parser.parse_args()
    seeds, few, fewer = (2, 1, 1) if options.quick else (options.seeds, options.seeds // 2, options.seeds // 3)
    after = (50, 150) if options.quick else AFTER
    choose_batch(Beliefs(np.tile([0.0, 1.0], (4, 1)), np.array([0, 4]), np.tile([10.0, 1.0], (3, 1))), 2)  # compile
    command = f"python scripts/reproduce/active.py --seeds {options.seeds}"
    curves, found = learning_curves(seeds, after)
    lines = [
        "# What to ask next: active learning on a simulated crowd",
        "",
        f"Made with `{command}`. Pair accuracy (equation 20): mean and",
        "standard deviation over crowds; in brackets the mean of an independent reference over 5 crowds.",
        "",
        "## Figure 2: accuracy by answers, prior Beta(10, 1), quality Beta(2, 1)",
        "",
        *curves,
        "",
        *a_third(found, after),
        "",
        "`online` ranks by the means of the online updates; `batch fit` by crowd-bt on the same answers, started from",
        "the online quality, with a Beta(3, 2) prior on quality. Chosen one by one with the paper's rule, questions go",
        "to a few annotators who confirm themselves: if the first ones that the beliefs come to trust are bad, the",
        "whole ranking follows them (see the standard deviations). The loop of the last row (`distrank aggregate`,",
        "`distrank next`, ask, again) asks 50 questions at a time, at most 2 to one annotator, 20 % of them at random,",
        "and takes its beliefs from a batch fit on all answers after each batch.",
        "",
        f"## Figure 3: area under the learning curve by gamma and mean quality ({fewer} crowds)",
        *figure_3(fewer, 100 if options.quick else 1000),
        "",
        "The curve is that of the online means, up to 1,000 answers, one question at a time.",
        "",
        f"## What the defaults rest on ({few} crowds)",
        "",
        "Accuracy of the batch fit after so many answers, and its worst crowd. Every line changes the loop as it says.",
        "",
        *variants(few, (50, 150) if options.quick else (500, 1000, 2000)),
        "",
        "## Large runs: how long a batch takes to choose",
        "",
        "`exact`: share of questions that are the best one left; `within`: what the others are certified to be within.",
        "",
        *scale((20,) if options.quick else (500, 5000), 300 if options.quick else 100_000),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.out is not None:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
