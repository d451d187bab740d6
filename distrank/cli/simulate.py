"""`distrank simulate NAME`: a crowd with a known truth, to try things on. Its options are the simulator's settings."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from distrank.cli.options import add_output_options
from distrank.cli.terminal import print_json, say
from distrank.errors import UsageError

_HELP = """\
Simulate a crowd: judgments, and the truth behind them.

  distrank simulate crowd-bt --out crowd/ --items 100 --annotators 100 --pairs 400 --annotators-per-pair 10
  distrank simulate tpp --out crowd/ --dataset DOC30SR0.05DEMO1   queries of several domains
  distrank simulate remap --out crowd/                     noisy labels with features and graded truth
  distrank simulate crowd-agg --out crowd/ --malicious 0.5     half as many liars as honest annotators
  distrank simulate crowd-bt --help        all options of one simulator
"""


def register(commands: Any) -> None:
    parser = commands.add_parser(
        "simulate",
        help="a crowd with a known truth",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="crowd-agg, crowd-bt, ltrma, remap or tpp")
    parser.add_argument("options", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.add_argument("-h", "--help", action="store_true", dest="wants_help", help="show this help")
    parser.set_defaults(command=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Simulators are loaded only when one is asked for, so their options are parsed in a second step."""
    from distrank.simulate import SIMULATIONS, simulate

    if options.name is None:
        options.parser.print_help()
        say(f"\nsimulators: {', '.join(SIMULATIONS)}")
        return 0 if options.wants_help else 2
    if options.name not in SIMULATIONS:
        raise UsageError(f"unknown simulation {options.name!r}; known: {', '.join(SIMULATIONS)}")
    parser, names = _parser_of(options.name, SIMULATIONS[options.name])
    chosen = parser.parse_args([*(["--help"] if options.wants_help else []), *options.options])
    options.debug = chosen.debug
    values = {name: value for name in names if (value := getattr(chosen, name)) is not None}
    tables = simulate(options.name, values)
    paths = tables.write(chosen.out, chosen.format)
    if chosen.json:
        print_json({name: {"path": str(path), "rows": tables[name].num_rows} for name, path in paths.items()})
    elif not chosen.quiet:
        for name, path in paths.items():
            say(f"{path}: {tables[name].num_rows:,} rows ({name})")
    return 0


def _parser_of(name: str, simulator: Any) -> tuple[argparse.ArgumentParser, list[str]]:
    """A parser made from the simulator's settings, and the names of those settings."""
    from distrank.settings import describe_settings

    title = f"{simulator.title} [{simulator.paper}]" if simulator.paper else simulator.title
    parser = argparse.ArgumentParser(prog=f"distrank simulate {name}", description=title)
    names = []
    for entry in describe_settings(simulator.Settings):
        names.append(entry["name"])
        default = "none" if entry["default"] is None else entry["default"]
        rule = f"; {entry['rule']}" if entry["rule"] else ""
        text = f"{entry['help']} (default {default}{rule})".replace("%", "%%")
        parser.add_argument(f"--{entry['name'].replace('_', '-')}", dest=entry["name"], metavar="VALUE", help=text)
    parser.add_argument("--out", type=Path, default=Path(), help="folder for the tables (default: this one)")
    parser.add_argument("--format", choices=("parquet", "csv"), default="parquet", help="of the judgments")
    add_output_options(parser)
    return parser, names
