"""What people see: tables, progress and messages. Ids are hostile text and are shown escaped."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from distrank.text import shown

_LONGEST = 60  # characters of an id on a terminal
_PLAIN_SECONDS = 5.0  # between lines of progress in a log


def cell(value: Any, longest: int | None = _LONGEST) -> str:
    """A value in a table."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 1e6 else f"{value:.6g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    return shown(str(value), longest)


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], longest: int | None = _LONGEST
) -> None:
    """A table with numbers to the right; ids are cut at `longest`, our own texts are not."""
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 120)
    table = Table(title=Text(shown(title), style="bold"), title_justify="left", box=None, pad_edge=False)
    for place, name in enumerate(columns):
        number = bool(rows) and isinstance(rows[0][place], int | float)
        table.add_column(Text(name), justify="right" if number else "left")
    for row in rows:
        table.add_row(*(Text(cell(value, longest)) for value in row))
    console.print(table)
    console.print()


def say(text: str = "") -> None:
    """A line on standard output."""
    sys.stdout.write(shown(text) + "\n")


def print_json(value: Any) -> None:
    """For programs: one JSON value on standard output."""
    sys.stdout.write(json.dumps(value, indent=1, default=str) + "\n")


def warn(text: str) -> None:
    """A line on standard error."""
    sys.stderr.write(f"distrank: warning: {shown(text)}\n")


class Reporter:
    """Progress of long work: bars on a terminal, plain lines in a log, nothing if quiet."""

    def __init__(self, quiet: bool) -> None:
        self.quiet, self.bars = quiet, sys.stderr.isatty() and not quiet
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<8}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self.tasks: dict[str, Any] = {}
        self.last_line = 0.0

    def __enter__(self) -> Reporter:
        if self.bars:
            self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bars:
            self.progress.stop()

    def __call__(self, entry: dict[str, Any]) -> None:
        """Show one piece of progress (see engine.base.Report)."""
        if self.quiet:
            return
        stage, note = str(entry.get("stage", "")), _note(entry)
        if self.bars:
            self._update_bar(stage, note, entry)
        elif note and (entry.get("state") or time.monotonic() - self.last_line >= _PLAIN_SECONDS):
            self.last_line = time.monotonic()
            sys.stderr.write(f"{stage}: {note}\n")

    def _update_bar(self, stage: str, note: str, entry: dict[str, Any]) -> None:
        if stage not in self.tasks:
            self.tasks[stage] = self.progress.add_task(stage, total=None, note="")
        task = self.tasks[stage]
        if entry.get("state") == "end":
            self.progress.update(task, total=1, completed=1, note=note)
            if stage == "engine" and "fit" in self.tasks:
                self.progress.update(self.tasks["fit"], total=1, completed=1)
        elif note:
            self.progress.update(task, note=note)


def _note(entry: dict[str, Any]) -> str:
    """Progress in words."""
    if entry.get("state") == "end":
        return f"done in {entry['seconds']:.2f} s"
    if entry.get("state") == "begin":
        return ""
    if "resumed" in entry:
        return f"resumed after iteration {entry['resumed']}"
    if "iteration" in entry:
        objective = f", objective {entry['objective']:.6f}" if "objective" in entry else ""
        gradient = f", gradient {entry['gradient']:.2e}" if "gradient" in entry else ""
        return f"iteration {entry['iteration']:.0f}{objective}{gradient}"
    rest = (
        (name, f"{value:,}" if isinstance(value, int) else value) for name, value in entry.items() if name != "stage"
    )
    return shown(", ".join(f"{name} {value}" for name, value in rest))
