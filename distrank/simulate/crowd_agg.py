"""Judgments of graded items with annotators who err or lie, to study robustness.  [Niu15], section 6.4

Every query has its own items, of grades 0-4 (preferences) or 0-1 (ratings), and its own annotators.

    preferences   every annotator judges `judgments` random pairs of different grade; the pair is reported in the true
                  order with the annotator's accuracy ~ Beta(8, 2)
    ratings       every annotator rates `judgments` random items 0 or 1, right with the annotator's accuracy

`spammers` and `malicious` add annotators, as a share of the honest ones of every query: a spammer has accuracy 0.5, a
malicious one always reports the opposite of the truth. The honest annotators say the same whoever is added.

[Niu15] Niu, Lan, Guo, Cheng, Yu, Long: Listwise approach for rank aggregation in crowdsourcing. WSDM 2015.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distrank.errors import UsageError
from distrank.records import Array
from distrank.settings import parse_settings, setting
from distrank.simulate.output import Simulated, Simulator, id_column, text_ids
from distrank.simulate.quality import kinds_of
from distrank.simulate.sampling import Purpose, distinct_samples, stream

GRADES = (0.4, 0.25, 0.15, 0.12, 0.08)  # P(grade = 0 .. 4)
ACCURACY = (8.0, 2.0)  # Beta


@dataclass(frozen=True)
class CrowdAggSimulation:
    """What `distrank simulate crowd-agg` takes."""

    form: str = setting("preferences", "what annotators are asked for", choices=("preferences", "ratings"))
    queries: int = setting(30, "number of queries", low=1)
    items: int | None = setting(None, "items of every query (none: 30 for preferences, 60 for ratings)", low=2)
    annotators: int | None = setting(
        None, "honest annotators of every query (none: 15 for preferences, 30 for ratings)", low=1
    )
    judgments: int | None = setting(
        None, "judgments of every annotator (none: 40 pairs of different grade, or 10 ratings)", low=1
    )
    relevant: float = setting(0.35, "share of items of grade 1, for ratings", low=0.0, high=1.0)
    spammers: float = setting(0.0, "annotators added who guess, as a share of the honest ones", low=0.0)
    malicious: float = setting(0.0, "annotators added who always lie, as a share of the honest ones", low=0.0)
    seed: int = setting(0, "seed of all random numbers", low=0)


def simulate_crowd_agg(**settings: Any) -> Simulated:
    """Simulate with the settings of `CrowdAggSimulation`; tables preferences or ratings, gold and annotators."""
    return simulated_tables(parse_settings(CrowdAggSimulation, settings))


def simulated_tables(settings: CrowdAggSimulation) -> Simulated:
    """The simulation as tables with ids."""
    pairs = settings.form == "preferences"
    items = settings.items or (30 if pairs else 60)
    honest = settings.annotators or (15 if pairs else 30)
    asked = settings.judgments or (40 if pairs else 10)
    if not pairs and asked > items:
        raise UsageError(f"judgments={asked}: an annotator cannot rate more than the {items} items of a query")
    grade = _grades(settings, items)
    accuracy = _accuracies(settings, honest)
    crowd = accuracy.shape[1]
    judge = _preferences if pairs else _ratings
    query, annotator, columns = judge(settings, grade, accuracy, asked)
    ids = _Ids(settings.queries, items, crowd)
    named = {name: ids.item(column) if name != "rating" else pa.array(column) for name, column in columns.items()}
    table = pa.table({"query": ids.query(query), "annotator": ids.annotator(annotator), **named})
    numbers = np.arange(settings.queries)
    gold = pa.table(
        {
            "query": ids.query(np.repeat(numbers, items)),
            "item": ids.item(np.arange(grade.size)),
            "relevance": grade.ravel(),
        }
    )
    truth = pa.table(
        {
            "annotator": ids.annotator(np.arange(accuracy.size)),
            "quality": accuracy.ravel(),
            "kind": pa.array(kinds_of(accuracy.ravel()), pa.string()),
        }
    )
    return Simulated({settings.form: table, "gold": gold, "annotators": truth})


def _grades(settings: CrowdAggSimulation, items: int) -> Array:
    """The grade of every item, at least two different ones in a query of preferences."""
    generator = stream(settings.seed, Purpose.SCORES)
    if settings.form == "ratings":
        return (generator.random((settings.queries, items)) < settings.relevant).astype(np.int64)
    grade = np.searchsorted(np.cumsum(GRADES), generator.random((settings.queries, items)), side="right")
    grade = np.minimum(grade, len(GRADES) - 1)
    flat = (grade == grade[:, :1]).all(axis=1)
    grade[flat, 0] = (grade[flat, 0] + 1) % len(GRADES)
    return grade


def _accuracies(settings: CrowdAggSimulation, honest: int) -> Array:
    """By query and annotator: the honest ones first, then spammers, then malicious ones."""
    drawn = stream(settings.seed, Purpose.QUALITY).beta(*ACCURACY, (settings.queries, honest))
    added = [np.full(round(settings.spammers * honest), 0.5), np.zeros(round(settings.malicious * honest))]
    return np.hstack([drawn, np.tile(np.concatenate(added), (settings.queries, 1))])


_Judged = tuple[Array, Array, dict[str, Array]]


def _preferences(settings: CrowdAggSimulation, grade: Array, accuracy: Array, asked: int) -> _Judged:
    """Random pairs of different grade; annotators draw one after the other, so that more of them change nothing."""
    queries, crowd = accuracy.shape
    items = grade.shape[1]
    left = np.empty((crowd, queries, asked), np.int64)
    right = np.empty_like(left)
    pairs, outcomes = stream(settings.seed, Purpose.PAIRS), stream(settings.seed, Purpose.OUTCOMES)
    chance = np.empty((crowd, queries, asked))
    row = np.arange(queries)[:, None]
    for k in range(crowd):
        one, two = pairs.integers(0, items, (2, queries, asked))
        while (same := grade[row, one] == grade[row, two]).any():
            one[same], two[same] = pairs.integers(0, items, (2, int(same.sum())))
        left[k], right[k], chance[k] = one, two, outcomes.random((queries, asked))
    first_better = grade[row, left] > grade[row, right]
    correct = chance < accuracy.T[:, :, None]
    left, right = left + row * items, right + row * items
    winner = np.where(first_better == correct, left, right)
    query, annotator = _judges(crowd, queries, asked)
    return query, annotator, {"winner": winner.ravel(), "loser": (left + right - winner).ravel()}


def _ratings(settings: CrowdAggSimulation, grade: Array, accuracy: Array, asked: int) -> _Judged:
    queries, crowd = accuracy.shape
    items = grade.shape[1]
    generator, outcomes = stream(settings.seed, Purpose.PAIRS), stream(settings.seed, Purpose.OUTCOMES)
    item = np.stack([distinct_samples(generator, queries, asked, items) for _ in range(crowd)])
    chance = np.stack([outcomes.random((queries, asked)) for _ in range(crowd)])
    truth = grade[np.arange(queries)[:, None], item]
    rating = np.where(chance < accuracy.T[:, :, None], truth, 1 - truth)
    query, annotator = _judges(crowd, queries, asked)
    item = item + np.arange(queries)[:, None] * items
    return query, annotator, {"item": item.ravel(), "rating": rating.ravel()}


def _judges(crowd: int, queries: int, asked: int) -> tuple[Array, Array]:
    """Query and annotator of every judgment, annotator by annotator."""
    annotator, query, _ = np.indices((crowd, queries, asked))
    return query.ravel(), (query * crowd + annotator).ravel()


class _Ids:
    """Ids from codes; items and annotators carry their query's id."""

    def __init__(self, queries: int, items: int, annotators: int) -> None:
        self.queries = text_ids("q", queries)
        self.items = self._in_query("i", items)
        self.annotators = self._in_query("a", annotators)

    def _in_query(self, prefix: str, count: int) -> Any:
        query = self.queries.take(pa.array(np.repeat(np.arange(len(self.queries)), count)))
        own = text_ids(prefix, count).take(pa.array(np.tile(np.arange(count), len(self.queries))))
        return pc.binary_join_element_wise(query, own, "-")

    def query(self, codes: Array) -> Any:
        return id_column(codes, self.queries)

    def item(self, codes: Array) -> Any:
        return id_column(codes, self.items)

    def annotator(self, codes: Array) -> Any:
        return id_column(codes, self.annotators)


SIMULATOR = Simulator(
    title="graded items judged by annotators of whom some guess or lie",
    paper="Niu et al., WSDM 2015",
    Settings=CrowdAggSimulation,
    run=simulated_tables,
)
