"""Beliefs from a published run: where choosing questions starts.

Scores are put on the scale of log-odds (LOG_ODDS): probit scores are multiplied by 1.702 per standard deviation of the
difference, the constant that brings the normal closest to the logistic distribution. Methods whose scores are neither
are refused.

    mean        the score of the run
    variance    `score_sd` squared. A run without that column gives 1 / (1 + I), I being the information about the item
                in the judgments given with --judgments, sum of (2 eta - 1)^2 p (1 - p) over its comparisons, or 1 (the
                prior of `crowd-bt-online`) without them; the result says so
    quality     `alpha`, `beta` of an online run. Otherwise Beta(a + n q, b + n (1 - q)) for quality q, a and b being
                the prior, and n the number of judgments; where the run has `quality_low` and `quality_high`, n is the
                number that explains an interval of that width, q (1 - q) / sd^2, if it is smaller: a judgment of an
                unclear pair says less about its author than one of a clear pair
    new ones    annotators who are available but unknown to the run start at the prior
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distrank.active.batch import Beliefs
from distrank.errors import InputError, UsageError
from distrank.kernels.gain_bounds import LEAST_COUNT
from distrank.records import Array
from distrank.store.publish import PublishedRun
from distrank.tables.ids import same_ids, show_id, whole_numbers
from distrank.tables.judgments import Judgments

PRIOR = (10.0, 1.0)
PROBIT = 1.702
LEVEL = 0.9  # of the intervals of a run whose settings do not say it
LOG_ODDS: dict[str, Callable[[dict[str, Any]], float]] = {  # method -> what its scores are multiplied by
    "crowd-bt-online": lambda _: 1.0,
    "crowd-bt": lambda _: 1.0,
    "bradley-terry": lambda _: 1.0,
    "majority-bt": lambda _: 1.0,
    "variance-bt": lambda _: 1.0,
    "thurstone": lambda _: PROBIT / math.sqrt(2.0),
    "trueskill": lambda settings: PROBIT / (math.sqrt(2.0) * float(settings["performance_deviation"])),
}


@dataclass(frozen=True)
class RunBeliefs:
    """Beliefs, the ids behind their codes, and remarks on where they come from."""

    beliefs: Beliefs
    queries: pa.Array
    items: pa.Array  # by item code
    annotators: pa.Array
    kappa: float
    notes: list[str] = field(default_factory=list)


def beliefs_of_run(
    run: PublishedRun,
    *,
    available: pa.Array | None = None,
    judgments: Judgments | None = None,
    quality_prior: tuple[float, float] | None = None,
) -> tuple[RunBeliefs, tuple[Array, Array, Array] | None]:
    """What a run believes, and the triples of the judgments (item, item, annotator) in its codes.

    `available` are the annotators who can be asked; without it, those that the run knows.
    """
    facts = run.facts()
    method, settings = str(facts["method"]), dict(facts["settings"])
    if method not in LOG_ODDS:
        raise UsageError(
            f"run {run.run_id} is of {method!r}, whose scores are no log-odds; aggregate the judgments with one of "
            f"{', '.join(LOG_ODDS)} first"
        )
    prior = checked_prior(quality_prior or settings.get("quality_prior") or PRIOR)
    rankings = pq.read_table(run.path("rankings.parquet"))
    known = pq.read_table(run.path("annotators.parquet"))
    ids, codes = _with_new(known["annotator"].combine_chunks(), available)
    crowd = np.tile(np.asarray(prior), (len(ids), 1))
    crowd[: known.num_rows] = _quality(known, prior, float(settings.get("interval") or LEVEL))
    query = rankings["query"].combine_chunks().dictionary_encode()
    place = query.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    order = np.argsort(place, kind="stable")
    rankings, place = rankings.take(pa.array(order)), place[order]
    offsets = np.searchsorted(place, np.arange(len(query.dictionary) + 1))
    items = rankings["item"].combine_chunks()
    scale, notes = LOG_ODDS[method](settings), []
    asked = None
    if judgments is not None:
        asked = _asked(judgments, query.dictionary, place, items, ids)
    if "score_sd" in rankings.column_names:
        variance = (scale * rankings["score_sd"].to_numpy()) ** 2
    else:
        variance, note = _fallback(scale * rankings["score"].to_numpy(), crowd, asked)
        notes.append(f"run {run.run_id} has no score_sd: {note}")
    mean = scale * rankings["score"].to_numpy()
    if not (np.isfinite(mean).all() and (variance > 0.0).all() and np.isfinite(variance).all()):
        raise InputError(f"{run.path('rankings.parquet')}: score and score_sd must be finite, score_sd above 0")
    beliefs = Beliefs(np.column_stack([mean, variance]), offsets, crowd, codes)
    kappa = float(settings.get("variance_floor", 1e-4))
    return RunBeliefs(beliefs, query.dictionary, items, ids, kappa, notes), asked


def checked_prior(prior: Any) -> tuple[float, float]:
    """A Beta prior that the search can bound."""
    alpha, beta = float(prior[0]), float(prior[1])
    if not (min(alpha, beta) >= LEAST_COUNT and math.isfinite(alpha + beta)):
        raise UsageError(f"quality prior {alpha:g},{beta:g}: both numbers must be at least {LEAST_COUNT:g}")
    return alpha, beta


def _quality(known: pa.Table, prior: tuple[float, float], level: float) -> Array:
    """alpha and beta of every annotator of the run, whose intervals are of this level."""
    if {"alpha", "beta"} <= set(known.column_names):
        return np.column_stack([known["alpha"].to_numpy(), known["beta"].to_numpy()])
    quality, count = known["quality"].to_numpy(), known["judgments"].to_numpy().astype(np.float64)
    if {"quality_low", "quality_high"} <= set(known.column_names):
        width = known["quality_high"].to_numpy() - known["quality_low"].to_numpy()
        deviations = 2.0 * NormalDist().inv_cdf(0.5 + 0.5 * level)
        inside = np.clip(quality, 0.02, 0.98)  # at a bound no interval is explained by a binomial share
        with np.errstate(divide="ignore", invalid="ignore"):
            explained = inside * (1.0 - inside) * (deviations / width) ** 2
        count = np.minimum(count, np.where(np.isfinite(explained), explained, count))
    return counted_quality(quality, count, prior)


def counted_quality(quality: Array, count: Array, prior: tuple[float, float]) -> Array:
    """alpha and beta of annotators from their quality in a batch fit and how many judgments it rests on."""
    return np.column_stack([prior[0] + count * quality, prior[1] + count * (1.0 - quality)])


def informed_variance(mean: Array, quality: Array, first: Array, second: Array, annotator: Array) -> Array:
    """The variance of every score given comparisons: 1 / (1 + information), the prior having variance 1."""
    w = np.tanh(0.5 * (mean[first] - mean[second]))
    each = (2.0 * quality[annotator] - 1.0) ** 2 * 0.25 * (1.0 - w * w)
    return 1.0 / (1.0 + np.bincount(first, each, len(mean)) + np.bincount(second, each, len(mean)))


def _fallback(mean: Array, crowd: Array, asked: tuple[Array, Array, Array] | None) -> tuple[Array, str]:
    """Variances of a run without deviations, and a remark on them."""
    if asked is None:
        return np.ones(len(mean)), "every item gets the variance 1; give --judgments to have it from the comparisons"
    variance = informed_variance(mean, crowd[:, 0] / crowd.sum(axis=1), *asked)
    return variance, "variances are 1 / (1 + information) of the comparisons in --judgments"


def _with_new(known: pa.Array, available: pa.Array | None) -> tuple[pa.Array, Array | None]:
    """All annotators, those of the run first, and the codes of the available ones."""
    if available is None:
        return known, None
    available = matched(available, known.type, "annotators").unique()
    place = pc.index_in(available, value_set=known)
    new = available.filter(pc.is_null(place))
    everyone = pa.concat_arrays([known, new])
    return everyone, pc.index_in(available, value_set=everyone).to_numpy(zero_copy_only=False).astype(np.int64)


def matched(ids: Any, kind: pa.DataType, what: str) -> pa.Array:
    """Ids in the type that the run has them in; text that is not the number it looks like is refused."""
    ids = ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids
    if ids.null_count:
        raise InputError(f"{what}: row {pc.index(pc.is_null(ids), True).as_py() + 1} has no id; correct the row")
    if not same_ids(ids.type, kind):
        numbers = whole_numbers(ids) if pa.types.is_integer(kind) else None
        if numbers is None:
            example = show_id(ids[0].as_py()) if len(ids) else ""
            raise InputError(f"{what}: ids are {ids.type} (such as {example}), those of the run {kind}: give the same")
        ids = numbers
    return ids.cast(kind)


def _asked(
    judgments: Judgments, queries: pa.Array, query_of: Array, items: pa.Array, annotators: pa.Array
) -> tuple[Array, Array, Array]:
    """The (item, item, annotator) of every judgment that the run knows all three of."""
    if judgments.form != "preferences" or judgments.winner is None or judgments.loser is None:
        raise UsageError("--judgments must be preferences (query, annotator, winner, loser)")
    query = _codes(judgments.queries, queries, "queries of --judgments")[judgments.query]
    annotator = _codes(judgments.annotators, annotators, "annotators of --judgments")[judgments.annotator]
    names = items.dictionary_encode()
    of_item = names.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    here = query_of * len(names.dictionary) + of_item  # a number for every (query, item)
    order = np.argsort(here)
    own = _codes(judgments.items, names.dictionary, "items of --judgments")
    ends = []
    for column in (judgments.winner, judgments.loser):
        wanted = np.where((query >= 0) & (own[column] >= 0), query * len(names.dictionary) + own[column], -1)
        place = np.minimum(np.searchsorted(here, wanted, sorter=order), len(here) - 1)
        ends.append(np.where(here[order[place]] == wanted, order[place], -1))
    known = (ends[0] >= 0) & (ends[1] >= 0) & (annotator >= 0)
    return ends[0][known], ends[1][known], annotator[known]


def _codes(ids: pa.Array, among: pa.Array, what: str) -> Array:
    """The place of every id, -1 where it is not there."""
    found = pc.index_in(matched(ids, among.type, what), value_set=among)
    return pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
