"""Rankings by a crowd over items with features and a true ranking.  [Wu16], section 6

    case=paper   section 6.1.1: 100 queries of 15 points in the unit square, true score x1 + 10 x2 + noise of 0.005;
                 theta of the first annotator -2.5, of the others between -2.5 and -0.5
    case=hard    30 queries of 10 such points; theta of the first annotator -0.6, of the others between -0.6 and -0.05

    law=distance   equation 56: the distance v >= 1 of a label from the truth is drawn by weight e^(theta v), and then a
                   permutation at this distance. Not Mallows' law: labels are nearly right even at theta = -0.5
    law=mallows    permutations by weight e^(theta d)
    law=rankers    annotators are ListMLE rankers on shares of the features, the last on all, learned on every second
                   item of the queries; they rank the others (as in section 6.2.1)

With `features`, queries, items and grades come from a file (SVMlight, or a table with a relevance column) and the true
ranking is one that agrees with the grades, drawn at random (section 6.1.2). A share of its queries is held out.

[Wu16] Wu, You, Xia, Ma, Hu: Listwise learning to rank from crowds. ACM TKDD 11(1), 2016.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from distrank.errors import UsageError
from distrank.records import Array
from distrank.settings import parse_settings, setting
from distrank.simulate.output import Simulated, Simulator, text_ids
from distrank.simulate.permutations import distance_shares, exact_insertions, insert, mallows_insertions
from distrank.simulate.sampling import Purpose, stream
from distrank.simulate.subset_rankers import ranked_by_subsets
from distrank.tables.feature_nodes import CodedFeatures
from distrank.tables.features import Features, read_features

CASES: dict[str, dict[str, Any]] = {
    "paper": {"queries": 100, "items": 15, "best": -2.5, "low": -2.5, "high": -0.5},
    "hard": {"queries": 30, "items": 10, "best": -0.6, "low": -0.6, "high": -0.05},
}
NOISE = 0.005


@dataclass(frozen=True)
class LTRMASimulation:
    """What `distrank simulate ltrma` takes; what is not given is as in the case."""

    case: str = setting("paper", "sizes and expertise of section 6.1.1, or noisy annotators", choices=tuple(CASES))
    queries: int | None = setting(None, "training queries", low=1)
    items: int | None = setting(None, "items of every query (with features: the most that a query keeps)", low=2)
    annotators: int = setting(10, "number of annotators (G)", low=1)
    best: float | None = setting(None, "theta of the first annotator")
    low: float | None = setting(None, "lowest theta of the others")
    high: float | None = setting(None, "highest theta of the others")
    law: str = setting("mallows", "how annotators err", choices=("mallows", "distance", "rankers"))
    top_k: int | None = setting(None, "annotators give the first k items only; none: whole rankings", low=1)
    known: float = setting(0.0, "share of the training queries whose true ranking is in `known`", low=0.0, high=1.0)
    test: int = setting(500, "queries to test on, without annotators", low=0)
    features: str | None = setting(None, "file of features with grades to take queries from, in place of points")
    held_out: float = setting(0.2, "share of that file's queries to test on", low=0.0, high=0.9)
    seed: int = setting(0, "seed of all random numbers", low=0)


@dataclass(frozen=True)
class Query:
    """Items with features, their grades, and the true ranking (item numbers, best first)."""

    name: str
    items: list[str]
    features: Array
    grade: Array
    order: Array


def simulate_ltrma(**settings: Any) -> Simulated:
    """Simulate with the settings of `LTRMASimulation`.

    rankings                        query, annotator, item, rank
    features, gold                  of the training queries; gold is the grade: n for the best of n points, down to 1
    test_features, test_gold        of the queries to test on
    known                           query, item, relevance: the true rankings that are given
    annotators                      annotator, theta (NaN for rankers)
    """
    return simulated_tables(parse_settings(LTRMASimulation, settings))


def simulated_tables(settings: LTRMASimulation) -> Simulated:
    settings = replace(settings, **{k: v for k, v in CASES[settings.case].items() if getattr(settings, k) is None})
    train, test, names = _points(settings) if settings.features is None else _from_file(settings)
    if settings.law == "rankers":
        train, labels = ranked_by_subsets(train, settings.annotators, stream(settings.seed, Purpose.LABELS))
        theta = np.full(settings.annotators, np.nan)
    else:
        theta = _expertise(settings)
        labels = _labels(settings, train, theta)
    annotators = text_ids("a", settings.annotators).to_pylist()
    known = _known(settings, train)
    return Simulated(
        {
            "rankings": _rankings(train, labels, annotators, settings.top_k),
            "features": _features(train, names),
            "gold": _gold([(query, query.grade) for query in train]),
            "known": _gold([(query, _from_order(query.order)) for query in known]),
            "test_features": _features(test, names),
            "test_gold": _gold([(query, query.grade) for query in test]),
            "annotators": pa.table({"annotator": annotators, "theta": theta}),
        }
    )


def _points(settings: LTRMASimulation) -> tuple[list[Query], list[Query], list[str]]:
    """Points of the unit square, ranked by a linear score with a little noise."""
    generator = stream(settings.seed, Purpose.ITEMS)
    items = int(settings.items or 0)
    ids = text_ids("i", items).to_pylist()

    def drawn(name: str) -> Query:
        features = generator.random((items, 2))
        score = features[:, 0] + 10.0 * features[:, 1] + NOISE * generator.standard_normal(items)
        order = np.argsort(-score, kind="stable")
        return Query(name, ids, features, _from_order(order), order)

    train = [drawn(name) for name in text_ids("q", int(settings.queries or 0)).to_pylist()]
    return train, [drawn(name) for name in text_ids("t", settings.test).to_pylist()], ["x1", "x2"]


def _from_file(settings: LTRMASimulation) -> tuple[list[Query], list[Query], list[str]]:
    """Queries of a file, of which some are held out."""
    table, grade = _graded(str(settings.features))
    coded = CodedFeatures.of(table)
    grade, values = grade[coded.row], table.values[coded.row]
    generator = stream(settings.seed, Purpose.ITEMS)
    ids, queries = coded.items.cast(pa.string()).to_pylist(), coded.queries.cast(pa.string()).to_pylist()
    starts = np.searchsorted(coded.query, np.arange(len(queries) + 1))
    found = []
    for number, name in enumerate(queries):
        rows = np.arange(starts[number], starts[number + 1])
        held = generator.random(len(rows))
        rows = np.sort(rows[np.argsort(held, kind="stable")][: settings.items]) if settings.top_k is None else rows
        order = np.lexsort((generator.random(len(rows)), -grade[rows]))
        items = [ids[item] for item in coded.item[rows]]
        found.append(Query(name, items, values[rows], grade[rows], order))
    shuffled = generator.permutation(len(found))
    cut = round(settings.held_out * len(found))
    test, train = sorted(shuffled[:cut]), sorted(shuffled[cut:])
    return [found[i] for i in train if len(found[i].items) > 1], [found[i] for i in test], list(table.names)


def _graded(path: str) -> tuple[Features, Array]:
    """Features and grades: those of SVMlight, or the column `relevance` of a table."""
    table = read_features(path)
    if table.relevance is not None:
        return table, table.relevance
    if "relevance" not in table.names:
        raise UsageError(f"{path}: needs a relevance column, from which the true rankings come")
    place = table.names.index("relevance")
    rest = [number for number in range(len(table.names)) if number != place]
    names = tuple(table.names[number] for number in rest)
    return replace(table, names=names, values=table.values[:, rest]), table.values[:, place]


def _expertise(settings: LTRMASimulation) -> Array:
    generator = stream(settings.seed, Purpose.EXPERTISE)
    low, high = sorted((float(settings.low or 0.0), float(settings.high or 0.0)))
    theta = generator.uniform(low, high, settings.annotators)
    theta[0] = settings.best
    return theta


def _labels(settings: LTRMASimulation, queries: list[Query], theta: Array) -> list[list[Array]]:
    """The ranking of every query by every annotator."""
    generator = stream(settings.seed, Purpose.LABELS)
    shares: dict[int, Array] = {}
    labels = []
    for query in queries:
        n = len(query.order)
        given = []
        for expertise in theta:
            inserted, chance = np.zeros(n, np.int64), generator.random(n + 1)
            if settings.law == "mallows":
                mallows_insertions(float(expertise), chance[1:], inserted)
            else:
                if n not in shares:
                    shares[n] = distance_shares(n)
                exact_insertions(shares[n], _distance(float(expertise), n, chance[0]), chance[1:], inserted)
            given.append(insert(query.order, inserted))
        labels.append(given)
    return labels


def _distance(theta: float, items: int, chance: float) -> int:
    """Equation 56."""
    v = np.arange(1, items * (items - 1) // 2 + 1)
    weight = np.cumsum(np.exp(theta * v - max(theta, theta * v[-1])))
    return int(v[np.searchsorted(weight, chance * weight[-1], side="right").clip(max=len(v) - 1)])


def _known(settings: LTRMASimulation, queries: list[Query]) -> list[Query]:
    count = round(settings.known * len(queries))
    chosen = stream(settings.seed, Purpose.KNOWN).permutation(len(queries))[:count]
    return [queries[place] for place in sorted(chosen)]


def _from_order(order: Array) -> Array:
    """Relevance n for the first of n items, down to 1."""
    grade = np.empty(len(order))
    grade[order] = np.arange(len(order), 0, -1)
    return grade


def _rankings(queries: list[Query], labels: list[list[Array]], annotators: list[str], top_k: int | None) -> pa.Table:
    columns: dict[str, list[Any]] = {"query": [], "annotator": [], "item": [], "rank": []}
    for query, given in zip(queries, labels, strict=True):
        for annotator, order in zip(annotators, given, strict=True):
            first = order[:top_k]
            columns["query"] += [query.name] * len(first)
            columns["annotator"] += [annotator] * len(first)
            columns["item"] += [query.items[item] for item in first]
            columns["rank"] += range(1, len(first) + 1)
    return pa.table(columns)


def _features(queries: list[Query], names: list[str]) -> pa.Table:
    values = np.concatenate([query.features for query in queries]) if queries else np.empty((0, len(names)))
    return pa.table({**_ids(queries), **{name: values[:, place] for place, name in enumerate(names)}})


def _gold(graded: list[tuple[Query, Array]]) -> pa.Table:
    relevance = np.concatenate([grade for _, grade in graded]) if graded else np.empty(0)
    return pa.table({**_ids([query for query, _ in graded]), "relevance": relevance})


def _ids(queries: list[Query]) -> dict[str, pa.Array]:
    return {
        "query": pa.array([query.name for query in queries for _ in query.items], pa.string()),
        "item": pa.array([item for query in queries for item in query.items], pa.string()),
    }


SIMULATOR = Simulator(
    title="rankings by a crowd over items with features",
    paper="Wu et al., TKDD 2016",
    Settings=LTRMASimulation,
    run=simulated_tables,
)
