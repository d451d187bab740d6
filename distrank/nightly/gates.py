"""Gates: what a result must fulfil before it is published. A result that does not leaves `latest` as it was."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from distrank.changes import Changes
from distrank.errors import DistrankError
from distrank.nightly.config import Gates
from distrank.tables.ids import show_id
from distrank.tables.read import read_table


class GateError(DistrankError):
    """A result that was not published; the message names every gate that it failed."""


def check_gates(gates: Gates, facts: Mapping[str, Any], agreement: float | None, changes: Changes | None) -> None:
    """Refuse a result; all gates are looked at, so that one night tells all there is to tell.

    `agreement` is that with gold, `changes` those since the last run; None where there is neither.
    """
    failed = []
    data, convergence = facts["input"], facts["convergence"]
    if data["judgments"] < gates.min_judgments:
        failed.append(f"min_judgments={gates.min_judgments:,}: there are {data['judgments']:,} judgments")
    if gates.require_converged and not convergence["converged"]:
        failed.append(
            f"require_converged: the fit ended after {convergence['iterations']} iterations without converging"
        )
    if gates.min_gold_agreement is not None:
        if agreement is None:
            failed.append(f"min_gold_agreement={gates.min_gold_agreement:g}: there is no gold that orders judged items")
        elif agreement < gates.min_gold_agreement:
            failed.append(
                f"min_gold_agreement={gates.min_gold_agreement:g}: the agreement with gold is {agreement:.4f}"
            )
    if gates.max_rank_change is not None and changes is not None and changes.ranks["largest"] > gates.max_rank_change:
        (mover,) = changes.movers[:1]
        failed.append(
            f"max_rank_change={gates.max_rank_change}: item {show_id(mover.item)} of query {show_id(mover.query)} went "
            f"from rank {mover.before} to {mover.after}"
        )
    if failed:
        raise GateError(
            f"not published, {len(failed)} of the gates failed: {'; '.join(failed)}. The last run stays the latest"
        )


def gold_agreement(facts: Mapping[str, Any], rankings: Path, gold: str | None) -> float | None:
    """The share of gold pairs that the result has in the true order: as the model counted it, or from the rankings."""
    if gold is None:
        return None
    counted = facts["convergence"].get("gold")
    if counted is not None:
        return counted["right"] / counted["pairs"] if counted["pairs"] else None
    table = read_table(gold)
    if "relevance" not in table.column_names:
        return None
    from distrank.evaluate import evaluate  # noqa: PLC0415 (metrics, only where the model counted nothing itself)

    evaluation = evaluate(pq.read_table(rankings), table, "accuracy")
    return evaluation.means["accuracy"] if evaluation.defined["accuracy"] else None
