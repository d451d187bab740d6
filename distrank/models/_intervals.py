"""How sure the scores, the ranks and the qualities of the Bradley-Terry family are.

    H       the expected information at the estimate, with virtual games and priors: the curvature of the penalised
            likelihood, so that its inverse is the covariance of a normal posterior (Laplace's approximation)

Why information and no bootstrap: a bootstrap of the counts needs dozens of refits for a tail of 5 %, and where an
annotator has few judgments its replicates pile up at quality 1. Information costs a few passes, and the regularisation,
which a bootstrap leaves out of the spread but not out of the estimate, is part of it. Why the expected information and
not the observed one: row by row it is of rank one and never indefinite, also where a fit was stopped early.

Scores and annotators are uncertain together: less quality everywhere looks like scores nearer to each other. Within a
query the annotators are eliminated exactly (`kernels.covariance`), given what all their judgments say of them; the
scores of other queries are taken as known, which leaves out only what queries share through the annotators.

Quality: scores have been fitted to the very judgments that an annotator is measured by, which makes fitted qualities
too extreme where judgments are few. So the interval of a quality is from a likelihood in which every judgment is held
against the others only (`kernels.leave_out`), with the model's prior; it is the shortest one, lies in [0, 1], and is
extended to the estimate where it would miss it. The information is taken at qualities half way between the mean of
this law and that of the fitted one: few judgments pull the first one to 1/2 and the second one to the bounds (at 1 the
information would be infinite); by simulation, scores are covered too often with the one and too rarely with the
other. That takes a second measurement, unless the first was at about the right place.

Scores are defined up to a shift that only the virtual games fix: intervals are of the distance from the mean of the
query, `score` -/+ quantile * `score_sd`. Queries of up to LARGEST_DENSE items are inverted exactly; larger ones, and
split ones, go by random vectors (`_sampled`), where variances have a noise of a few percent. Rank bounds are in
`kernels.ranks`. Of judgments with ties of their own law (ties=davidson), those that were decided are counted: given
that a judgment is not a tie, it follows the law without ties.
"""

from __future__ import annotations

import numpy as np

from distrank.contract import PARTS, Run
from distrank.kernels import information as kernels
from distrank.kernels.bounded import REACH, quality_laws, quality_means, wilson_intervals
from distrank.kernels.laws import SCALED
from distrank.kernels.lbfgs import dot
from distrank.kernels.leave_out import NODES, question_runs
from distrank.kernels.small_units import small_units, virtual_diagonal
from distrank.models._pairwise import by_annotator, fitted_rows, fitted_units
from distrank.models._priors import believed
from distrank.models._ranks import quantile, rank_bounds, score_bounds
from distrank.models._sampled import Judged, Span, draws_for, variances
from distrank.models._split_intervals import inform_parts, question_parts, split_shown, split_variances
from distrank.records import Array, Record, scalar
from distrank.stats import dense

LARGEST_DENSE = 100  # items: n^3 against the rows, again and again
SETTLED = 0.35  # deviations of its annotators' parameters, in the mean square, by which a measurement may be misplaced


def with_intervals(run: Run, theta: Record, level: float) -> Record:
    """Rounds after the fit: columns in local, `split.*` columns and `quality.low`, `quality.high` in theta.

    Theta holds `quality`, `first` and `second` where annotators have a parameter. For a quality the interval is of
    that, for others of the share of their judgments that agree with the consensus (Wilson's interval).
    """
    z = quantile(level)
    shown = {name: theta[name] for name in ("strength", "law")} | {"z": scalar(z), "largest": scalar(LARGEST_DENSE)}
    split = split_shown(theta)
    if "quality" not in theta or int(theta["law"]) == SCALED:
        if "quality" in theta:
            shown |= _informed(run, theta, shown | {"parameter": theta["quality"]})
        run(measure_units, shown)
        variance = split_variances(run, shown | split, len(theta["agreement"]))
        low, high = np.empty(len(theta["agreement"])), np.empty(len(theta["agreement"]))
        wilson_intervals(theta["agreement"], theta["judged"], z, low, high)
    else:
        variance, low, high = _with_quality(run, theta, shown, level)
    deviation = np.sqrt(variance)
    columns = score_bounds(split["split.score"], deviation, z)
    columns |= rank_bounds(split["split.score"], deviation, split["split.offsets"], z)
    columns = {f"split.{name}": column for name, column in columns.items()}
    return {**theta, **columns, "quality.low": low, "quality.high": high}


def _with_quality(run: Run, theta: Record, shown: Record, level: float) -> tuple[Array, Array, Array]:
    """Variances of the items of split queries, and the bounds of every quality."""
    quality, count = theta["quality"], len(theta["quality"])
    parameter = np.empty(count)
    quality_means(quality, theta["first"], theta["second"], parameter)
    window = _window(theta)
    prior = theta["prior"][:2] if "prior" in theta else np.zeros(2)
    split = split_shown(theta)
    mean, low, high = (np.empty(count) for _ in range(3))
    for last in (False, True):
        shown |= _informed(run, theta, shown | {"parameter": parameter}) | {"window": window}
        answers = _answers(run(measure_units, shown), count)
        variance = split_variances(run, shown | split, count)
        questions = shown | split | {"split.variance": variance}
        answers = answers + _answers(run(question_parts, questions, on=PARTS), count)
        quality_laws(answers, window, prior, level, mean, low, high)
        moved = 0.5 * (mean - parameter)
        if last or dot(moved * shown["known"], moved) <= SETTLED**2 * count:
            break
        parameter = parameter + moved
    unknown = (theta["judged"] <= 0.0) & (prior == 0.0).all()
    low, high = np.where(unknown, 0.0, np.minimum(low, quality)), np.where(unknown, 1.0, np.maximum(high, quality))
    return variance, low, high


def _window(theta: Record) -> Array:
    """Where to look for the quality of every annotator: around its estimate, as far as its judgments leave open."""
    quality, second = theta["quality"], theta["second"]
    few = 0.5 / np.sqrt(np.maximum(theta["judged"], 1e-6))
    reach = REACH * np.maximum(np.divide(1.0, np.sqrt(second), out=np.ones(len(second)), where=second > 0.0), few)
    return np.stack([np.maximum(quality - reach, 0.0), np.minimum(quality + reach, 1.0)], axis=1)


def _answers(stats: Record, count: int) -> Array:
    return dense(stats, "annotator/answers", count) if stats else np.zeros((count, NODES))


def _informed(run: Run, theta: Record, shown: Record) -> Record:
    """The parameters, and all that is known of each."""
    parameter, count = shown["parameter"], len(shown["parameter"])
    known = dense(run(inform_units, shown), "annotator/known", count)
    split = split_shown(theta)
    known = known + dense(run(inform_parts, shown | split, on=PARTS), "annotator/known", count)
    if "prior" in theta:
        known = known + believed(theta["prior"], parameter).second
    return {"parameter": parameter, "known": known}


def inform_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """A step over whole units: the information in every annotator's parameter."""
    parameter, known = theta["parameter"][shard["annotator.code"]], np.zeros(len(shard["annotator.code"]))
    kernels.annotator_information(*fitted_rows(shard), local["score"], parameter, int(theta["law"]), known)
    return None, by_annotator(shard, len(theta["parameter"]), known=known)


def measure_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:
    """A step over whole units: their columns, and what their judgments say of the annotators' quality."""
    rows, units, nodes, codes = fitted_rows(shard), fitted_units(shard), shard["unit.nodes"], shard["annotator.code"]
    score, law, strength, z = local["score"], int(theta["law"]), float(theta["strength"]), float(theta["z"])
    parameter = theta["parameter"][codes] if "parameter" in theta else None
    known = theta["known"][codes] if "parameter" in theta else np.zeros(0)
    window = theta["window"][codes] if "window" in theta else np.zeros((0, 2))
    answers = np.zeros((len(window), NODES))
    deviation, largest = np.zeros(len(score)), int(theta["largest"])
    low, high = np.zeros(len(score), np.int64), np.zeros(len(score), np.int64)
    judged = Judged(*rows, score, parameter, law)
    small_units(*judged, units, nodes, largest, strength, z, known, deviation, low, high, window, answers)
    for unit in np.flatnonzero(np.diff(nodes) > largest):
        here = slice(int(nodes[unit]), int(nodes[unit + 1]))
        span = Span(int(units[unit]), int(units[unit + 1]), here.start)
        extra = virtual_diagonal(score[here], strength, law)
        variance = _unit_variances(judged, span, extra, known, key, shard["unit.hash"][unit])
        deviation[here] = np.sqrt(variance)
        bounds = rank_bounds(score[here], deviation[here], np.array([0, len(variance)]), z)
        low[here], high[here] = bounds["rank_low"], bounds["rank_high"]
        if parameter is not None and len(answers):
            question_runs(*rows, score, parameter, law, *span, np.zeros((0, 0)), variance, window, answers)
    columns = score_bounds(score, deviation, z) | {"rank_low": low, "rank_high": high}
    stats = by_annotator(shard, len(theta["parameter"]), answers=answers) if "window" in theta else {}
    return {**local, **columns}, stats


def _unit_variances(judged: Judged, span: Span, extra: Array, known: Array, key: Array, stream: np.uint64) -> Array:
    """Variances of the items of one large unit; `extra` is what the virtual games know of them."""
    items, annotators = len(extra), span.end - span.begin if len(known) else 0
    rows = int(judged.run[span.end] - judged.run[span.begin])
    diagonal, right = np.zeros(items + annotators), np.zeros((items + annotators, draws_for(rows)))
    kernels.noise(*judged, *span, key, stream, diagonal, right)
    if annotators:
        elsewhere = np.maximum(known[judged.owner[span.begin : span.end]] - diagonal[items:], 0.0)
        extra = np.concatenate([extra, elsewhere])
    kernels.extra_noise(extra, key, stream, right)

    def product(vectors: Array) -> Array:
        result = extra[:, None] * vectors
        kernels.product(*judged, *span, vectors, result)
        return result

    return variances(product, right, diagonal + extra, np.array([0, items]))
