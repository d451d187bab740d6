"""Learned rankers from `model/` of a run, and the scores that they give to items.

A ranker knows the features that it was learned from by name: a features table must have them, and may have more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from distrank.contract import Learned
from distrank.errors import StoreError
from distrank.kernels.plackett_luce import scores_of
from distrank.records import Array
from distrank.remap.saved import FACTS, FOLDER, read_ranker
from distrank.store.learned import FACTS as LEARNED
from distrank.store.learned import SavedModel
from distrank.store.publish import PublishedRun
from distrank.tables.feature_nodes import CodedFeatures
from distrank.tables.features import Features


class Ranker(Protocol):
    """Scores from features; higher is better, and only the order within a query means something."""

    def score(self, features: Features) -> Array: ...


@dataclass(frozen=True)
class LinearRanker:
    """A weight for every feature as it comes."""

    features: tuple[str, ...]
    coefficients: Array
    shift: float

    def score(self, features: Features) -> Array:
        score = np.zeros(len(features))
        values = np.ascontiguousarray(features.values[:, features.places(self.features)])
        scores_of(values, self.coefficients, self.shift, score)
        return score


def open_ranker(run: PublishedRun) -> Ranker:
    """The ranker that a run learned; the files are checked against the run's manifest."""
    if run.has(f"{FOLDER}/{FACTS}"):
        return read_ranker(run)
    ranker = None
    if run.has(f"{FOLDER}/{LEARNED}"):
        saved = SavedModel.open(run)
        ranker = ranker_of(Learned(saved.parameters(), saved.facts))
    if ranker is None:
        raise StoreError(f"run {run.run_id} holds no ranker; make one with `distrank learn` or `distrank remap`")
    return ranker


def ranker_of(learned: Learned | None) -> LinearRanker | None:
    """The ranker in what a model learned, if there is one."""
    if learned is None or learned.facts.get("ranker") != "linear":
        return None
    parameters = learned.parameters
    return LinearRanker(tuple(learned.facts["features"]), parameters["coefficients"], float(parameters["shift"]))


def scored(ranker: Ranker, features: Features) -> pa.Table:
    """`query, item, rank, score` of every row of the features; equal scores go by item id."""
    coded = CodedFeatures.of(features)
    score = ranker.score(features)[coded.row]
    order = np.lexsort((coded.item, -score, coded.query))
    query = coded.query[order]
    return pa.table(
        {
            "query": coded.queries.take(pa.array(query)),
            "item": coded.items.take(pa.array(coded.item[order])),
            "rank": np.arange(len(query)) - np.searchsorted(query, query) + 1,
            "score": score[order],
        }
    )
