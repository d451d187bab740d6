"""The Python front door: DataFrames in, DataFrames out, the same models and engines as the command line."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa

from distrank.contract import Model
from distrank.engine.base import Engine, Report
from distrank.engine.choose import open_engine
from distrank.errors import UsageError
from distrank.fit import Fit
from distrank.rankers import Ranker, ranker_of, scored
from distrank.runs import (
    MAX_REJECTED,
    Stages,
    all_warnings,
    annotators_of,
    check_training,
    fit_judgments,
    result_tables,
    split_settings,
    started_model,
)
from distrank.store.learned import LearnedUnits
from distrank.tables.annotator_info import annotator_info_from_frame
from distrank.tables.continuation import Past, last_timestamp, past_warnings
from distrank.tables.feature_nodes import Training
from distrank.tables.features import features_from_frame
from distrank.tables.gold import gold_from_frame
from distrank.tables.judgments import Judgments
from distrank.tables.read import judgments_from_frame
from distrank.tables.shards import Sharded
from distrank.updates import check_ordered


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
    origin: Origin | None = field(default=None, repr=False)
    ranker: Ranker | None = field(default=None, repr=False)  # of methods that learn one

    def score(self, features: pd.DataFrame | pa.Table) -> pd.DataFrame:
        """`query, item, rank, score` by the ranker that was learned, for any items with its features."""
        if self.ranker is None:
            raise UsageError("this method learns no ranker; LTRMA, LTRMADirect, ListMLE and LRegMA do")
        return scored(self.ranker, features_from_frame(features)).to_pandas()

    def update(
        self,
        judgments: pd.DataFrame | pa.Table,
        *,
        columns: Mapping[str, str] | None = None,
        engine: Engine | str = "local",
        max_rejected: float = MAX_REJECTED,
        report: Report | None = None,
    ) -> Result:
        """Go on with new judgments and without the old ones, for methods that read judgments in time order.

        A new result; this one stays as it is. `distrank update` is the same for published runs.
        """
        if self.origin is None:
            raise UsageError("a result that was not made by `fit` or `update` cannot be continued")
        aggregator, past, seed = self.origin.aggregator, self.origin.past, self.origin.seed
        if past is None:
            check_ordered(aggregator.model)
        place: dict[str, Any] = {"engine": engine, "max_rejected": max_rejected, "report": report}
        return aggregator._fit(judgments, None, columns, seed=seed, past=past, **place)


@dataclass(frozen=True)
class Origin:
    """What a result can go on from."""

    aggregator: Aggregator
    past: Past | None  # None for methods that look at all judgments together
    seed: int


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
        judgments: pd.DataFrame | pa.Table | Sequence[pd.DataFrame | pa.Table],
        *,
        gold: pd.DataFrame | pa.Table | None = None,
        columns: Mapping[str, str] | None = None,
        engine: Engine | str = "local",
        seed: int = 0,
        max_rejected: float = MAX_REJECTED,
        report: Report | None = None,
    ) -> Result:
        """Fit on a table of preferences, ratings or rankings, or on several of them together.

        `engine` is "local", "ray" (a Ray of its own, or the one of the job that this is), or an engine from
        `distrank.engine.choose.open_engine` that is kept open for several fits.
        """
        place: dict[str, Any] = {"engine": engine, "max_rejected": max_rejected, "report": report}
        return self._fit(judgments, gold, columns, seed=seed, past=None, **place)

    @property
    def model(self) -> Model:
        """The model with its settings."""
        return split_settings(self.method, self.settings)[0]

    def _fit(
        self,
        judgments: pd.DataFrame | pa.Table,
        gold: pd.DataFrame | pa.Table | None,
        columns: Mapping[str, str] | None,
        *,
        engine: Engine | str,
        seed: int,
        max_rejected: float,
        report: Report | None,
        past: Past | None,
        training: Training | None = None,
    ) -> Result:
        model, input_settings = split_settings(self.method, self.settings)
        model, earlier = started_model(model)
        check_training(model, features=training is not None)
        table = judgments_from_frame(judgments, columns=dict(columns or {}), duplicates=input_settings.duplicates)
        table.check_limit(max_rejected)
        table = replace(table, sparsity=input_settings.sparsity, seed=seed)
        if past is not None:
            table = replace(table, warnings=past_warnings(past, table, input_settings.duplicates))
        truth = gold_from_frame(gold) if gold is not None else None
        stages = Stages(report or (lambda _: None))
        with ExitStack() as stack:
            place = stack.enter_context(open_engine(engine)) if isinstance(engine, str) else engine
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="distrank-")))
            before: dict[str, Any] = {"past": past, "earlier": earlier, "training": training}
            sharded, result = fit_judgments(
                table, truth, model, place, stages, seed=seed, work=folder / "work", **before
            )
        tables = {name: pa.concat_tables(pieces).to_pandas() for name, pieces in result_tables(sharded, result).items()}
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
            origin=Origin(self, past_of(model, sharded, result, past, table), seed),
            ranker=None if training is None else ranker_of(model.learned(result.theta, sharded.info)),
        )


def past_of(model: Model, sharded: Sharded, result: Fit, past: Past | None, table: Judgments) -> Past | None:
    """What a fit in memory leaves to go on from."""
    learned = model.learned(result.theta, sharded.info)
    if learned is None or not model.traits.ordered:
        return None
    (part,) = result.results
    units: LearnedUnits = part["learned"]
    return Past(
        queries=units.queries,
        items=units.items,
        annotators=sharded.annotators,
        units=units.record,
        parameters=learned.parameters,
        annotator_judgments=sharded.info.annotator_judgments,
        judgments=sharded.info.judgments,
        last_timestamp=last_timestamp(past, table.timestamp),
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


class Thurstone(Aggregator):
    """crowd-bt with the probit link."""

    method = "thurstone"


class VarianceBT(Aggregator):
    """Bradley-Terry scores with a scale for every annotator."""

    method = "variance-bt"


class MajorityBT(Aggregator):
    """Bradley-Terry scores from the majority of every pair."""

    method = "majority-bt"


class CrowdBTOnline(Aggregator):
    """crowd-bt in one pass in time order; `.fit(frame).update(more)` goes on with new judgments."""

    method = "crowd-bt-online"


class TPP(Aggregator):
    """Scores with query difficulty, domains and expertise by domain."""

    method = "tpp"


class TRM(Aggregator):
    """Scores from full and partial rankings, all annotators alike."""

    method = "trm"


class TrueSkill(Aggregator):
    """TrueSkill in one pass in time order; `.fit(frame).update(more)` goes on with new judgments."""

    method = "trueskill"


class DawidSkene(Aggregator):
    """Soft labels from ratings, with the confusion matrix of every annotator."""

    method = "dawid-skene"


class Glad(Aggregator):
    """Soft labels from ratings, with the ability of annotators and the difficulty of items."""

    method = "glad"


class Majority(Aggregator):
    """The grade that most annotators gave."""

    method = "majority"


class Average(Aggregator):
    """The mean rating."""

    method = "average"


class Learner(Aggregator):
    """A method that learns a ranker; `result.score(features)` uses it."""

    def fit(  # type: ignore[override]
        self,
        judgments: pd.DataFrame | pa.Table,
        features: pd.DataFrame | pa.Table,
        *,
        gold: pd.DataFrame | pa.Table | None = None,
        annotator_info: pd.DataFrame | pa.Table | None = None,
        columns: Mapping[str, str] | None = None,
        engine: Engine | str = "local",
        seed: int = 0,
        max_rejected: float = MAX_REJECTED,
        report: Report | None = None,
    ) -> Result:
        """Fit on rankings (query, annotator, item, rank) and features (query, item, numbers).

        `gold` are true rankings of some queries, `annotator_info` statements about annotators' expertise.
        """
        info = None if annotator_info is None else annotator_info_from_frame(annotator_info)
        training = Training(features_from_frame(features), info)
        place: dict[str, Any] = {"engine": engine, "max_rejected": max_rejected, "report": report}
        return self._fit(judgments, gold, columns, seed=seed, past=None, training=training, **place)


class LTRMA(Learner):
    """A ranker from crowd rankings, with true rankings and the expertise of every annotator."""

    method = "ltrma"


class LTRMADirect(Learner):
    """Aggregate the rankings first, learn a ranker afterwards."""

    method = "ltrma-d"


class ListMLE(Learner):
    """A ranker from known rankings (gold)."""

    method = "listmle"


class LRegMA(Learner):
    """A ranker by regression on ranks, with the precision of every annotator."""

    method = "lregma"


class CrowdAgg(Aggregator):
    """The order of best expected NDCG or RBP over annotators of estimated quality."""

    method = "crowd-agg"


class MedianRank(Aggregator):
    """The median over annotators of the share of its contests that an item won."""

    method = "median-rank"


class Condorcet(Aggregator):
    """A sort by the majority of every pair."""

    method = "condorcet"


class GreedyOrder(Aggregator):
    """The item that leads most over the rest comes next."""

    method = "greedy-order"


class SVP(Aggregator):
    """Scores from the rank-2 completion of the pairwise preferences."""

    method = "svp"


class EMElo(Aggregator):
    """Pairs settled by EM over annotators, then Elo ratings in the order of time."""

    method = "em-elo"


class MPM(Aggregator):
    """Multinomial preferences, with the adherence of every annotator."""

    method = "mpm"


class PlackettLuce(Aggregator):
    """Scores from lists as series of choices."""

    method = "plackett-luce"


class Mallows(Aggregator):
    """A consensus of lists by Kendall distance, with the dispersion of every annotator."""

    method = "mallows"
