"""The Python front door: DataFrames in, DataFrames out, the same models and engines as the command line."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa

from distrank.engine.base import Engine, Report
from distrank.engine.choose import open_engine
from distrank.runs import MAX_REJECTED, Stages, all_warnings, annotators_of, fit_judgments, split_settings
from distrank.tables.gold import gold_from_frame
from distrank.tables.read import judgments_from_frame


@dataclass(frozen=True)
class Result:
    """What a fit gives: tables, and whether they can be trusted."""

    rankings: pd.DataFrame
    annotators: pd.DataFrame
    queries: pd.DataFrame
    rejected: pd.DataFrame
    converged: bool
    iterations: int
    trace: list[dict[str, float]]
    warnings: list[str]
    diagnosis: dict[str, Any]


class Aggregator:
    """A method with its settings; `fit` does the work and changes nothing on the object."""

    method: ClassVar[str]

    def __init__(self, **settings: Any) -> None:
        split_settings(self.method, settings)  # a wrong name or value is an error here, not after the reading
        self.settings = settings

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.settings.items())})"

    def fit(
        self,
        judgments: pd.DataFrame | pa.Table,
        *,
        gold: pd.DataFrame | pa.Table | None = None,
        columns: Mapping[str, str] | None = None,
        engine: Engine | str = "local",
        seed: int = 0,
        max_rejected: float = MAX_REJECTED,
        report: Report | None = None,
    ) -> Result:
        """Fit on a table of preferences, ratings or rankings.

        `engine` is "local", "ray" (a Ray of its own, or the one of the job that this is), or an engine from
        `distrank.engine.choose.open_engine` that is kept open for several fits.
        """
        model, input_settings = split_settings(self.method, self.settings)
        table = judgments_from_frame(judgments, columns=dict(columns or {}), duplicates=input_settings.duplicates)
        table.check_limit(max_rejected)
        truth = gold_from_frame(gold) if gold is not None else None
        stages = Stages(report or (lambda _: None))
        with ExitStack() as stack:
            place = stack.enter_context(open_engine(engine)) if isinstance(engine, str) else engine
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="distrank-")))
            sharded, result = fit_judgments(table, truth, model, place, stages, seed=seed, work=folder / "work")
        tables = {
            name: pa.concat_tables([part[name] for part in result.results]).to_pandas()
            for name in ("rankings", "queries")
        }
        return Result(
            rankings=tables["rankings"],
            annotators=annotators_of(sharded, model, result).to_pandas(),
            queries=tables["queries"],
            rejected=table.rejected.to_pandas(),
            converged=result.converged,
            iterations=result.iterations,
            trace=result.trace,
            warnings=all_warnings(table, sharded, model, result),
            diagnosis=model.diagnosis(result.theta),
        )


class CrowdBT(Aggregator):
    """Bradley-Terry scores with annotator quality; `distrank methods crowd-bt` lists the settings."""

    method = "crowd-bt"


class BradleyTerry(Aggregator):
    """Bradley-Terry scores, all annotators alike."""

    method = "bradley-terry"


class Borda(Aggregator):
    """The share of its comparisons that an item won."""

    method = "borda"
