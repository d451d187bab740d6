"""`distrank remap`: a ranker from noisy labels."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from distrank.cli.options import add_input_options, add_output_options, parse_columns, parse_set
from distrank.cli.terminal import Reporter, print_json, print_table, say, warn

_HELP = """\
Train a ranker on noisy labels of a crowd (two grades), so that it does best on graded truth.

  distrank simulate remap --out crowd/
  distrank remap crowd/ratings.parquet --features crowd/features.parquet --target crowd/gold.csv \\
      --gold crowd/honeypots.parquet --out out/
  distrank remap tonight/ --features docs.parquet --tuned out/ --out nightly/   the tuning used again, no target
  distrank remap crowd/ratings.parquet ... --compare                           against all baselines, with p values
  distrank score out/ --features new.parquet --out scores.parquet              rank by it

Every label gets a weight and a relevance value, functions of 29 label features (who gave it, what dawid-skene and glad
think of them and of the label); both are tuned by gradient ascent on DCG@k over part of the target's queries, the rest
decides how far. Trees of LightGBM are additional features of the linear ranker. Honeypots (--gold) never enter the
source. Settings (--set name=value): `distrank methods both`.
"""
RANKERS = ("both", "reweight", "remap")


def register(commands: Any) -> None:
    parser = commands.add_parser(
        "remap",
        help="a ranker from noisy labels",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_input_options(parser)
    parser.add_argument("--features", metavar="FILE", help="query, item and numeric columns, or SVMlight/LETOR")
    parser.add_argument("--target", metavar="FILE", help="query, item, relevance: graded truth to tune on")
    parser.add_argument("--target-features", metavar="FILE", help="features of the target (default: --features)")
    parser.add_argument("--tuned", metavar="RUN", help="use the tuning of this run in place of a target")
    parser.add_argument("--label-features", metavar="FILE", help="query, item, annotator and numbers of your own")
    parser.add_argument("--method", default="both", choices=RANKERS, help="default both")
    parser.add_argument("--compare", action="store_true", help="only compare with the baselines; nothing is published")
    parser.add_argument("--folds", type=int, default=5, help="of the cross-validation of --compare (default 5)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="output folder (default out/)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting")
    parser.add_argument("--settings", metavar="FILE", help="settings in a YAML file; --set goes before it")
    parser.add_argument("--engine", default="auto", choices=("auto", "local", "ray"), help="where to run")
    parser.add_argument("--address", help="a running Ray cluster; `auto` for the one on this machine")
    parser.add_argument("--workers", type=int, help="threads, or Ray CPUs, to use (default all)")
    add_output_options(parser)
    parser.set_defaults(command=run_remap)


def run_remap(options: argparse.Namespace) -> int:
    from distrank.engine.choose import open_engine
    from distrank.errors import UsageError
    from distrank.remap_runs import RemapRequest, compare_methods, remap

    if options.features is None:
        raise UsageError("--features is missing: a ranker needs numbers that describe the items")
    request = RemapRequest(
        source=options.judgments,
        features=options.features,
        out=options.out,
        target=options.target,
        target_features=options.target_features,
        tuned=options.tuned,
        gold=options.gold,
        label_features=options.label_features,
        method=options.method,
        settings=parse_set(options.set, options.settings),
        columns=parse_columns(options.columns),
        max_rejected=options.max_rejected,
    )
    chosen = {"address": options.address, "workers": options.workers}
    with Reporter(options.quiet or options.json) as report, open_engine(options.engine, **chosen) as engine:
        if options.compare:
            return _print_comparison(compare_methods(request, engine, report, options.folds), options)
        published = remap(request, engine, report)
    for warning in published.facts["warnings"]:
        warn(warning)
    if options.json:
        print_json({"folder": str(published.run.folder), "reused": published.reused, **published.facts})
    elif not options.quiet:
        _print_summary(published)
    return 0 if published.converged else 3


def _print_summary(published: Any) -> None:
    facts = published.facts
    data, found = facts["input"], facts["convergence"]
    if published.reused:
        say("The same input with the same settings was published before; nothing was run.")
    labels = f"{data['judgments']:,} labels of {data['annotators']:,} annotators"
    say(f"{facts['method']}: {labels} on {data['items']:,} items in {data['queries']:,} queries")
    if "validation_dcg" in found:
        start = f"{found['validation_dcg_at_start']:.4f} before the first step"
        chosen = f"ridge {found['ridge']:g}, {found['trees']} trees"
        say(f"DCG on validation queries: {start}, {found['validation_dcg']:.4f} at step {found['step']} ({chosen})")
    say(f"result: {published.run.folder}")


def _print_comparison(rows: list[dict[str, Any]], options: argparse.Namespace) -> int:
    if options.json:
        print_json(rows)
        return 0
    shown = [[row["method"], f"{row['dcg']:.4f}", f"{row['gain_percent']:+.2f} %", f"{row['p']:.4f}"] for row in rows]
    print_table("DCG on test queries", ("ranker, labels", "DCG", "to linear, majority", "p"), shown)
    return 0


def print_settings(options: argparse.Namespace) -> int:
    """The settings of `distrank remap`, for `distrank methods both`."""
    from distrank.remap.pipeline import PipelineSettings
    from distrank.settings import describe_settings

    settings = describe_settings(PipelineSettings)
    if options.json:
        print_json({"name": options.name, "paper": "Ustinovskiy et al., SIGIR 2016", "settings": settings})
        return 0
    say(f"{options.name}: a ranker from noisy labels, by `distrank remap`  [Ustinovskiy et al., SIGIR 2016]\n")
    rows = [[s["name"], "none" if s["default"] is None else str(s["default"]), s["help"], s["rule"]] for s in settings]
    print_table("settings", ("name", "default", "what it does", "values"), rows, longest=None)
    return 0
