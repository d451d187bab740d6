"""Ranking metrics: compiled kernels over many queries in flat arrays, and the names that people type for them."""

from distrank.metrics.binary import average_precision, precision_at, rank_biased_precision
from distrank.metrics.names import (
    DEFAULT_CUTS,
    DEFAULT_METRICS,
    KNOWN,
    Metric,
    MetricSettings,
    measure_all,
    parse_metrics,
)
from distrank.metrics.ndcg import ndcg
from distrank.metrics.pairs import PairCounts, kendall_tau, pair_accuracy, pair_counts
from distrank.metrics.queries import JudgedQueries, RankedLists, judged_queries, ranked_lists

__all__ = [
    "DEFAULT_CUTS",
    "DEFAULT_METRICS",
    "KNOWN",
    "JudgedQueries",
    "Metric",
    "MetricSettings",
    "PairCounts",
    "RankedLists",
    "average_precision",
    "judged_queries",
    "kendall_tau",
    "measure_all",
    "ndcg",
    "pair_accuracy",
    "pair_counts",
    "parse_metrics",
    "precision_at",
    "rank_biased_precision",
    "ranked_lists",
]
