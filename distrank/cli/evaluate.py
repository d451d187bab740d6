"""`distrank evaluate`: runs, or files of rankings, against gold."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from distrank.cli.options import add_output_options
from distrank.cli.terminal import print_json, say
from distrank.errors import DistrankError, StoreError, UsageError

_HELP = """\
Compare rankings with the truth: pair accuracy, Kendall tau, NDCG@k, kappa-NDCG@k, MAP, P@k, RBP; the mean over queries,
or per query.

  distrank evaluate out/ --gold gold.csv
  distrank evaluate out/ other-out/ rankings.csv --gold gold.csv --metrics accuracy,ndcg@5,ndcg@10
  distrank evaluate out/ --gold gold.csv --per-query --csv > queries.csv
  distrank evaluate new/ old/ --gold gold.csv --significance     is new/ better than old/, beyond the luck of queries?

Ties in the score count as wrong in `accuracy` (strict comparison) and go by rank elsewhere; items without gold are not
relevant in ndcg, map, p and rbp unless --judged-only, and are left out of accuracy and kendall.
"""


def register(commands: Any) -> None:
    parser = commands.add_parser(
        "evaluate",
        help="compare runs with the truth",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a run, or a file with query, item, rank or score")
    parser.add_argument("--gold", required=True, metavar="FILE", help="known relevance: query, item, relevance")
    parser.add_argument("--metrics", help="e.g. accuracy,kendall,ndcg@10,map,p@10,rbp (default: all of these)")
    parser.add_argument("--relevant", type=float, default=1.0, metavar="R", help="relevant from here on (default 1)")
    parser.add_argument("--gain", choices=("exponential", "linear"), default="exponential", help="of NDCG")
    parser.add_argument("--persistence", type=float, default=0.95, metavar="P", help="of RBP (default 0.95)")
    parser.add_argument("--judged-only", action="store_true", help="leave items without gold out of the rankings first")
    parser.add_argument("--per-query", action="store_true", help="one row per query instead of means")
    parser.add_argument(
        "--significance", action="store_true", help="every run against a base: paired t-test and randomisation test"
    )
    parser.add_argument("--base", metavar="RUN", help="the run that others are tested against (default: the first)")
    parser.add_argument("--flips", type=int, default=10_000, metavar="N", help="of the randomisation test")
    parser.add_argument("--seed", type=int, default=0, help="of the randomisation test (default 0)")
    parser.add_argument("--csv", action="store_true", help="print CSV")
    add_output_options(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    from distrank.evaluate import (
        compare,
        comparison_dict,
        comparison_text,
        evaluation_text,
        queries_text,
        table_csv,
        table_rows,
        table_text,
    )
    from distrank.metrics import DEFAULT_METRICS, MetricSettings

    settings = MetricSettings(
        threshold=options.relevant, gain=options.gain, persistence=options.persistence, judged_only=options.judged_only
    )
    gold = _read_gold(options.gold)
    rankings = _named([_read_rankings(name) for name in options.runs])
    comparison = compare(rankings, gold, options.metrics or DEFAULT_METRICS, settings=settings)
    tests = _tests(comparison, options)
    if options.json:
        shown = {} if tests is None else {"significance": table_rows(tests)}
        print_json({"gold": options.gold, **comparison_dict(comparison, per_query=options.per_query), **shown})
    elif options.csv:
        table = _per_query(comparison) if options.per_query else comparison.table
        sys.stdout.write(table_csv(table if tests is None else tests))
    elif options.per_query:
        for name, one in comparison.runs.items():
            say(f"{name}\n{queries_text(one)}\n")
    elif len(comparison.runs) == 1:
        say(evaluation_text(next(iter(comparison.runs.values()))))
    else:
        say(comparison_text(comparison))
    if tests is not None and not options.json and not options.csv:
        say(f"\n{table_text(tests)}")
    return 0


def _tests(comparison: Any, options: argparse.Namespace) -> Any:
    """The table of tests, if asked for."""
    if not options.significance:
        return None
    if len(comparison.runs) < 2:
        raise UsageError("--significance compares runs: give at least two")
    from distrank.evaluate import significance

    names = dict(zip(options.runs, comparison.runs, strict=True))
    base = names.get(options.base, options.base)
    return significance(comparison, base, flips=options.flips, seed=options.seed)


def _per_query(comparison: Any) -> Any:
    """One table for all runs, with the run in its first column."""
    import pyarrow as pa

    tables = [
        one.queries.add_column(0, "run", pa.array([name] * one.queries.num_rows, pa.string()))
        for name, one in comparison.runs.items()
    ]
    return pa.concat_tables(tables, promote_options="permissive")


def _read_rankings(text: str) -> tuple[str, Any]:
    """A run's rankings, or a table in a file; with the name to show it under."""
    import pyarrow.parquet as pq

    from distrank.store.publish import resolve_run

    path = Path(text)
    if path.is_file():
        from distrank.tables.read import read_table

        return path.name, read_table(text)
    try:
        run = resolve_run(text)
    except StoreError as error:
        raise DistrankError(f"{error}, nor a file") from None
    return str(run.facts()["method"]), pq.read_table(run.path("rankings.parquet"))


def _read_gold(text: str) -> Any:
    from distrank.tables.read import read_table

    return read_table(text)


def _named(rankings: list[tuple[str, Any]]) -> dict[str, Any]:
    """Names made distinct: the second `crowd-bt` is `crowd-bt (2)`."""
    named: dict[str, Any] = {}
    for name, table in rankings:
        count, unique = 1, name
        while unique in named:
            count += 1
            unique = f"{name} ({count})"
        named[unique] = table
    return named
