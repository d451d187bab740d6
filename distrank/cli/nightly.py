"""`distrank nightly`, `history`, `diff` and `status`: what happens every night, and what is known of it afterwards."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from distrank.cli.options import add_output_options
from distrank.cli.terminal import Reporter, print_json, print_table, say, warn
from distrank.text import shown

_NIGHTLY = """\
Re-aggregate what changed since the last run, and publish it if it passes the gates.

  distrank nightly nightly.yaml                 from cron, a systemd timer, or as a Ray job (jobs/nightly.py)
  distrank nightly nightly.yaml --check         read and check the config, start nothing

  name: arena
  input: judgments/            # a file, a folder, a URI, or a list; relative to this file
  out: out/
  method: crowd-bt
  settings: {regularization: 0.5}
  gates: {max_rejected: 0.05, min_judgments: 1000, min_gold_agreement: 0.8, max_rank_change: 50,
          require_converged: true}
  keep: {runs: 30, failures: 30, checkpoint_days: 7}
  on_failure: [/usr/local/bin/page, --team, crowd]

New, changed and removed files are found by size and sha256. A night without changes, with the same settings and code,
ends with 0 and makes no run. The fit starts from the last result. A night that fails leaves the latest run as it was,
writes OUT/failures/TIME/run.json and calls the command in `on_failure` (an argument list; the record comes last). Two
nights on one output folder exclude each other. Exit codes: 0 published or nothing to do, 1 failed, 2 usage, 3 published
but not converged (only with `require_converged: false`).
"""

_DIFF = """\
What moved between two runs: ranks, annotators' quality, new suspects.

  distrank diff out/runs/crowd-bt-1f2e3d4c5b6a out/          an earlier run and the latest
"""


def register(commands: Any) -> None:
    raw = argparse.RawDescriptionHelpFormatter
    nightly = commands.add_parser(
        "nightly", help="re-aggregate what changed", description=_NIGHTLY, formatter_class=raw
    )
    nightly.add_argument("config", type=Path, metavar="CONFIG", help="a YAML file")
    nightly.add_argument("--check", action="store_true", help="check the config and stop")
    add_output_options(nightly)
    nightly.set_defaults(command=run_nightly)

    history = commands.add_parser("history", help="runs and failed nights of an output folder, with their figures")
    history.add_argument("out", type=Path, metavar="OUT")
    history.add_argument("--top", type=int, default=30, metavar="N", help="the newest N (default 30; 0 for all)")
    add_output_options(history)
    history.set_defaults(command=run_history)

    diff = commands.add_parser("diff", help="what moved between two runs", description=_DIFF, formatter_class=raw)
    diff.add_argument("before", metavar="RUN", help="an output folder (its latest run), a run folder, or a run id")
    diff.add_argument("after", metavar="RUN", help="the later one")
    diff.add_argument("--top", type=int, default=10, metavar="N", help="rows per table (default 10)")
    add_output_options(diff)
    diff.set_defaults(command=run_diff)

    status = commands.add_parser("status", help="what is under way in an output folder, from any machine that sees it")
    status.add_argument("out", type=Path, metavar="OUT")
    add_output_options(status)
    status.set_defaults(command=run_status)


def run_nightly(options: argparse.Namespace) -> int:
    from distrank.nightly.config import read_config
    from distrank.runs import split_settings

    config = read_config(options.config)
    split_settings(config.method, config.settings)  # a wrong setting is an error before anything is read
    if options.check:
        say(f"{options.config}: fine. {config.method} on {', '.join(config.input)} into {config.out}")
        return 0
    from distrank.nightly.night import nightly

    with Reporter(options.quiet or options.json) as report:
        night = nightly(config, report)
    _tell_night(night, options)
    return night.exit_code


def _tell_night(night: Any, options: argparse.Namespace) -> None:
    facts = night.published.facts
    for warning in facts["warnings"] if night.outcome == "published" else []:
        warn(warning)
    if options.json:
        run = {"run": night.published.run.run_id, "folder": str(night.published.run.folder)}
        print_json({"outcome": night.outcome, **run, "partitions": night.partitions.facts(), **facts})
        return
    if options.quiet:
        return
    say(f"partitions: {night.partitions.text()}")
    if night.outcome == "unchanged":
        say(f"nothing to do: {night.published.run.run_id} is what the judgments and the settings give")
        return
    convergence = facts["convergence"]
    say(f"{facts['input']['judgments']:,} judgments, {convergence['iterations']} iterations")
    if night.changes is not None:
        _print_changes(night.changes)
    if night.removed:
        say(f"removed, as `keep` says: {', '.join(night.removed)}")
    say(f"result: {night.published.run.folder}")


def run_history(options: argparse.Namespace) -> int:
    from distrank.nightly.history import history

    entries = history(options.out)
    entries = entries[: options.top] if options.top else entries
    if options.json:
        print_json(entries)
        return 0
    columns = ("time", "state", "run", "judgments", "iterations", "seconds", "partitions", "rank change", "suspects")
    print_table(f"{options.out}, newest first", columns, [_history_row(entry) for entry in entries], None)
    return 0


def _history_row(entry: dict[str, Any]) -> tuple[Any, ...]:
    when = entry["time"][:19].replace("T", " ")
    if entry["state"] == "failed":
        return when, "failed", shown(f"in {entry['stage']}: {entry['error']}", 90), *[None] * 6
    parts = entry["partitions"]
    changed = " ".join(f"{mark}{parts[name]}" for name, mark in _MARKS.items() if parts.get(name)) if parts else None
    figures = (entry["judgments"], entry["iterations"], entry["seconds"], changed)
    return when, entry["state"], entry["run"], *figures, entry["largest_rank_change"], entry["new_suspects"]


_MARKS = {"new": "+", "changed": "~", "removed": "-"}


def run_diff(options: argparse.Namespace) -> int:
    import pyarrow.parquet as pq

    from distrank.changes import Tables, changes_dict, compare_runs
    from distrank.store.publish import resolve_run

    runs = [resolve_run(text) for text in (options.before, options.after)]
    before, after = (
        Tables(*(pq.read_table(run.path(f"{name}.parquet")) for name in ("rankings", "annotators"))) for run in runs
    )
    changes = compare_runs(before, after, shown=options.top)
    if options.json:
        print_json({"before": runs[0].run_id, "after": runs[1].run_id, **changes_dict(changes)})
        return 0
    say(f"from {runs[0].run_id} to {runs[1].run_id}")
    _print_changes(changes)
    return 0


def _print_changes(changes: Any) -> None:
    items, ranks, people, quality = changes.items, changes.ranks, changes.annotators, changes.quality
    say(
        f"items: {items['common']:,} in both, {items['new']:,} new, {items['gone']:,} gone; {ranks['changed']:,} moved "
        f"by {ranks['mean']:.2f} ranks on average and {ranks['largest']:,} at most; "
        f"scores by {changes.scores['largest']:.4f} at most"
    )
    say(
        f"annotators: {people['common']:,} in both, {people['new']:,} new, {people['gone']:,} gone; quality changed by "
        f"{quality['mean']:.4f} on average and {quality['largest']:.4f} at most; "
        f"{changes.suspects['new']:,} new suspects, {changes.suspects['cleared']:,} cleared"
    )
    if changes.movers:
        print_table("largest changes of rank", ("query", "item", "before", "after"), changes.movers)
    columns = ("annotator", "quality before", "after", "kind before", "after")
    if changes.drifts:
        print_table("largest changes of quality", columns, changes.drifts)
    if changes.new_suspects:
        print_table("new suspects", columns, changes.new_suspects)


def run_status(options: argparse.Namespace) -> int:
    from distrank.nightly.history import status

    found = status(options.out)
    if options.json:
        print_json(found)
        return 0
    if not found["running"]:
        say("nothing is under way")
    for state in found["running"]:
        who = state.get("night") or state.get("method")
        life = "at work" if state["alive"] else "silent, perhaps killed"
        say(f"{who} on {state['host']}: {life}, last sign of life {state['seconds']:.0f} s ago")
        for stage, entry in state["stages"].items():
            rest = ", ".join(f"{name} {value}" for name, value in entry.items() if name != "state")
            say(f"  {stage}: {entry.get('state', '')} {rest}")
    for name in ("latest", "failed"):
        if found[name] is not None:
            entry = found[name]
            what = entry.get("run") or f"in {entry['stage']}: {entry['error']} ({entry['record']})"
            say(f"{name}: {entry['time'][:19].replace('T', ' ')} {what}")
    return 0
