"""`distrank score`: what a learned ranker says about items."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from distrank.cli.options import add_output_options
from distrank.cli.terminal import print_json, say

_HELP = """\
Score items with the ranker of a run of `distrank learn` or `distrank remap`.

  distrank score out/ --features new.parquet --out scores.parquet
  distrank score out/ --features test.svm.gz --out scores.csv
  distrank evaluate scores.csv --gold test_gold.csv --metrics ndcg@10

Writes `query, item, rank, score`, best first within every query. The features must have the columns that the ranker was
learned from; others are ignored. A name that ends in .csv is written as CSV.
"""


def register(commands: Any) -> None:
    parser = commands.add_parser(
        "score",
        help="rank items with a learned ranker",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", metavar="RUN", help="an output folder (its latest run), a run folder, or a run id")
    parser.add_argument("--features", required=True, metavar="FILE", help="features of the items: a table, or SVMlight")
    parser.add_argument("--out", type=Path, default=Path("scores.parquet"), help="default scores.parquet")
    add_output_options(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    from distrank.rankers import open_ranker, scored
    from distrank.store.publish import resolve_run
    from distrank.tables.export import write_scores
    from distrank.tables.features import read_features

    ranker = open_ranker(resolve_run(options.run))
    table = scored(ranker, read_features(options.features))
    write_scores(options.out, table)
    queries = len(table["query"].unique())
    if options.json:
        print_json({"path": str(options.out), "rows": table.num_rows, "queries": queries})
    elif not options.quiet:
        say(f"{options.out}: {table.num_rows:,} items of {queries:,} queries")
    return 0
