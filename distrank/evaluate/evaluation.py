"""Rankings against gold: every metric per query, means, and several rankings side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distrank.errors import UsageError
from distrank.evaluate.matching import Matched, match
from distrank.metrics import DEFAULT_CUTS, DEFAULT_METRICS, MetricSettings, measure_all, parse_metrics
from distrank.records import Array


@dataclass(frozen=True)
class Evaluation:
    """One ranking against gold."""

    queries: pa.Table  # query, items, judged, missing, and one column per metric; NaN where it is not defined
    means: dict[str, float]  # over the queries where the metric is defined
    defined: dict[str, int]  # how many queries that is
    counts: dict[str, int]  # queries, items, judged, missing, unjudged_queries, unranked_queries
    warnings: tuple[str, ...]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics, in the order asked for."""
        return tuple(self.means)


@dataclass(frozen=True)
class Comparison:
    """Several rankings against the same gold, in the order given."""

    runs: dict[str, Evaluation]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics, in the order asked for."""
        return next(iter(self.runs.values())).metrics

    @property
    def table(self) -> pa.Table:
        """One row per run: run, queries, and the mean of every metric."""
        columns: dict[str, Any] = {"run": pa.array(self.runs, pa.string())}
        columns["queries"] = [evaluation.counts["queries"] for evaluation in self.runs.values()]
        for metric in self.metrics:
            columns[metric] = [evaluation.means[metric] for evaluation in self.runs.values()]
        return pa.table(columns)

    def differences(self, metric: str, base: str | None = None) -> pa.Table:
        """Per query: the value of the base run (the first, unless named) and every other run's value minus it.

        Only the queries that all runs have; so a difference never comes from other queries.
        """
        base = next(iter(self.runs)) if base is None else base
        for name, known in ((base, list(self.runs)), (metric, list(self.metrics))):
            if name not in known:
                raise UsageError(f"{name!r} is not in this comparison, which has {', '.join(known)}")
        tables = {run: evaluation.queries for run, evaluation in self.runs.items()}
        kinds = {str(table["query"].type) for table in tables.values()}
        if len(kinds) > 1:
            raise UsageError(f"the runs have query ids of different types ({', '.join(sorted(kinds))}): use one type")
        common = tables[base]["query"].combine_chunks()
        for table in tables.values():
            common = common.filter(pc.is_in(common, value_set=table["query"].combine_chunks()))
        values = {
            run: table[metric].to_numpy()[pc.index_in(common, value_set=table["query"].combine_chunks()).to_numpy()]
            for run, table in tables.items()
        }
        columns = {run: value - values[base] for run, value in values.items() if run != base}
        return pa.table({"query": common, base: values[base], **columns})


def evaluate(
    rankings: Any,
    gold: Any,
    metrics: str | Iterable[str] = DEFAULT_METRICS,
    k: Sequence[int] = DEFAULT_CUTS,
    settings: MetricSettings | None = None,
) -> Evaluation:
    """Measure a ranking (`query, item, rank, score`) against gold (`query, item, relevance`).

    Tables are pandas DataFrames or pyarrow tables; a missing query column means the one query `all`. Evaluated are the
    queries that both tables have. Items are ordered by score, ties by rank; one of the two columns is enough. Items
    without gold are not relevant in `ndcg`, `map`, `p`, `rbp` (or dropped: setting `judged_only`) and are left out of
    `accuracy` and `kendall`; items of gold that are not ranked count in the best possible list of `ndcg` and among the
    relevant items of `map`.
    """
    wanted = parse_metrics(metrics, k)
    matched = match(rankings, gold)
    values = measure_all(wanted, matched.queries, settings)
    items = np.diff(matched.queries.offsets)
    table = pa.table(
        {"query": matched.ids, "items": items, "judged": matched.judged, "missing": matched.missing, **values}
    )
    defined = {name: int((~np.isnan(column)).sum()) for name, column in values.items()}
    counts = {
        "queries": len(matched.ids),
        "items": int(items.sum()),
        "judged": int(matched.judged.sum()),
        "missing": int(matched.missing.sum()),
        "unjudged_queries": matched.unjudged_queries,
        "unranked_queries": matched.unranked_queries,
    }
    means = {name: _mean(column) for name, column in values.items()}
    return Evaluation(table, means, defined, counts, tuple(_warnings(matched, counts, defined)))


def compare(
    runs: Mapping[str, Any],
    gold: Any,
    metrics: str | Iterable[str] = DEFAULT_METRICS,
    k: Sequence[int] = DEFAULT_CUTS,
    settings: MetricSettings | None = None,
) -> Comparison:
    """Measure several rankings, by name, against the same gold."""
    if not runs:
        raise UsageError("nothing to compare: give at least one ranking")
    names = [metric.name for metric in parse_metrics(metrics, k)]
    return Comparison({run: evaluate(rankings, gold, names, (), settings) for run, rankings in runs.items()})


def _mean(values: Array) -> float:
    """Over the queries where the value is defined; NaN if there are none."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def _warnings(matched: Matched, counts: dict[str, int], defined: dict[str, int]) -> Iterable[str]:
    if matched.unjudged_queries:
        yield f"{matched.unjudged_queries} queries of the ranking have no gold and are not evaluated"
    if matched.unranked_queries:
        yield f"{matched.unranked_queries} queries of gold are not ranked and do not count in the means"
    if counts["missing"]:
        yield f"{counts['missing']} items of gold are not ranked: accuracy and kendall leave them out"
    if counts["judged"] < counts["items"]:
        yield f"{counts['items'] - counts['judged']} ranked items have no gold"
    for name, number in defined.items():
        if number < counts["queries"]:
            yield f"{name} is not defined for {counts['queries'] - number} queries, which do not count in its mean"
