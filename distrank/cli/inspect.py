"""`distrank show`, `methods` and `validate`: looking at results, at what there is, and at data before it is used."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from distrank.cli.options import add_input_options, add_output_options, parse_columns
from distrank.cli.remap import RANKERS, print_settings
from distrank.cli.terminal import Reporter, cell, print_json, print_table, say
from distrank.errors import UsageError

TABLES = ("rankings", "annotators", "queries")
CONVERGENCE = "convergence"
MOST_EVIDENCE = 3  # annotators whose evidence is printed
FEATURES = ("features",)


def register(commands: Any) -> None:
    show = commands.add_parser("show", help="print rankings, annotators and queries of a run")
    show.add_argument("run", metavar="RUN", help="an output folder (its latest run), a run folder, or a run id")
    show.add_argument("--table", choices=(*TABLES, CONVERGENCE), help="one table only (default: an overview of all)")
    show.add_argument("--query", help="the ranking of this query")
    show.add_argument("--top", type=int, default=10, metavar="N", help="rows per table (default 10; 0 for all)")
    show.add_argument("--csv", action="store_true", help="print one table as CSV")
    show.add_argument("--verify", action="store_true", help="check every file against the manifest first")
    add_output_options(show)
    show.set_defaults(command=run_show)

    methods = commands.add_parser("methods", help="list the methods, or the settings of one")
    methods.add_argument("name", nargs="?", help="a method: print its settings")
    add_output_options(methods)
    methods.set_defaults(command=run_methods)

    validate = commands.add_parser(
        "validate",
        help="check judgments before anything runs",
        description="Read, count and check judgments; nothing is written. Exit code 1 if too many rows are rejected.",
    )
    add_input_options(validate)
    add_output_options(validate)
    validate.set_defaults(command=run_validate)


def run_show(options: argparse.Namespace) -> int:
    from distrank.store.publish import resolve_run

    run = resolve_run(options.run)
    if options.verify:
        run.verify()
    table = options.table or ("rankings" if options.query is not None else None)
    if table == CONVERGENCE:
        _print_convergence(run, options)
    elif options.csv:
        _print_csv(run, table or "rankings", options)
    elif options.json:
        names = [table] if table else TABLES
        content = {name: _rows(run, name, options).to_pylist() for name in names}
        print_json({"run": run.run_id, **content})
    else:
        _print_overview(run, [table] if table else list(TABLES), options)
    return 0


def _print_convergence(run: Any, options: argparse.Namespace) -> None:
    """The trace: every iteration, or the first and the last ones if there are more than fit."""
    convergence = run.facts()["convergence"]
    if options.json:
        print_json(convergence)
        return
    trace = convergence["trace"]
    half = max(options.top // 2, 1)
    kept = trace if not options.top or len(trace) <= options.top else [*trace[:half], *trace[-half:]]
    columns = list(trace[-1])
    rows = [[int(entry["iteration"]), *(f"{entry.get(name, 0.0):.6g}" for name in columns[1:])] for entry in kept]
    print_table(f"convergence ({len(kept)} of {len(trace)})", columns, rows)
    rest = {name: value for name, value in convergence.items() if name != "trace"}
    say(", ".join(f"{name} {value}" for name, value in rest.items()))


def annotator_rows(run: Any, count: int) -> tuple[list[list[Any]], list[list[Any]]]:
    """The best annotators, and the most suspicious of those with enough judgments to say."""
    import pyarrow.parquet as pq

    columns = ["annotator", "judgments", "quality", "kind"]
    table = pq.read_table(run.path("annotators.parquet"), columns=columns)
    known = table.sort_by([("quality", "descending"), ("judgments", "descending")])
    rows = [list(row.values()) for row in known.to_pylist() if row["kind"] != "unknown"]
    return rows[:count], [row for row in rows[::-1][:count] if row[3] in ("spammer", "malicious")]


def _rows(run: Any, name: str, options: argparse.Namespace) -> Any:
    """The rows of one table that were asked for."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    if name == "rankings" and options.query is not None:
        table = pq.read_table(run.path("rankings.parquet"))
        try:
            wanted = pa.scalar(options.query).cast(table.schema.field("query").type)
        except pa.ArrowInvalid:
            raise UsageError(f"--query {options.query!r} is not a {table.schema.field('query').type}") from None
        table = table.filter(pc.equal(table["query"], wanted))
        if not table.num_rows:
            raise UsageError(f"run {run.run_id} has no query {options.query!r}")
        return table.slice(0, options.top or None)
    if not options.top:
        return pq.read_table(run.path(f"{name}.parquet"))
    if name == "annotators":
        table = pq.read_table(run.path("annotators.parquet"))
        return table.sort_by([("quality", "ascending"), ("judgments", "descending")]).slice(0, options.top)
    file = pq.ParquetFile(run.path(f"{name}.parquet"))
    first = next(file.iter_batches(batch_size=options.top), None)
    return pa.Table.from_batches([first] if first is not None else [], file.schema_arrow)


def _print_overview(run: Any, names: list[str], options: argparse.Namespace) -> None:
    facts = run.facts()
    convergence = facts["convergence"]
    state = "converged" if convergence["converged"] else "NOT converged"
    say(f"{run.run_id}: {facts['method']}, {state} after {convergence['iterations']} iterations")
    say(f"{run.folder}\n")
    titles = {"annotators": "annotators, the most suspicious first"}
    for name in names:
        table = _rows(run, name, options)
        evidence = table["evidence"].to_pylist() if "evidence" in table.column_names else []
        if evidence:
            table = table.drop_columns("evidence")
        rows = [list(row.values()) for row in table.to_pylist()]
        total = run.manifest["files"][f"{name}.parquet"]["rows"]
        print_table(f"{titles.get(name, name)} ({len(rows)} of {total:,})", table.column_names, rows)
        _print_evidence(rows, table.column_names, evidence)
    for warning in facts["warnings"]:
        say(f"warning: {warning}")


def _print_evidence(rows: list[list[Any]], columns: list[str], evidence: list[list[dict[str, Any]]]) -> None:
    """What weighs most against those of the annotators shown who are suspicious."""
    shown = [pair for pair in zip(rows, evidence, strict=False) if pair[1]][:MOST_EVIDENCE]
    if not shown:
        return
    say(
        "evidence: the judgments that weigh most against an annotator. The weight is the logarithm of how much better "
        "a coin explains the judgment than a typical annotator does\n"
    )
    for row, judgments in shown:
        facts = dict(zip(columns, row, strict=True))
        between = ""
        if "quality_low" in facts:
            between = f" ({facts['quality_low']:.2f} to {facts['quality_high']:.2f})"
        say(
            f"{cell(facts['annotator'])}: {facts['kind']}, quality {facts['quality']:.2f}{between}, "
            f"{facts['judgments']:,} judgments, {facts['agreement']:.0%} of them with the consensus"
        )
        listed = [[entry[name] for name in ("query", "winner", "loser", "weight")] for entry in judgments]
        print_table("", ("query", "preferred", "to", "weight"), listed)


def _print_csv(run: Any, name: str, options: argparse.Namespace) -> None:
    import pyarrow.csv as pa_csv

    from distrank.tables.export import neutralised

    sys.stdout.flush()
    pa_csv.write_csv(neutralised(_rows(run, name, options)), sys.stdout.buffer)


def run_methods(options: argparse.Namespace) -> int:
    from distrank.models import MODELS, get_model
    from distrank.runs import InputSettings
    from distrank.settings import describe_settings

    if options.name in RANKERS:
        return print_settings(options)
    if options.name is not None:
        model = get_model(options.name)
        settings = [*describe_settings(model.Settings), *describe_settings(InputSettings)]
        if options.json:
            print_json({"name": model.name, "title": model.title, "paper": model.paper, "settings": settings})
            return 0
        say(f"{model.name}: {model.title}" + (f"  [{model.paper}]" if model.paper else ""))
        reads = ", ".join([*model.accepts, *FEATURES[: model.features]])
        say(f"reads {reads}; estimates {model.estimates}; runs local and on Ray\n")
        rows = [
            [s["name"], "none" if s["default"] is None else str(s["default"]), s["help"], s["rule"]] for s in settings
        ]
        print_table("settings", ("name", "default", "what it does", "values"), rows, longest=None)
        return 0
    models = [get_model(name) for name in MODELS]
    if options.json:
        keys = ("name", "title", "paper", "accepts", "estimates")
        print_json([{key: getattr(model, key) for key in keys} for model in models])
        return 0
    rows = [
        [m.name, m.title, m.paper, ", ".join([*m.accepts, *FEATURES[: m.features]]), m.estimates, "local, Ray"]
        for m in models
    ]
    print_table("methods", ("name", "what it is", "paper", "reads", "estimates", "runs"), rows, longest=None)
    say("Methods that read features learn a ranker: `distrank learn`. All others: `distrank aggregate`.")
    say(f"Rankers from noisy labels, by `distrank remap`: {', '.join(RANKERS)}.")
    say("`distrank methods NAME` lists the settings of one.")
    return 0


def run_validate(options: argparse.Namespace) -> int:
    from distrank.tables.gold import read_gold
    from distrank.tables.gold_lookup import unknown_items
    from distrank.tables.read import read_judgments

    with Reporter(options.quiet or options.json) as report:
        judgments = read_judgments(options.judgments, columns=parse_columns(options.columns), report=report)
        gold = read_gold(options.gold) if options.gold is not None else None
    counts = judgments.counts
    warnings = [*judgments.warnings, *(unknown_items(gold, judgments) if gold is not None else [])]
    facts = {
        "form": judgments.form,
        "read": counts.read,
        "accepted": counts.accepted,
        "rejected": counts.rejected,
        "rejected_by_reason": counts.by_reason,
        "queries": len(judgments.queries),
        "items": len(judgments.items),
        "annotators": len(judgments.annotators),
        "content": judgments.content,
        "warnings": warnings,
    }
    if options.json:
        print_json(facts)
    else:
        print_table("judgments", ("", ""), [[name, cell(facts[name])] for name in facts if name not in _LISTS])
        if counts.by_reason:
            examples = judgments.rejected.slice(0, 10).select(["source", "row", "reason"]).to_pylist()
            print_table("rejected", ("reason", "rows"), sorted(counts.by_reason.items(), key=lambda pair: -pair[1]))
            print_table("the first of them", ("source", "row", "reason"), [list(row.values()) for row in examples])
        for warning in warnings:
            say(f"warning: {warning}")
    judgments.check_limit(options.max_rejected)
    return 0


_LISTS = ("rejected_by_reason", "warnings")
