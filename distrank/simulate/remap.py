"""Noisy labels on items with ranking features, and graded truth to tune on.  [Ustinovskiy16] sections 3 and 6

Every item has `features` numbers; its true grade, 0 to 4, is cut from a score that is partly linear in them, partly
not, and partly noise. The source's items get labels from the crowd, the target's are graded by experts (`gold`).

    preset=crowd   two grades, `labels` per item. An annotator says 1 with P = sigma(k (grade - t)); t, how strict they
    are,
                   differs between annotators, and so does k; a share of them guesses. Honeypots are items of which it
                   is known whether they are relevant (grade 2 and above).
    preset=yd      the same at the size of the paper's data: 7,200 queries, 132,000 items with 3 labels, 1,720
    annotators,
                   1,900 honeypots, 6,600 target queries of 90,000 items, 300 features.
    preset=exp1    simulated experiment 1: one label per item, 1 if the grade is above the annotator's rigor (0 to 3).
    preset=exp2    simulated experiment 2: one grade per item, right with probability q (0, 1/2, 3/4, 1), else any
    other.

exp1 and exp2 write label features (`label_features`): indicators of the annotator's kind (and of the label 1 in exp1).

[Ustinovskiy16] Ustinovskiy, Fedorova, Gusev, Serdyukov: An optimization framework for remapping and reweighting noisy
relevance labels. SIGIR 2016.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from distrank.records import Array
from distrank.settings import setting
from distrank.simulate.output import Simulated, Simulator, id_column, text_ids

SHARES = (0.4, 0.3, 0.18, 0.09, 0.03)  # of the grades 0 to 4
RELEVANT = 2  # grades from this on are a 1 for honeypots
RIGORS = (0, 1, 2, 3)
QUALITIES = (0.0, 0.5, 0.75, 1.0)
SIZES = {
    "crowd": {"queries": 300, "items": 12, "annotators": 60, "honeypots": 60, "target_queries": 250, "features": 20},
    "yd": {
        "queries": 7200, "items": 18, "annotators": 1720, "honeypots": 1900, "target_queries": 6600, "features": 300,
    },
    "exp1": {"queries": 400, "items": 20, "annotators": 200, "honeypots": 0, "target_queries": 300, "features": 30},
    "exp2": {"queries": 400, "items": 20, "annotators": 200, "honeypots": 0, "target_queries": 300, "features": 30},
}  # fmt: skip


@dataclass(frozen=True)
class RemapSimulation:
    """What `distrank simulate remap` takes; sizes that are not given are those of the preset."""

    preset: str = setting("crowd", "crowd, yd (the paper's size), exp1, exp2", choices=("crowd", "yd", "exp1", "exp2"))
    queries: int | None = setting(None, "queries with labels of the crowd", low=1)
    items: int | None = setting(None, "items per query, about", low=2)
    annotators: int | None = setting(None, "number of annotators", low=1)
    labels: int = setting(3, "labels per item (one in exp1 and exp2)", low=1)
    honeypots: int | None = setting(None, "items whose label is known, each labelled by about 23 annotators", low=0)
    target_queries: int | None = setting(None, "queries graded by experts", low=1)
    features: int | None = setting(None, "ranking features", low=1)
    noise: float = setting(0.7, "standard deviation of the noise beside a score of deviation 1", low=0.0)
    spammers: float = setting(0.15, "share of annotators who guess", low=0.0, high=1.0)
    seed: int = setting(0, "seed of all random numbers", low=0)


@dataclass(frozen=True)
class _Items:
    """Items of queries, one after the other."""

    query: Array
    x: Array
    grade: Array

    def __len__(self) -> int:
        return len(self.query)


def simulate_remap(settings: RemapSimulation) -> Simulated:
    """Tables ratings, features, gold (the target), and honeypots, annotators, label_features where there are some."""
    rng = np.random.default_rng(settings.seed)
    size = {
        name: preset if (given := getattr(settings, name)) is None else given
        for name, preset in SIZES[settings.preset].items()
    }
    law = _law(rng, size["features"])
    cuts = np.cumsum(SHARES)[:-1]
    source = _items(rng, size["queries"], size["items"], law, settings.noise, cuts)
    target = _items(rng, size["target_queries"], max(size["items"] * 3 // 4, 2), law, settings.noise, cuts)
    people = rng.integers(4, size=size["annotators"])
    names = text_ids("a", len(people))
    if settings.preset in ("exp1", "exp2"):
        kind = people[(who := rng.integers(size["annotators"], size=len(source)))]
        if settings.preset == "exp1":
            label = (source.grade > np.array(RIGORS)[kind]).astype(int)
        else:
            wrong = rng.random(len(source)) >= np.array(QUALITIES)[kind]
            label = np.where(wrong, (source.grade + rng.integers(1, 5, len(source))) % 5, source.grade)
        tables = _tables(source, target, np.arange(len(source)), id_column(who, names), label)
        tables["label_features"] = _indicators(tables["ratings"], kind, label, settings.preset)
        truth = np.array(RIGORS if settings.preset == "exp1" else QUALITIES, float)[people]
        tables["annotators"] = pa.table({"annotator": names, "truth": truth})
        return Simulated(tables)
    strict, sharp = rng.normal(1.5, 0.8, len(people)), rng.gamma(4.0, 0.5, len(people))
    sharp[rng.random(len(people)) < settings.spammers] = 0.0
    pots = _items(rng, max(size["honeypots"], 1), 1, law, settings.noise, cuts)
    item = np.repeat(np.arange(len(source)), settings.labels)
    who = _distinct_annotators(rng, len(source), settings.labels, len(people))
    label = _says(rng, source.grade[item], strict[who], sharp[who])
    tables = _tables(source, target, item, id_column(who, names), label)
    if size["honeypots"]:
        per_item = min(23, len(people))
        item = np.repeat(np.arange(len(pots)), per_item)
        who = _distinct_annotators(rng, len(pots), per_item, len(people))
        label = _says(rng, pots.grade[item], strict[who], sharp[who])
        tables |= _with_honeypots(tables["ratings"], pots, item, id_column(who, names), label)
    tables["annotators"] = pa.table({"annotator": names, "strictness": strict, "sharpness": sharp})
    return Simulated(tables)


def _law(rng: np.random.Generator, features: int) -> tuple[Array, Array]:
    """A direction, and pairs of features that count together."""
    weight = rng.normal(size=features) * (rng.random(features) < 0.5)
    weight /= max(float(np.linalg.norm(weight)), 1e-9)
    return weight, rng.integers(features, size=(6, 2))


def _items(
    rng: np.random.Generator, queries: int, items: int, law: tuple[Array, Array], noise: float, cuts: Array
) -> _Items:
    sizes = np.maximum(rng.poisson(items, queries), 2) if items > 1 else np.ones(queries, int)
    query = np.repeat(np.arange(queries), sizes)
    weight, pairs = law
    x = rng.normal(size=(len(query), len(weight)))
    score = 0.7 * (x @ weight)
    for first, second in pairs:
        together = np.sign(x[:, first]) * np.abs(x[:, second]) if first != second else np.abs(x[:, first]) - 0.8
        score += 0.7 / np.sqrt(len(pairs)) * together
    score += noise * rng.normal(size=len(query)) + 0.3 * rng.normal(size=queries)[query]
    spread = np.sqrt(0.98 + noise * noise + 0.09)
    edges = spread * np.array([_normal_quantile(share) for share in cuts])
    return _Items(query, x, np.searchsorted(edges, score))


def _normal_quantile(share: float) -> float:
    from scipy.special import ndtri  # noqa: PLC0415 (not needed before something is simulated)

    return float(ndtri(share))


def _says(rng: np.random.Generator, grade: Array, strict: Array, sharp: Array) -> Array:
    return (rng.random(len(grade)) < 1.0 / (1.0 + np.exp(-sharp * (grade - strict)))).astype(int)


def _distinct_annotators(rng: np.random.Generator, items: int, count: int, annotators: int) -> Array:
    """`count` distinct annotators for every item, one item after the other."""
    first = rng.integers(annotators, size=items)
    steps = rng.integers(1, max(annotators // count, 2), size=(items, max(count - 1, 0)))
    return (np.cumsum(np.concatenate([first[:, None], steps], axis=1), axis=1) % annotators).reshape(-1)


def _tables(source: _Items, target: _Items, item: Array, annotator: pa.Array, label: Array) -> dict[str, pa.Table]:
    queries, graded = int(source.query.max()) + 1, int(target.query.max()) + 1
    ids = text_ids("q", queries), text_ids("d", len(source)), text_ids("t", graded), text_ids("e", len(target))
    ratings = pa.table(
        {
            "query": id_column(source.query[item], ids[0]),
            "item": id_column(item, ids[1]),
            "annotator": annotator,
            "rating": label,
        }
    )
    gold = {"query": id_column(target.query, ids[2]), "item": id_column(np.arange(len(target)), ids[3])}
    described = [
        _described(source, id_column(source.query, ids[0]), ids[1]),
        _described(target, gold["query"], ids[3]),
    ]
    return {
        "ratings": ratings,
        "features": pa.concat_tables(described),
        "gold": pa.table({**gold, "relevance": target.grade}),
    }


def _described(items: _Items, query: pa.Array, ids: pa.Array) -> pa.Table:
    columns = {f"f{place + 1}": items.x[:, place].copy() for place in range(items.x.shape[1])}
    return pa.table({"query": query.cast(pa.string()), "item": ids.cast(pa.string()), **columns})


def _with_honeypots(
    ratings: pa.Table, pots: _Items, item: Array, annotator: pa.Array, label: Array
) -> dict[str, pa.Table]:
    ids = text_ids("h", len(pots))
    query = id_column(np.zeros(len(item), np.int64), pa.array(["honeypots"]))
    more = pa.table({"query": query, "item": id_column(item, ids), "annotator": annotator, "rating": label})
    joined = pa.concat_tables([_as_text(ratings), _as_text(more)])
    known = {"query": ["honeypots"] * len(pots), "item": ids, "relevance": (pots.grade >= RELEVANT).astype(int)}
    return {"ratings": joined, "honeypots": pa.table(known)}


def _as_text(table: pa.Table) -> pa.Table:
    columns = {name: table[name].cast(pa.string()) for name in ("query", "item", "annotator")}
    return pa.table({**columns, "rating": table["rating"]})


def _indicators(ratings: pa.Table, kind: Array, label: Array, preset: str) -> pa.Table:
    keys = {name: ratings[name] for name in ("query", "item", "annotator")}
    counted = label == 1 if preset == "exp1" else np.ones(len(label), bool)
    name, values = ("rigor", RIGORS) if preset == "exp1" else ("quality", QUALITIES)
    shown = {f"{name}_{value:g}": ((kind == place) & counted).astype(float) for place, value in enumerate(values)}
    return pa.table({**keys, **shown})


SIMULATOR = Simulator(
    title="Noisy labels on items with features, and graded truth",
    paper="Ustinovskiy et al., SIGIR 2016",
    Settings=RemapSimulation,
    run=simulate_remap,
)
