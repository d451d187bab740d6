"""Robustness: what happens to a method when annotators who guess or lie join the crowd.  [Niu15], section 6.4

To every query, `ratio` times as many annotators are added as it has. Each of them judges what some annotator of the
query judged, picked at random (all of them before one twice), and says something else:

    spammers    a coin decides every preference; ratings are drawn from those of the data; rankings are shuffled
    malicious   the opposite of gold: the less relevant item wins, or gets the higher rating, or the better rank. Where
                gold does not tell two items apart, or does not know them, they guess

The same seed adds the same annotators. Robustness is the coefficient of variation of a metric over the ratios: its
standard deviation divided by its mean.

[Niu15] Niu, Lan, Guo, Cheng, Yu, Long: Listwise approach for rank aggregation in crowdsourcing. WSDM 2015.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from distrank.engine.base import Engine
from distrank.errors import UsageError
from distrank.evaluate import evaluate
from distrank.metrics import MetricSettings, parse_metrics
from distrank.models import get_model
from distrank.records import Array
from distrank.runs import Stages, fit_judgments, split_settings
from distrank.tables.gold import AnyGold, Gold
from distrank.tables.gold_lookup import GradeLookup
from distrank.tables.judgments import Judgments, judgments_from_codes

KINDS = ("spammers", "malicious")
Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Stress:
    """What to add, and what to try on it."""

    methods: Mapping[str, Mapping[str, Any]]  # label -> {"method": name, setting: value, ...}
    ratios: Mapping[str, Sequence[float]]  # kind -> ratios
    metrics: Sequence[str] = ("ndcg@10", "p@10", "map", "rbp")
    repeats: int = 1
    seed: int = 0


@dataclass(frozen=True)
class Curves:
    """Means over repeats."""

    table: pa.Table  # kind, ratio, method, and one column per metric
    variation: pa.Table  # kind, method, and one column per metric: coefficient of variation over the ratios


def parse_ratios(text: str, option: str = "--spammers") -> list[float]:
    """`0:1:0.25` is 0, 0.25, 0.5, 0.75, 1; a list `0,0.5` is itself."""
    try:
        numbers = [float(part) for part in text.replace(":", ",").split(",")]
    except ValueError:
        numbers = []
    if ":" in text:
        whole = len(numbers) == 3 and numbers[2] > 0
        begin, end, step = numbers if whole else (0.0, 0.0, 1.0)
        count = int((end - begin) / step + 1e-9) + 1 if whole else 0
        numbers = [round(begin + k * step, 10) for k in range(count)]
    if not numbers or min(numbers) < 0 or not np.isfinite(numbers).all():
        raise UsageError(f"{option} {text!r}: expected FROM:TO:STEP or a list such as 0,0.5,1, none below 0")
    return numbers


def stress(
    judgments: Judgments,
    gold: AnyGold,
    truth: Any,
    plan: Stress,
    engine: Engine,
    report: Report,
    settings: MetricSettings | None = None,
) -> Curves:
    """Fit every method on every crowd. `truth` is the gold as a table, for the metrics."""
    names = [metric.name for metric in parse_metrics(plan.metrics)]
    relevance = _relevance(judgments, gold)
    values: dict[tuple[str, float, str], list[dict[str, float]]] = {}
    total = sum(len(ratios) for ratios in plan.ratios.values()) * plan.repeats * len(plan.methods)
    done = 0
    for kind, ratios in plan.ratios.items():
        for ratio in ratios:
            for repeat in range(plan.repeats if ratio > 0 else 1):
                crowd = with_annotators(judgments, relevance, kind, ratio, seed=plan.seed + repeat)
                for label, given in plan.methods.items():
                    rankings = _rankings(crowd, given, engine, plan.seed)
                    means = evaluate(rankings, truth, names, (), settings).means
                    values.setdefault((kind, ratio, label), []).append(means)
                    done += 1
                    report({"stage": "stress", kind: ratio, "method": label, "fits": f"{done} of at most {total}"})
    return _curves(plan, names, values)


def with_annotators(judgments: Judgments, relevance: Array, kind: str, ratio: float, *, seed: int = 0) -> Judgments:
    """The judgments with more annotators; all annotators get new ids, the added ones come last in every query.

    `relevance` is that of the items of every row, by item column, NaN where unknown.
    """
    if kind not in KINDS:
        raise UsageError(f"{kind!r}: expected one of {', '.join(KINDS)}")
    digest = hashlib.sha256(f"{seed}|{kind}|{ratio}".encode()).digest()
    generator = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:8], "little")))
    rows, owner = _copied(judgments, ratio, generator)
    columns = {name: column for name, column in _columns(judgments).items() if name != "annotator"}
    copied = {name: column[rows] for name, column in columns.items()}
    said = _SAY[judgments.form](judgments, copied, [column[rows] for column in relevance], owner, kind, generator)
    added = {**copied, **said}
    count = len(judgments.annotators) + (int(owner.max()) + 1 if len(owner) else 0)
    annotator = np.concatenate([judgments.annotator.astype(np.int64), owner + len(judgments.annotators)])
    joined = {name: np.concatenate([columns[name], added[name]]) for name in columns}
    ids = pa.array([f"a{code:09d}" for code in range(count)])
    return judgments_from_codes(
        judgments.form, queries=judgments.queries, items=judgments.items, annotators=ids, annotator=annotator, **joined
    )


def _columns(judgments: Judgments) -> dict[str, Array]:
    names = ("query", "annotator", "winner", "loser", "item", "rating", "rank", "tie", "weight")
    return {name: column for name in names if (column := getattr(judgments, name)) is not None}


def _relevance(judgments: Judgments, gold: AnyGold) -> Array:
    """Relevance of the items of every row, one row of the result per item column."""
    if not isinstance(gold, Gold):
        raise UsageError("gold pairs do not grade items: stress needs gold with query, item, relevance")
    lookup = GradeLookup(gold, judgments)
    return np.stack([lookup.grades(judgments.query, column) for column in judgments.item_columns])


def _copied(judgments: Judgments, ratio: float, generator: np.random.Generator) -> tuple[Array, Array]:
    """The rows that the added annotators judge, and the number of the added annotator of each."""
    order = np.lexsort((judgments.annotator, judgments.query))
    query, annotator = judgments.query[order], judgments.annotator[order]
    new = np.ones(len(order), bool)
    new[1:] = (query[1:] != query[:-1]) | (annotator[1:] != annotator[:-1])
    starts = np.append(np.flatnonzero(new), len(order))  # of the groups: one annotator in one query
    of_query = query[starts[:-1]]
    rows, owner, number = [], [], 0
    for first, last in _runs(of_query):
        groups = last - first
        wanted = round(ratio * groups)
        rounds = [generator.permutation(groups) for _ in range(-(-wanted // groups))] if wanted else []
        for group in np.concatenate(rounds)[:wanted] + first if rounds else ():
            own = order[starts[group] : starts[group + 1]]
            rows.append(own)
            owner.append(np.full(len(own), number))
            number += 1
    if not rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate(rows), np.concatenate(owner)


def _runs(values: Array) -> list[tuple[int, int]]:
    edges = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist(), len(values)]
    return list(pairwise(edges)) if len(values) else []


_Said = dict[str, Array]


def _say_preferences(
    judgments: Judgments,  # noqa: ARG001 (nothing but the pairs matters)
    copied: _Said,
    relevance: list[Array],
    owner: Array,  # noqa: ARG001
    kind: str,
    generator: np.random.Generator,
) -> _Said:
    turned = generator.random(len(copied["winner"])) < 0.5
    if kind == "malicious":
        winner, loser = relevance
        turned = np.where(winner > loser, True, np.where(winner < loser, False, turned))
    said = {
        "winner": np.where(turned, copied["loser"], copied["winner"]),
        "loser": np.where(turned, copied["winner"], copied["loser"]),
    }
    return {**said, "tie": np.zeros(len(turned), bool)} if "tie" in copied else said


def _say_ratings(
    judgments: Judgments,
    copied: _Said,
    relevance: list[Array],
    owner: Array,  # noqa: ARG001
    kind: str,
    generator: np.random.Generator,
) -> _Said:
    given = np.sort(judgments.rating) if judgments.rating is not None else np.zeros(1)
    random = given[generator.integers(0, len(given), len(copied["item"]))]
    if kind == "spammers":
        return {"rating": random}
    (known,) = relevance
    grades, place = np.unique(known[~np.isnan(known)], return_inverse=True)
    values = np.unique(given)[::-1]  # the most relevant items get the lowest of the ratings
    rating = random.copy()
    share = place / max(len(grades) - 1, 1)
    rating[~np.isnan(known)] = values[np.rint(share * (len(values) - 1)).astype(np.int64)]
    return {"rating": rating}


def _say_rankings(
    judgments: Judgments,  # noqa: ARG001
    copied: _Said,
    relevance: list[Array],
    owner: Array,
    kind: str,
    generator: np.random.Generator,
) -> _Said:
    chance = generator.random(len(owner))
    by = np.nan_to_num(relevance[0], nan=0.0) if kind == "malicious" else np.zeros(len(owner))
    order = np.lexsort((chance, by, owner))  # the least relevant item first
    rank = np.empty(len(owner))
    slots = np.lexsort((copied["rank"], owner))  # the ranks that the annotator had to give
    rank[order] = copied["rank"][slots]
    return {"rank": rank}


_SAY = {"preferences": _say_preferences, "ratings": _say_ratings, "rankings": _say_rankings}


def _rankings(crowd: Judgments, given: Mapping[str, Any], engine: Engine, seed: int) -> pa.Table:
    values = dict(given)
    model, _ = split_settings(values.pop("method"), values)
    _, result = fit_judgments(crowd, None, model, engine, Stages(lambda _: None), seed=seed)
    return pa.concat_tables([part["rankings"] for part in result.results])


def check_methods(names: Sequence[str], form: str) -> None:
    """Refuse methods that do not take the form, before anything runs."""
    for name in names:
        if form not in get_model(name).accepts:
            raise UsageError(f"{name} does not take {form}: leave it out of --methods")


def _curves(plan: Stress, names: list[str], values: dict[tuple[str, float, str], list[dict[str, float]]]) -> Curves:
    means = {
        key: {name: float(np.mean([one[name] for one in found])) for name in names} for key, found in values.items()
    }
    table = pa.table(
        {
            "kind": [kind for kind, _, _ in means],
            "ratio": [ratio for _, ratio, _ in means],
            "method": [label for _, _, label in means],
            **{name: [found[name] for found in means.values()] for name in names},
        }
    )
    keys = [(kind, label) for kind in plan.ratios for label in plan.methods]
    columns: dict[str, list[float]] = {name: [] for name in names}
    for kind, label in keys:
        for name in names:
            curve = np.array([found[name] for key, found in means.items() if key[0] == kind and key[2] == label])
            columns[name].append(float(curve.std() / curve.mean()) if curve.mean() else float("nan"))
    pair = {"kind": [kind for kind, _ in keys], "method": [label for _, label in keys]}
    return Curves(table, pa.table({**pair, **columns}))
