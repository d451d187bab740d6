"""`distrank next`: what to ask the crowd next, and whom."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from distrank.cli.options import add_output_options, parse_columns
from distrank.cli.terminal import Reporter, cell, print_json, print_table, say, warn
from distrank.errors import UsageError

_HELP = """\
Choose the next questions: (query, item, item, annotator) triples of the largest expected information gain.

  distrank next out/ --budget 500 --out tasks.csv
  distrank next out/ --budget 500 --judgments judgments.csv --annotators online-now.csv --out tasks.csv
  distrank next out/ --budget 200 --gamma 5 --gamma-decay --epsilon 0.1 --out tasks.parquet

RUN can be of crowd-bt-online (its own beliefs) or of a batch method with scores in log-odds or probits (means from the
fit, variances from score_sd, annotators from quality and counts). A question that is chosen lowers what others on the
same items, or to the same annotator, would still tell: a batch does not ask for one thing over and over. gamma weighs
what is learned about annotators against what is learned about items; a share of random questions finds out annotators
who were trusted by mistake. scripts/reproduce/active.py measures what the defaults rest on.

With --judgments nobody is asked for the same pair twice. --out ends in .csv or .parquet; its columns are query, left,
right, annotator, expected_gain, reason. Ask, add the answers to the judgments, aggregate, and choose again: batches of
half a question per annotator did best.
"""


def register(commands: Any) -> None:
    parser = commands.add_parser(
        "next",
        help="what to ask the crowd next, and whom",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", metavar="RUN", help="an output folder (its latest run), a run folder, or a run id")
    parser.add_argument("--budget", type=int, required=True, metavar="N", help="questions to choose")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="tasks.csv or tasks.parquet")
    parser.add_argument(
        "--annotators",
        metavar="FILE",
        help="those who can be asked (column annotator); default: all that the run knows",
    )
    parser.add_argument(
        "--judgments", metavar="FILE", help="preferences so far: no annotator is asked for a pair again"
    )
    parser.add_argument("--columns", metavar="NAME=COLUMN,...", default="", help="rename columns of --judgments")
    parser.add_argument("--gamma", metavar="G", help="weight of what is learned about annotators (default 0)")
    parser.add_argument("--gamma-decay", action="store_true", help="halve gamma after every quarter of the budget")
    parser.add_argument("--epsilon", metavar="SHARE", help="share of questions drawn at random (default 0.2)")
    parser.add_argument(
        "--per-annotator",
        metavar="N",
        help="most questions to one annotator (default: 4 times an even share; 0: any)",
    )
    parser.add_argument(
        "--quality-prior", metavar="A,B", help="Beta law of unknown annotators (default: the run's, else 10,1)"
    )
    parser.add_argument(
        "--patience", metavar="BOXES", help="how long to look for the very best question (default 2000)"
    )
    parser.add_argument("--seed", type=int, default=0, help="breaks ties; same seed, same questions (default 0)")
    add_output_options(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    from distrank.active.batch import choose_batch
    from distrank.active.beliefs import beliefs_of_run
    from distrank.active.tasks import check_target, spread, tasks_table, write_tasks
    from distrank.store.publish import resolve_run

    check_target(options.out)
    if options.budget < 1:
        raise UsageError(f"--budget {options.budget}: at least one question")
    published = resolve_run(options.run)
    with Reporter(options.quiet or options.json) as report:
        judgments = _read_judgments(options, report)
        source, asked = beliefs_of_run(
            published,
            available=_read_annotators(options.annotators),
            judgments=judgments,
            quality_prior=_prior(options.quality_prior),
        )
        settings = _settings(options, source)
        batch = choose_batch(source.beliefs, options.budget, settings, asked=asked, report=report)
    table = tasks_table(batch, source)
    write_tasks(table, options.out)
    notes = [*source.notes, *_remarks(batch, options.budget)]
    for note in notes:
        warn(note)
    facts = {
        "run": published.run_id,
        "out": str(options.out),
        **spread(batch),
        "gamma": settings.gamma,
        "epsilon": settings.epsilon,
        "per_annotator": settings.per_annotator,
        "expected_gain": float(batch.gain.sum()),
        "largest_tolerance": float(batch.tolerance.max(initial=0.0)),
        "warnings": notes,
    }
    if options.json:
        print_json(facts)
    elif not options.quiet:
        _print_summary(facts, table)
    return 0


def _settings(options: argparse.Namespace, source: Any) -> Any:
    from distrank.active.batch import RANDOM_SHARE, BatchSettings, even_limit
    from distrank.settings import parse_settings

    values: dict[str, Any] = {"seed": options.seed, "gamma_decay": options.gamma_decay, "variance_floor": source.kappa}
    values["epsilon"] = RANDOM_SHARE
    for name in ("gamma", "epsilon", "patience"):
        if (value := getattr(options, name)) is not None:
            values[name] = value
    available = source.beliefs.available
    people = len(source.annotators) if available is None else len(available)
    if options.per_annotator is None:
        values["per_annotator"] = even_limit(options.budget, people)
    elif options.per_annotator != "0":
        values["per_annotator"] = options.per_annotator
    return parse_settings(BatchSettings, values)


def _read_judgments(options: argparse.Namespace, report: Any) -> Any:
    from distrank.tables.read import read_judgments

    if options.judgments is None:
        return None
    return read_judgments(options.judgments, columns=parse_columns(options.columns), report=report)


def _read_annotators(file: str | None) -> Any:
    from distrank.errors import InputError
    from distrank.tables.read import read_table

    if file is None:
        return None
    table = read_table(file)
    if "annotator" not in table.column_names:
        raise InputError(f"--annotators {file}: there is no column `annotator`, only {', '.join(table.column_names)}")
    return table["annotator"]


def _prior(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        alpha, beta = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--quality-prior {text!r}: expected two numbers, for example 10,1") from None
    return alpha, beta


def _remarks(batch: Any, budget: int) -> list[str]:
    if len(batch) < budget:
        rest = "every other one was asked before, or the annotators are at their limit (--per-annotator)"
        return [f"there are only {len(batch):,} questions to ask, not {budget:,}: {rest}"]
    return []


def _print_summary(facts: dict[str, Any], table: Any) -> None:
    say(
        f"{facts['questions']:,} questions on {facts['pairs']:,} pairs of {facts['items']:,} items in "
        f"{facts['queries']:,} queries, to {facts['annotators']:,} annotators"
    )
    rows = [[cell(value) for value in row.values()] for row in table.slice(0, 5).to_pylist()]
    print_table("the first of them", table.column_names, rows, longest=None)
    if facts["largest_tolerance"] > 1e-6:
        say(f"every question is within {facts['largest_tolerance']:.1%} of the best one that was left to ask")
    say(f"tasks: {facts['out']}")
