"""`distrank aggregate`: judgments in, a published run out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from distrank.cli.options import add_input_options, add_output_options, add_run_options, parse_columns, parse_set
from distrank.cli.terminal import Reporter, print_json, print_table, say, warn

_HELP = """\
Aggregate judgments into a consensus ranking per query and the quality of every annotator.

  distrank aggregate judgments.csv --out out/
  distrank aggregate judgments/ --method bradley-terry --set regularization=1 --out out/
  distrank aggregate judgments.parquet --gold gold.csv --set start=gold --out out/
  distrank aggregate judgments.parquet --engine ray --address auto --out /shared/out

The same input, settings and code give the same run: asked again, nothing new is published. `distrank methods NAME`
lists the settings of a method. Exit codes: 0 fine, 1 error, 2 usage, 3 published but not converged.
"""


def register(commands: Any) -> None:
    parser = commands.add_parser(
        "aggregate",
        help="consensus rankings and annotator quality from judgments",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_input_options(parser)
    parser.add_argument("--method", default="crowd-bt", help="see `distrank methods` (default crowd-bt)")
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


def tell(published: Any, options: argparse.Namespace) -> int:
    """Say what came of a run, as asked; the exit code."""
    for warning in published.facts["warnings"]:
        warn(warning)
    if options.json:
        print_json({"folder": str(published.run.folder), "reused": published.reused, **published.facts})
    elif not options.quiet:
        _print_summary(published)
    return 0 if published.converged else 3


def _print_summary(published: Any) -> None:
    """What happened, in a few lines."""
    facts = published.facts
    data, convergence = facts["input"], facts["convergence"]
    if published.reused:
        say("The same input with the same settings was published before; nothing was run.")
    say(
        f"{facts['method']}: {data['judgments']:,} judgments of {data['annotators']:,} annotators on "
        f"{data['items']:,} items in {data['queries']:,} queries "
        f"({data['rejected']:,} of {data['read']:,} rows rejected)"
    )
    if "parent" in facts:
        say(f"{data['new_judgments']:,} of them are new since {facts['parent']}")
    state = "converged" if convergence["converged"] else "NOT converged"
    objective = convergence["trace"][-1].get("objective")
    say(f"{state} after {convergence['iterations']} iterations" + (f", objective {objective:.6f}" if objective else ""))
    from distrank.cli.inspect import annotator_rows

    best, worst = annotator_rows(published.run, 3)
    columns = ("annotator", "judgments", "quality", "kind")
    print_table("best annotators", columns, best)
    print_table("most suspicious annotators", columns, worst)
    say(f"result: {published.run.folder}")
