"""Fitting a registered model on a small table, in any place and any cut, with everything that the laws compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from crowds import crowd, degenerate, degenerate_ratings, rated_crowd

from distrank.contract import Model
from distrank.engine.base import Engine, FileSource
from distrank.engine.local import LocalEngine
from distrank.fit import CheckpointStore, Fit, fit
from distrank.models import MODELS, get_model, make_model
from distrank.records import digest
from distrank.runs import finish_tables, result_tables
from distrank.tables.evidence import collect_evidence
from distrank.tables.gold import gold_from_frame
from distrank.tables.outputs import IdTypes, annotators_table
from distrank.tables.read import judgments_from_frame
from distrank.tables.shards import build_shards

# Settings that change what a model computes obey the laws as well: `name[setting=value]`, several with semicolons.
VARIANTS = (
    "bradley-terry[ties=davidson]",
    "crowd-agg[measure=rbp;pair_model=step]",
    "crowd-agg[quality_scope=query;quality_prior=4,2]",
    "crowd-bt[quality_prior=4,2]",
    "crowd-bt[ties=davidson]",
    "crowd-bt-online[ties=drop]",
    "mallows[exact_items=1]",
    "thurstone[annotator_quality=equal;ties=drop]",
    "thurstone[quality_prior=2,1]",
)
ALL = sorted([*MODELS, *VARIANTS])


def parsed(name: str) -> tuple[str, dict[str, str]]:
    """The model and the settings that a name of the list stands for."""
    model, _, rest = name.removesuffix("]").partition("[")
    return model, dict(part.split("=", maxsplit=1) for part in rest.split(";") if part)


def model_of(name: str) -> type[Model]:
    """The class behind a name of the list."""
    return get_model(parsed(name)[0])


def models_with(**traits: bool) -> list[str]:
    """The models whose traits have these values."""
    return [name for name in ALL if all(getattr(model_of(name).traits, key) == value for key, value in traits.items())]


def models_under(law: str) -> list[str]:
    """The models that did not opt out of a law."""
    return [name for name in ALL if law not in model_of(name).traits.opted_out]


def judgments_for(name: str, seed: int, **sizes: int) -> pd.DataFrame:
    """A crowd in the form that the model takes."""
    return (rated_crowd if model_of(name).form == "ratings" else crowd)(seed, **sizes)


def degenerate_for(name: str) -> dict[str, pd.DataFrame]:
    """Data in the form that the model takes that a careless one breaks on."""
    return degenerate_ratings() if model_of(name).form == "ratings" else degenerate()


@dataclass(frozen=True)
class Outcome:
    """A fit and its tables."""

    model: Model
    fit: Fit
    rankings: pd.DataFrame
    annotators: pd.DataFrame
    queries: pd.DataFrame

    def scores(self) -> dict[tuple[Any, Any], float]:
        frame = self.rankings
        return dict(zip(zip(frame["query"], frame["item"], strict=True), frame["score"], strict=True))

    def qualities(self) -> dict[Any, float]:
        return dict(zip(self.annotators["annotator"], self.annotators["quality"], strict=True))

    def bytes(self) -> str:
        """A digest that is equal exactly when parameters, trace and tables are the same bytes."""
        columns = [
            {name: column.to_numpy() for name, column in frame.select_dtypes("number").items()}
            for frame in (self.rankings, self.annotators, self.queries)
        ]
        ids = [{"text": np.array(frame.iloc[:, :2].astype(str).to_numpy().tolist())} for frame in (self.rankings,)]
        if "evidence" in self.annotators:
            ids.append({"evidence": np.array([str(list(cell)) for cell in self.annotators["evidence"]])})
        trace = [{name: np.array(value) for name, value in entry.items()} for entry in self.fit.trace]
        return digest([dict(self.fit.theta), *trace, *columns, *ids])


def run_model(
    name: str,
    frame: pd.DataFrame,
    *,
    settings: Mapping[str, Any] | None = None,
    gold: pd.DataFrame | None = None,
    engine: Engine | None = None,
    rows_per_shard: int = 250_000,
    seed: int = 0,
    checkpoints: CheckpointStore | None = None,
    resume: bool = False,
    work: Path | None = None,
) -> Outcome:
    """Fit one model; `rows_per_shard` makes several shards, or parts of a query, out of a small table."""
    method, own = parsed(name)
    model = make_model(method, {**own, **(settings or {})})
    judgments = judgments_from_frame(frame)
    truth = gold_from_frame(gold) if gold is not None else None
    form = model.form_for(judgments.form)
    sharded = build_shards(
        judgments,
        form=form,
        unit=model.unit,
        split=model.split,
        gold=truth,
        graded=model.graded,
        rows_per_shard=rows_per_shard,
    )
    source: Any = sharded.source if work is None else FileSource.write(work, sharded.source)
    types = IdTypes(sharded.query_type, sharded.item_type)
    main = partial(
        fit,
        model=model,
        info=sharded.info,
        seed=seed,
        checkpoints=checkpoints,
        resume=resume,
        finish=partial(finish_tables, model, types, None),
        collect=partial(collect_evidence, model, sharded.info, types),
    )
    if engine is None:
        with LocalEngine(2) as own:
            result = own.execute(main, source, model, lambda _: None)
    else:
        result = engine.execute(main, source, model, lambda _: None)
    tables = {key: pa.concat_tables(pieces).to_pandas() for key, pieces in result_tables(sharded, result).items()}
    columns = model.annotators(result.theta, sharded.info)
    annotators = annotators_table(sharded.annotators, columns, sharded.info, result.evidence)
    return Outcome(model, result, tables["rankings"], annotators.to_pandas(), tables["queries"])
