"""The protocol of Figure 4 of [Wang16]: rankings, and preferences sampled from the same rankings, on simulated data.

    python scripts/reproduce/rankings.py [--seeds 5] [--out docs/results/rankings.md]

25 annotators rank 10 items each of 40 queries in 3 domains. Their perceived scores are normal around the truth, with a
deviation that depends on annotator and domain; a tenth of the annotators rank upside down in a domain. `trm` and
`borda` take the rankings, `tpp` and `crowd-bt` preferences: all of them (SR 1.0), or a fifth (SR 0.2), the same for
both.

The paper's own figure is on MQ2008-agg, with ranks read in the wrong direction; it is not reproduced here.

[Wang16] Wang, Wang, Jie, Zhai, Chang: Blind men and the elephant: Thurstonian pairwise preference for ranking in
         crowdsourcing. ICDM 2016.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from distrank import TPP, TRM, Borda, CrowdBT
from distrank.evaluate import evaluate

QUERIES, ITEMS, ANNOTATORS, DOMAINS = 40, 10, 25, 3
METHODS: dict[str, Any] = {
    "borda": Borda(),
    "trm": TRM(interval=None),
    **{
        f"{name}, SR {share}": kind(sparsity=share, interval=None, **more)
        for share in (1.0, 0.2)
        for name, kind, more in (
            ("crowd-bt", CrowdBT, {}),
            ("tpp, 1 domain", TPP, {"domains": 1}),
            ("tpp, 3 domains", TPP, {"domains": 3}),
            ("tpp, 5 domains", TPP, {"domains": 5}),
        )
    },
}


def rankings(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rankings, and the true scores."""
    rng = np.random.default_rng(seed)
    noise = rng.choice([0.3, 1.0, 3.0], (ANNOTATORS, DOMAINS), p=[0.2, 0.6, 0.2])
    sign = np.where(rng.random((ANNOTATORS, DOMAINS)) < 0.1, -1.0, 1.0)
    rows, truth = [], []
    for query in range(QUERIES):
        score, domain = rng.permutation(np.cumsum(rng.random(ITEMS))), query % DOMAINS
        truth += [{"query": f"q{query:02d}", "item": f"i{i}", "relevance": score[i]} for i in range(ITEMS)]
        for k in range(ANNOTATORS):
            perceived = score + noise[k, domain] * rng.standard_normal(ITEMS)
            order = np.argsort(-sign[k, domain] * perceived)
            rows += [
                {"query": f"q{query:02d}", "annotator": f"a{k:02d}", "item": f"i{i}", "rank": place + 1}
                for place, i in enumerate(order)
            ]
    return pd.DataFrame(rows), pd.DataFrame(truth)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="write the table to this file as well")
    options = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {name: [] for name in METHODS}
    for seed in range(options.seeds):
        frame, truth = rankings(seed)
        for name, method in METHODS.items():
            result = method.fit(frame, seed=seed)
            found[name].append(dict(evaluate(result.rankings, truth, "accuracy,ndcg@2,ndcg@8").means))
    measures = list(found["borda"][0])
    lines = [
        "# Rankings, and preferences sampled from them",
        "",
        f"Made with `python scripts/reproduce/rankings.py --seeds {options.seeds}`: mean and standard deviation over",
        "seeds. `accuracy`: share of the pairs of items in the true order. `borda` and `trm` have the whole rankings;",
        "the others a share SR of their pairs, the same pairs for all.",
        "",
        "| method | " + " | ".join(measures) + " |",
        "|---" * (len(measures) + 1) + "|",
    ]
    for name, rows in found.items():
        columns = ([row[measure] for row in rows] for measure in measures)
        cells = (f"{np.mean(values):.3f} ± {np.std(values):.3f}" for values in columns)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    text = "\n".join(lines) + "\n"
    print(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
