"""Fits of the pairwise models on small crowds, with scores by item code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from literal_pairwise import Crowd

from distrank.contract import Info, Model
from distrank.engine.base import Placement
from distrank.engine.local import LocalEngine
from distrank.fit import Fit, fit
from distrank.models import get_model, make_model
from distrank.records import Array, Record
from distrank.tables.gold import Gold
from distrank.tables.ids import unpack_ids
from distrank.tables.shards import Sharded, build_shards


@dataclass(frozen=True)
class Fitted:
    """A fit, and what it says about items and annotators."""

    model: Model
    info: Info
    fit: Fit
    score: Array
    agreement: Array  # of the queries, by code
    annotators: Record

    @property
    def objective(self) -> float:
        return float(self.fit.theta["objective"])


def shards_of(
    data: Crowd, *, name: str = "crowd-bt", rows_per_shard: int = 250_000, gold: Array | None = None
) -> Sharded:
    """The shards of a crowd, as the model of this name takes them."""
    truth = None
    if gold is not None:
        known = np.flatnonzero(~np.isnan(gold))
        queries = np.zeros(data.items, np.int64)
        queries[data.winner], queries[data.loser] = data.query, data.query
        truth = Gold(pa.array(queries[known]), pa.array(known), gold[known])
    kind = get_model(name)
    return build_shards(data.judgments(), form=kind.form, split=kind.split, gold=truth, rows_per_shard=rows_per_shard)


def fitted(data: Crowd | Sharded, name: str, *, workers: int = 2, **settings: Any) -> Fitted:
    """Fit a model; `rows_per_shard` and `gold` are for the shards, the rest are settings."""
    cut = {key: settings.pop(key) for key in ("rows_per_shard", "gold") if key in settings}
    sharded = data if isinstance(data, Sharded) else shards_of(data, name=name, **cut)
    model = make_model(name, settings)
    main = partial(fit, model=model, info=sharded.info, finish=partial(_finish, model))
    with LocalEngine(workers) as engine:
        result = engine.execute(main, sharded.source, model, lambda _: None)
    score, agreement = np.full(sharded.info.items, np.nan), np.full(sharded.info.queries, np.nan)
    for items, values, queries, agreed in result.results:
        score[items] = values
        agreement[queries] = agreed
    return Fitted(model, sharded.info, result, score, agreement, model.annotators(result.theta, sharded.info))


def _finish(model: Model, placement: Placement, theta: Record) -> list[Any]:
    return [
        found
        for name in ("units", "parts")
        for found in placement.map(partial(_finish_shard, model), theta, on=name)
        if found is not None
    ]


def _finish_shard(model: Model, number: int, shard: Record, local: Record, theta: Record) -> Any:
    if not bool(shard.get("part.first", np.asarray(True))):
        return None
    tables = model.finalize(shard, local, theta)
    items, queries = (unpack_ids(shard, name, pa.int64()).to_numpy() for name in ("node.id", "unit.id"))
    return items, tables["rankings"]["score"], queries, tables["queries"]["agreement"]
