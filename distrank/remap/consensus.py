"""What dawid-skene and glad say about every annotator and every item, for label features.

Both are fitted on all judgments, honeypots included. The posteriors come back by item, in code order of query and item.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from distrank.contract import UNITS, Model
from distrank.engine.base import Engine, Placement, Report, Source
from distrank.errors import UsageError
from distrank.fit import Fit, fit
from distrank.models import make_model
from distrank.records import Array, Record
from distrank.remap.place import placeable
from distrank.tables.gold import Gold
from distrank.tables.judgments import Judgments
from distrank.tables.shards import Sharded, build_shards


@dataclass(frozen=True)
class Consensus:
    """By annotator code, and by item in code order (P(upper grade) under either model)."""

    grades: Array  # values of the two ratings
    confusion: Array  # P(label | grade) of dawid-skene: annotator, grade, label
    ability: Array  # of glad
    judgments: Array  # labels of every annotator
    lower: Array  # share of them that are the lower grade
    honeypots: Array  # share of right answers to honeypots; that of all annotators for those who had none
    dawid_skene: Array
    glad: Array
    easiness: Array  # of glad, by item
    converged: bool
    warnings: tuple[str, ...]


def fit_consensus(
    judgments: Judgments, gold: Gold | None, engine: Engine, report: Report, work: Path | None = None
) -> Consensus:
    """Fit both models where the engine runs; the ratings must have two distinct values. `work` is as in `train`."""
    sharded = build_shards(judgments, form="ratings", unit="item", split="never", gold=gold, graded=True)
    grades, counts = sharded.info.grades, sharded.info.annotator_judgments
    if len(grades) != 2 or judgments.rating is None:
        values = ", ".join(f"{value:g}" for value in grades)
        raise UsageError(
            f"label features are made of labels with two grades, and the ratings are {values}: make them two, "
            "for example relevant or not"
        )
    source = placeable(sharded.source, engine, work)
    fits = {name: _fitted(name, sharded, source, engine, report) for name in ("dawid-skene", "glad")}
    theta = {name: result.theta for name, (_, result) in fits.items()}
    posterior = {name: _in_code_order(sharded, result, "posterior")[:, 1] for name, (_, result) in fits.items()}
    right, asked = theta["dawid-skene"]["honeypots"].T
    overall = right.sum() / asked.sum() if asked.sum() else 0.5
    lower = np.bincount(judgments.annotator, (judgments.rating == grades[0]).astype(float), minlength=len(counts))
    return Consensus(
        grades=grades,
        confusion=theta["dawid-skene"]["confusion"],
        ability=theta["glad"]["ability"],
        judgments=counts,
        lower=lower / np.maximum(counts, 1),
        honeypots=np.where(asked > 0, right / np.maximum(asked, 1.0), overall),
        dawid_skene=posterior["dawid-skene"],
        glad=posterior["glad"],
        easiness=np.exp(_in_code_order(sharded, fits["glad"][1], "easiness")),
        converged=all(result.converged for _, result in fits.values()),
        warnings=tuple(
            dict.fromkeys(
                text
                for model, result in fits.values()
                for text in [*sharded.warnings, *model.warnings(result.theta, sharded.info)]
            )
        ),
    )


def _fitted(name: str, sharded: Sharded, source: Source, engine: Engine, report: Report) -> tuple[Model, Fit]:
    model = make_model(name, {})
    main = partial(fit, model=model, info=sharded.info, finish=_collect)
    return model, engine.execute(main, source, model, report)


def _collect(placement: Placement, theta: Record) -> list[Any]:
    return placement.map(_local_of, theta, on=UNITS)


def _local_of(number: int, shard: Record, local: Record, theta: Record) -> Record:  # noqa: ARG001
    return {name: local[name] for name in ("posterior", "easiness") if name in local}


def _in_code_order(sharded: Sharded, result: Fit, name: str) -> Array:
    """What the shards hold by item, put into the order of the items' codes."""
    if sharded.items is None:
        raise TypeError("the units are not items")
    found = np.concatenate([part[name] for part in result.results])
    ordered = np.empty_like(found)
    ordered[sharded.items.order] = found
    return ordered
