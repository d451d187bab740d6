"""Metrics by the names that people type: `accuracy`, `kendall`, `ndcg@10`, `map`, `p@10`, `rbp`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from distrank.errors import UsageError
from distrank.metrics.binary import average_precision, precision_at, rank_biased_precision
from distrank.metrics.kappa import kappa_lists
from distrank.metrics.ndcg import ndcg
from distrank.metrics.pairs import kendall_tau, pair_accuracy, pair_counts
from distrank.metrics.queries import JudgedQueries, ranked_lists
from distrank.records import Array
from distrank.settings import parse_settings, setting, settings_dict

# name -> what it is; "@k" where a cut may follow
KNOWN = {
    "accuracy": "share of the pairs of different relevance that are scored in the true order (a tie in score is not)",
    "kendall": "Kendall's tau-b between scores and relevance",
    "ndcg": "normalised discounted cumulative gain; ndcg@k looks at the first k items",
    "kappa-ndcg": "ndcg by the order of relevance alone: grades (n - items more relevant) / n, exponential gain",
    "map": "average precision",
    "p": "precision among the first k items, written p@k",
    "rbp": "rank-biased precision",
}
WITH_CUT = ("ndcg", "kappa-ndcg", "p")
DEFAULT_METRICS = ("accuracy", "kendall", "ndcg", "map", "p", "rbp")
DEFAULT_CUTS = (10,)


@dataclass(frozen=True)
class MetricSettings:
    """How relevance is read. Items without gold count as not relevant in ndcg, map, p and rbp, and not at all in
    accuracy and kendall."""

    gain: str = setting("exponential", "gain in ndcg: 2^relevance - 1, or relevance", choices=("exponential", "linear"))
    threshold: float = setting(1.0, "relevance from which an item is relevant (map, p, rbp)")
    persistence: float = setting(0.95, "probability p of going on to the next item (rbp)", above=0.0, high=0.999999)
    judged_only: bool = setting(False, "drop items without gold from the lists first (ndcg, map, p, rbp)")


@dataclass(frozen=True)
class Metric:
    """One column of an evaluation."""

    measure: str
    cut: int | None = None

    @property
    def name(self) -> str:
        """As people type it."""
        return self.measure if self.cut is None else f"{self.measure}@{self.cut}"


def parse_metrics(names: str | Iterable[str], k: Sequence[int] = ()) -> tuple[Metric, ...]:
    """Metrics from names, or from one text with commas; repeated ones once, in the order given.

    `ndcg`, `kappa-ndcg` and `p` without a cut are taken at every cut of `k`; with no `k`, the first two read the whole
    list.
    """
    parts = names.split(",") if isinstance(names, str) else names
    metrics = [metric for part in parts for metric in _parse(part.strip().lower(), k)]
    if not metrics:
        raise UsageError(f"no metric was named; {_known()}")
    return tuple(dict.fromkeys(metrics))


def measure_all(
    metrics: Iterable[Metric], queries: JudgedQueries, settings: MetricSettings | None = None
) -> dict[str, Array]:
    """The value of every metric for every query, by name. NaN where a metric is not defined for a query."""
    settings = parse_settings(MetricSettings, settings_dict(settings or MetricSettings()))  # also if built by hand
    counts = cache(lambda: pair_counts(queries))
    lists = cache(lambda: ranked_lists(queries, judged_only=settings.judged_only))

    def value(metric: Metric) -> Array:
        match metric.measure:
            case "accuracy":
                return pair_accuracy(counts())
            case "kendall":
                return kendall_tau(counts())
            case "ndcg":
                return ndcg(lists(), metric.cut, exponential=settings.gain == "exponential")
            case "kappa-ndcg":
                return ndcg(kappa_lists(lists()), metric.cut)
            case "map":
                return average_precision(lists(), threshold=settings.threshold)
            case "p" if metric.cut is not None:
                return precision_at(lists(), metric.cut, threshold=settings.threshold)
            case "rbp":
                return rank_biased_precision(lists(), persistence=settings.persistence, threshold=settings.threshold)
        raise UsageError(f"unknown metric {metric.name!r}; {_known()}")

    return {metric.name: value(metric) for metric in metrics}


def _parse(name: str, k: Sequence[int]) -> list[Metric]:
    measure, at, cut = name.partition("@")
    if measure not in KNOWN:
        raise UsageError(f"unknown metric {name!r}; {_known()}")
    if at:
        if measure not in WITH_CUT:
            raise UsageError(f"metric {name!r}: {measure} reads the whole list and takes no @k")
        return [Metric(measure, _cut(name, cut))]
    if measure not in WITH_CUT or (measure != "p" and not k):
        return [Metric(measure)]
    if not k:
        raise UsageError("metric 'p': say at which rank, for example p@10")
    return [Metric(measure, _cut(f"{measure}@{number}", str(number))) for number in k]


def _cut(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise UsageError(f"metric {name!r}: the cut after @ must be a whole number from 1")
    return int(text)


def _known() -> str:
    return "known: " + ", ".join(f"{name}@k" if name in WITH_CUT else name for name in KNOWN)
