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
from crowds import crowd, degenerate, degenerate_rankings, degenerate_ratings, ranked_crowd, rated_crowd
from ranked import NEED_GOLD, features_of, gold_of, rankings_of

from distrank.contract import Model
from distrank.engine.base import Engine, FileSource
from distrank.engine.local import LocalEngine
from distrank.fit import CheckpointStore, Fit, fit
from distrank.models import MODELS, get_model, make_model
from distrank.records import digest
from distrank.runs import finish_tables, result_tables
from distrank.tables.evidence import collect_evidence
from distrank.tables.feature_nodes import Training, with_training
from distrank.tables.features import features_from_frame
from distrank.tables.gold import gold_from_frame
from distrank.tables.outputs import IdTypes, annotators_table
from distrank.tables.read import judgments_from_frame
from distrank.tables.shards import Sharded, build_shards

# Settings that change what a model computes obey the laws as well: `name[setting=value]`, several with semicolons.
VARIANTS = (
    "bradley-terry[ties=davidson]",
    "crowd-agg[measure=rbp;pair_model=step]",
    "crowd-agg[quality_scope=query;quality_prior=4,2]",
    "crowd-bt[quality_prior=4,2]",
    "crowd-bt[ties=davidson]",
    "crowd-bt-online[ties=drop]",
    "ltrma[exact_items=2;samples=60]",
    "ltrma[w_step=expectation;max_iterations=4]",
    "ltrma[top_k=3;samples=60;w_step=expectation;max_iterations=4]",
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
    made = {"ratings": rated_crowd, "rankings": ranked_crowd}
    return made.get(model_of(name).form, crowd)(seed, **sizes)


def degenerate_for(name: str) -> dict[str, pd.DataFrame]:
    """Data in the form that the model takes that a careless one breaks on."""
    made = {"ratings": degenerate_ratings, "rankings": degenerate_rankings}
    return made.get(model_of(name).form, degenerate)()


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


def shards_for(
    model: Model | type[Model],
    frame: pd.DataFrame,
    *,
    gold: pd.DataFrame | None = None,
    rows_per_shard: int = 250_000,
) -> Sharded:
    """Preferences in the form that the model takes, with what else it needs."""
    layout: dict[str, Any] = {"unit": model.unit, "split": model.split}
    layout |= {"rows_per_shard": rows_per_shard, "graded": model.graded}
    if model.features:
        known = gold_of(frame) if model.name in NEED_GOLD else gold
        truth = gold_from_frame(known) if known is not None else None
        plain = build_shards(judgments_from_frame(rankings_of(frame)), form=model.form, **layout)
        return with_training(plain, Training(features_from_frame(features_of(frame))), truth)
    truth = gold_from_frame(gold) if gold is not None else None
    judgments = judgments_from_frame(frame)
    return build_shards(judgments, form=model.form_for(judgments.form), gold=truth, **layout)


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
    sharded = shards_for(model, frame, gold=gold, rows_per_shard=rows_per_shard)
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
