"""Evaluations as plain text, as CSV, and as values that JSON can hold.

Ids are hostile text: control characters are shown escaped, and a CSV cell that a spreadsheet would run as a formula
gets a quote in front.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from distrank.evaluate.evaluation import Comparison, Evaluation
from distrank.text import defused, shown

_LONGEST = 60  # characters of an id in a text table


def evaluation_text(evaluation: Evaluation) -> str:
    """The means, how many queries they rest on, what was counted, and the warnings."""
    rows = [[name, _number(evaluation.means[name]), str(evaluation.defined[name])] for name in evaluation.metrics]
    counts = evaluation.counts
    summary = (
        f"{counts['queries']:,} queries, {counts['items']:,} ranked items, {counts['judged']:,} of them judged, "
        f"{counts['missing']:,} judged items not ranked"
    )
    return "\n".join([_aligned(["metric", "mean", "queries"], rows), "", summary, *_warning_lines(evaluation.warnings)])


def queries_text(evaluation: Evaluation) -> str:
    """One line per query."""
    return table_text(evaluation.queries)


def comparison_text(comparison: Comparison) -> str:
    """One line per run, then every run's warnings."""
    lines = [table_text(comparison.table)]
    for run, evaluation in comparison.runs.items():
        lines += [f"{shown(run, _LONGEST)}: {line}" for line in _warning_lines(evaluation.warnings)]
    return "\n".join(lines)


def table_text(table: pa.Table) -> str:
    """Any table of this room as aligned text: numbers with four decimals, undefined ones as a dash."""
    rows = [[_cell(value) for value in row.values()] for row in table.to_pylist()]
    return _aligned([shown(name, _LONGEST) for name in table.column_names], rows)


def table_csv(table: pa.Table) -> str:
    """Any table of this room as CSV with a header; numbers in full, undefined ones empty."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([_safe(name) for name in table.column_names])
    writer.writerows([_safe(value) for value in row.values()] for row in table.to_pylist())
    return file.getvalue()


def evaluation_dict(evaluation: Evaluation, *, per_query: bool = True) -> dict[str, Any]:
    """Everything that an evaluation knows, in values that JSON can hold (an undefined number is None)."""
    result: dict[str, Any] = {
        "metrics": {
            name: {"mean": _plain(evaluation.means[name]), "queries": evaluation.defined[name]}
            for name in evaluation.metrics
        },
        "counts": dict(evaluation.counts),
        "warnings": list(evaluation.warnings),
    }
    if per_query:
        result["per_query"] = table_rows(evaluation.queries)
    return result


def comparison_dict(comparison: Comparison, *, per_query: bool = True) -> dict[str, Any]:
    """Every run's evaluation by its name, in the order given."""
    runs = comparison.runs.items()
    return {"runs": [{"run": run, **evaluation_dict(one, per_query=per_query)} for run, one in runs]}


def table_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table in values that JSON can hold."""
    return [{name: _plain(value) for name, value in row.items()} for row in table.to_pylist()]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, (str, int)) else str(value)


def _safe(value: Any) -> Any:
    if isinstance(value, str):
        return defused(value)
    return "" if isinstance(value, float) and math.isnan(value) else value


def _cell(value: Any) -> str:
    return _number(value) if isinstance(value, float) else shown(str(value), _LONGEST)


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"


def _aligned(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns two spaces apart: the first to the left, the others to the right."""
    table = [list(header), *[list(row) for row in rows]]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in table
    )


def _warning_lines(warnings: Sequence[str]) -> list[str]:
    return [f"warning: {warning}" for warning in warnings]
