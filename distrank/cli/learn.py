"""`distrank learn`: judgments and features in, a published run with a ranker out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from distrank.cli.aggregate import tell
from distrank.cli.options import add_input_options, add_output_options, add_run_options, parse_columns, parse_set
from distrank.cli.terminal import Reporter

_HELP = """\
Learn a ranker from rankings that a crowd gave, together with the true rankings and the expertise of every annotator.

  distrank learn rankings.csv --features documents.parquet --out out/
  distrank learn rankings/ --features train.svm.gz --method ltrma --set w_step=expectation --out out/
  distrank learn rankings.parquet --features docs.parquet --set top_k=10 --out out/       lists that stop at ten
  distrank learn rankings.csv --features docs.csv --gold known.csv --annotator-info people.csv --out out/
  distrank score out/ --features new.parquet --out scores.parquet                         use the ranker

The rankings are `query, annotator, item, rank` (1 is best). The features are `query, item` and numbers, or an
SVMlight/LETOR file; every judged item needs them, and a query's items are all that the features list. Gold are rankings
that are known to be true, of some queries or of some items of them. Annotator info are statements about expertise
(theta; lower is better, 0 guesses): `annotator, kind, value, low, high, other, confidence` with kind known (theta is
value), range (within low and high) or better_than (better than other).

Methods: ltrma (all at once), ltrma-d (aggregate, then learn), listmle (from gold), lregma (regression on ranks);
`distrank methods NAME` lists the settings of one. Exit codes: 0 fine, 1 error, 2 usage, 3 published but not converged.
"""


def register(commands: Any) -> None:
    parser = commands.add_parser(
        "learn",
        help="a ranker from crowd rankings and features",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_input_options(parser)
    parser.add_argument("--features", required=True, metavar="FILE", help="features of the items: a table, or SVMlight")
    parser.add_argument("--annotator-info", metavar="FILE", help="what is known about annotators")
    parser.add_argument("--method", default="ltrma", help="see `distrank methods` (default ltrma)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="output folder (default out/)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the method")
    parser.add_argument("--settings", metavar="FILE", help="settings in a YAML file; --set goes before it")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same bytes (default 0)")
    add_run_options(parser)
    add_output_options(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    from distrank.engine.choose import open_engine
    from distrank.runs import Request, aggregate

    request = Request(
        source=options.judgments,
        out=options.out,
        method=options.method,
        settings=parse_set(options.set, options.settings),
        seed=options.seed,
        columns=parse_columns(options.columns),
        gold=options.gold,
        features=options.features,
        annotator_info=options.annotator_info,
        max_rejected=options.max_rejected,
        resume=options.resume,
        csv=options.csv,
        checkpoint_seconds=options.checkpoint_seconds,
        checkpoint_iterations=options.checkpoint_iterations,
    )
    chosen = {"address": options.address, "workers": options.workers, "stall_seconds": options.stall_seconds}
    with Reporter(options.quiet or options.json) as report, open_engine(options.engine, **chosen) as engine:
        published = aggregate(request, engine, report)
    return tell(published, options)
