"""`distrank stress`: how methods bear annotators who guess or lie."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from distrank.cli.options import add_input_options, add_output_options, parse_columns
from distrank.cli.terminal import Reporter, print_json, say

_HELP = """\
Add annotators who guess (spammers) or report the opposite of gold (malicious) to real judgments, and see what becomes
of every method: metric curves, and their coefficient of variation (standard deviation / mean; small is robust).

  distrank stress ratings.csv --gold gold.csv --spammers 0:1:0.25 --malicious 0:1:0.25 --methods crowd-agg,borda
  distrank stress ratings.csv --gold gold.csv --malicious 0,0.5 --methods crowd-agg,crowd-agg:pair_model=step --out s/

A ratio of 0.5 adds half as many annotators as a query has. METHOD:NAME=VALUE gives a method a setting. --out FOLDER
writes curves.csv, variation.csv and a chart per metric (SVG).
"""


def register(commands: Any) -> None:
    parser = commands.add_parser(
        "stress",
        help="how methods bear spammers and malicious annotators",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_input_options(parser)
    for kind in ("spammers", "malicious"):
        parser.add_argument(f"--{kind}", metavar="FROM:TO:STEP", help=f"ratios of added {kind}, or a list: 0,0.5,1")
    parser.add_argument("--methods", required=True, metavar="NAME[:SETTING=VALUE...],...", help="what to compare")
    parser.add_argument("--metrics", default="ndcg@10,p@10,map,rbp", help="as in evaluate (default %(default)s)")
    parser.add_argument("--relevant", type=float, default=1.0, metavar="R", help="relevant from here on (default 1)")
    parser.add_argument("--judged-only", action="store_true", help="leave items without gold out of the rankings first")
    parser.add_argument("--repeats", type=int, default=1, metavar="N", help="crowds per ratio, averaged (default 1)")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same added annotators (default 0)")
    parser.add_argument("--workers", type=int, help="threads to use (default all)")
    parser.add_argument("--out", type=Path, help="folder for the tables and charts")
    add_output_options(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    from distrank.engine.choose import open_engine
    from distrank.errors import UsageError
    from distrank.evaluate import table_rows, table_text
    from distrank.metrics import MetricSettings
    from distrank.stress import Stress, check_methods, parse_ratios, stress
    from distrank.tables.gold import read_gold
    from distrank.tables.read import read_judgments, read_table

    if options.gold is None:
        raise UsageError("--gold is needed: malicious annotators report its opposite, and metrics compare with it")
    asked = {kind: getattr(options, kind) for kind in ("spammers", "malicious")}
    ratios = {kind: parse_ratios(text, f"--{kind}") for kind, text in asked.items() if text}
    if not ratios:
        raise UsageError("nothing to add: give --spammers or --malicious, for example --malicious 0:1:0.25")
    methods = dict(_method(text) for text in options.methods.split(",") if text)
    judgments = read_judgments(options.judgments, columns=parse_columns(options.columns))
    judgments.check_limit(options.max_rejected)
    check_methods([str(given["method"]) for given in methods.values()], judgments.form)
    plan = Stress(methods, ratios, options.metrics.split(","), options.repeats, options.seed)
    settings = MetricSettings(threshold=options.relevant, judged_only=options.judged_only)
    with Reporter(options.quiet or options.json) as report, open_engine("local", workers=options.workers) as engine:
        found = stress(judgments, read_gold(options.gold), read_table(options.gold), plan, engine, report, settings)
    if options.out is not None:
        _write(options.out, found, ratios)
    if options.json:
        print_json({"curves": table_rows(found.table), "variation": table_rows(found.variation)})
    elif not options.quiet:
        say(table_text(found.table))
        say(f"\ncoefficient of variation over the ratios\n{table_text(found.variation)}")
    return 0


def _method(text: str) -> tuple[str, dict[str, Any]]:
    """`crowd-agg:pair_model=step` as its label and its settings."""
    from distrank.errors import UsageError

    name, *settings = text.strip().split(":")
    given: dict[str, Any] = {"method": name}
    for setting in settings:
        key, found, value = setting.partition("=")
        if not found:
            raise UsageError(f"--methods {text!r}: expected NAME:SETTING=VALUE")
        given[key] = value
    return text.strip(), given


def _write(folder: Path, found: Any, ratios: Any) -> None:
    from distrank.evaluate import table_csv
    from distrank.plot import line_charts

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "curves.csv").write_text(table_csv(found.table), encoding="utf-8")
    (folder / "variation.csv").write_text(table_csv(found.variation), encoding="utf-8")
    rows = found.table.to_pylist()
    for metric in found.table.column_names[3:]:
        charts: dict[str, dict[str, list[tuple[float, float]]]] = {kind: {} for kind in ratios}
        for row in rows:
            charts[row["kind"]].setdefault(row["method"], []).append((row["ratio"], row[metric]))
        picture = line_charts(charts, x_label="added annotators, as a share", y_label=metric)
        (folder / f"{metric.replace('@', '_at_')}.svg").write_text(picture, encoding="utf-8")
