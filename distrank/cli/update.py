"""`distrank update`: a run goes on with new judgments."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from distrank.cli.aggregate import tell
from distrank.cli.options import add_input_options, add_output_options, add_run_options, parse_columns
from distrank.cli.terminal import Reporter

_HELP = """\
Continue a run of a method that reads judgments in time order (crowd-bt-online, trueskill) with new judgments.

  distrank aggregate monday.csv --method crowd-bt-online --out out/
  distrank update out/ tuesday.csv
  distrank update out/ wednesday.csv

The old judgments are not read again: the run saved its beliefs about items and annotators, and every new judgment
moves them in constant time. The rankings and the annotators' beliefs are, byte for byte, those of one run over all
judgments, given that the new ones are later. New queries, items and annotators enter at their priors. Settings and
seed are those of the run.

A new run is published beside the old one, names it as its parent, and becomes the latest. The same update again
changes nothing. Counts are of all judgments; agreement compares every judgment with the order at the end of the run
that read it. Exit codes: 0 fine, 1 error, 2 usage.
"""


def register(commands: Any) -> None:
    parser = commands.add_parser(
        "update",
        help="continue an online run with new judgments only",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", metavar="RUN", help="an output folder (its latest run), a run folder, or a run id")
    add_input_options(parser, gold=False)
    parser.add_argument("--out", type=Path, help="output folder of the new run (default: the one RUN lies in)")
    add_run_options(parser)
    add_output_options(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    from distrank.engine.choose import open_engine
    from distrank.updates import UpdateRequest, update

    request = UpdateRequest(
        run=options.run,
        source=options.judgments,
        out=options.out,
        columns=parse_columns(options.columns),
        max_rejected=options.max_rejected,
        resume=options.resume,
        csv=options.csv,
        checkpoint_seconds=options.checkpoint_seconds,
        checkpoint_iterations=options.checkpoint_iterations,
    )
    chosen = {"address": options.address, "workers": options.workers, "stall_seconds": options.stall_seconds}
    with Reporter(options.quiet or options.json) as report, open_engine(options.engine, **chosen) as engine:
        published = update(request, engine, report)
    return tell(published, options)
