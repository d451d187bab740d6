"""Dawid-Skene: true grades of items and the confusion matrix of every annotator.  [Dawid79], [Ustinovskiy16] section 3

    t_i            true grade of item i, hidden (known for honeypots)
    p_c            P(t_i = c)
    pi_w(c, k)     P(annotator w says k | the true grade is c), the confusion matrix

    log-likelihood   sum_i log sum_c p_c prod_w pi_w(c, l_iw),   for a honeypot the term of its grade alone

EM: posteriors of the grades by Bayes, then p and pi from expected counts; accelerated (`_squarem`), the objective
checked at every step. The prior is Dirichlet for every row of every matrix: `quality_prior=a,b` adds a - 1 imagined
right labels and b - 1 imagined wrong ones (spread over the other grades) per true grade, so that two labels make no
extreme matrix, and one imagined item per grade. The objective is the log-likelihood with the logarithm of this prior;
`quality_prior=none` is maximum likelihood.

The likelihood does not change when true grades are renamed: the start (everyone trusted alike, or by their answers to
honeypots) and the prior decide which end is the upper one.

[Ustinovskiy16] Ustinovskiy, Fedorova, Gusev, Serdyukov: An optimization framework for remapping and reweighting noisy
relevance labels. SIGIR 2016.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from distrank.contract import Info, Run
from distrank.errors import UsageError
from distrank.kernels import labels as kernels
from distrank.models._labels import LabelModel, by_cell, grades_of, labels_of, order_quality
from distrank.models._squarem import Evaluated, squarem
from distrank.records import Array, Record, scalar
from distrank.settings import setting
from distrank.stats import dense

_LEAST = 1e-100  # smallest probability: a product of two stays above 0


@dataclass(frozen=True)
class DawidSkeneSettings:
    """Settings of `dawid-skene`."""

    start: str = setting(
        "ones", "everyone trusted alike (votes), or by their answers to honeypots", choices=("ones", "gold")
    )
    quality_prior: tuple[float, float] | None = setting(
        (2.0, 1.5), "a,b: a-1 right and b-1 wrong labels are imagined per annotator and grade; none for none", low=1.0
    )
    tolerance: float = setting(1e-9, "converged when an iteration gains less than this per judgment", above=0.0)
    max_iterations: int = setting(500, "where to stop without convergence", low=1)


class DawidSkene(LabelModel):
    """EM with SQUAREM on p and pi; nothing is kept on the shards before the end."""

    name = "dawid-skene"
    title = "Dawid-Skene: soft labels and confusion matrices"
    paper = "Dawid and Skene, Applied Statistics 1979"
    estimates = "grades, confusion matrices"
    diagnostics = ("objective", "log_likelihood")
    Settings = DawidSkeneSettings

    def begin(self, run: Run, info: Info) -> Record:
        grades = len(info.grades)
        theta = {**self.common_theta(run, info), "judgments": scalar(max(info.judgments, 1))}
        theta["imagined"], theta["imagined_items"] = self._imagined(grades)
        if self.settings.start == "gold":
            if not info.honeypots:
                raise UsageError("setting start='gold' needs honeypots: a gold table (--gold) with grades as relevance")
            start = _trusted(theta, grades)
        else:
            start = _maximised(theta, run(count_soft_votes, {"count": theta["count"]}), grades)
        return {**theta, **_state(self._evaluate(run, theta, start)), "converged": scalar(False)}

    def iterate(self, run: Run, theta: Record) -> Record:
        known = {"log_likelihood": theta["log_likelihood"]}
        before = Evaluated(_part(theta, ""), _part(theta, "next."), float(theta["objective"]), known)
        after = squarem(before, lambda point, _: self._evaluate(run, theta, point), _valid)
        gain = (after.objective - before.objective) / float(theta["judgments"])
        return {**theta, **_state(after), "converged": scalar(gain < self.settings.tolerance)}

    def conclude(self, run: Run, theta: Record) -> Record:
        run(write_posteriors, {name: theta[name] for name in ("count", "prior", "confusion")})
        return super().conclude(run, theta)

    def quality(self, theta: Record) -> Array:
        return order_quality(theta["confusion"], theta["prior"])

    def annotators(self, theta: Record, info: Info) -> Record:
        count = info.annotators
        return {**super().annotators(theta, info), "confusion": theta["confusion"].reshape(count, -1)}

    def diagnosis(self, theta: Record) -> dict[str, Any]:
        shown = {"log_likelihood": float(theta["log_likelihood"]), "grade_shares": theta["prior"].tolist()}
        return {**super().diagnosis(theta), **shown}

    def _imagined(self, grades: int) -> tuple[Array, Array]:
        """Imagined labels by true grade and label, and imagined items by grade."""
        if self.settings.quality_prior is None:
            return np.zeros((grades, grades)), np.zeros(grades)
        right, wrong = (value - 1.0 for value in self.settings.quality_prior)
        table = np.full((grades, grades), wrong / max(grades - 1, 1))
        np.fill_diagonal(table, right)
        return table, np.ones(grades)

    def _evaluate(self, run: Run, theta: Record, point: Record) -> Evaluated:
        """One round: the objective of a point, and its image under EM."""
        sums = run(expect, {"count": theta["count"], **point}, keep=False)
        grades = len(point["prior"])
        image = _maximised(theta, sums, grades)
        prior = kernels.weighted_logs(point["confusion"], theta["imagined"])
        prior += kernels.weighted_logs(point["prior"][None, None, :], theta["imagined_items"][None, :])
        likelihood = sums["log_likelihood"]
        return Evaluated(point, image, float(likelihood) + prior, {"log_likelihood": likelihood})


def expect(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """A step: expected counts of labels by true grade, of items by grade, and the log-likelihood."""
    value, sums, classes = _expectation(shard, theta, None)
    counts = by_cell(shard, int(theta["count"]), seen=sums)
    return None, {"log_likelihood": np.asarray(value), "items": classes, **counts}


def write_posteriors(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step: the soft labels, once the parameters are final."""
    posterior = np.empty((len(shard["unit.rows"]) - 1, grades_of(shard)))
    _expectation(shard, theta, posterior)
    return {"posterior": posterior}, {}


def count_soft_votes(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """A step: expected counts if the votes on an item were the posterior of its grade (a known grade is certain)."""
    rows, cell, weight, known = labels_of(shard)
    grades = grades_of(shard)
    posterior = np.empty((len(rows) - 1, grades))
    kernels.vote_shares(rows, cell, weight, posterior)
    sure = np.flatnonzero(known >= 0)
    posterior[sure] = np.eye(grades)[known[sure]]
    sums = np.zeros((grades * len(shard["annotator.code"]), grades))
    kernels.add_by_cell(rows, cell, weight, posterior, sums)
    return None, {"items": posterior.sum(axis=0), **by_cell(shard, int(theta["count"]), seen=sums)}


def _expectation(shard: Record, theta: Record, posterior: Array | None) -> tuple[float, Array, Array]:
    """The log-likelihood, and expected counts by cell and by grade."""
    rows, cell, weight, known = labels_of(shard)
    grades, prior = grades_of(shard), theta["prior"]
    table = np.swapaxes(theta["confusion"][shard["annotator.code"]], 1, 2).reshape(-1, grades)  # by cell and grade
    if grades == 2 and weight is None:
        lower = kernels.logarithms(table[:, 0].copy())
        seen, upper = shard["label.count"], np.zeros(len(table))
        ratio = table[:, 1] / table[:, 0]
        total, items = kernels.two_grades(rows, cell, known, prior[1] / prior[0], ratio, upper, posterior)
        count = len(rows) - 1
        base = count * kernels.logarithms(prior[:1])[0] + kernels.dot(seen, lower)
        return total + base, np.stack([seen - upper, upper], axis=1), np.array([count - items, items])
    sums, classes = np.zeros((len(table), grades)), np.zeros(grades)
    logs = kernels.logarithms(table.reshape(-1)).reshape(-1, grades)
    value = kernels.many_grades(rows, cell, weight, known, kernels.logarithms(prior), logs, sums, classes, posterior)
    return value, sums, classes


def _maximised(theta: Record, sums: Record, grades: int) -> Record:
    """p and pi from expected counts and the imagined ones; a row without either is even."""
    counts = np.swapaxes(dense(sums, "annotator/seen", int(theta["count"])), 1, 2) + theta["imagined"]
    total = counts.sum(axis=2, keepdims=True)
    confusion = np.where(total > 0.0, counts / np.where(total > 0.0, total, 1.0), 1.0 / grades)
    items = sums["items"] + theta["imagined_items"]
    point = {"prior": items / items.sum(), "confusion": confusion}
    return {name: np.maximum(table, _LEAST) for name, table in point.items()}


def _trusted(theta: Record, grades: int) -> Record:
    """Matrices from the share of right answers to honeypots; two answers are imagined, one and a half of them right."""
    right, asked = theta["honeypots"].T
    chance = (right + 1.5) / (asked + 2.0) if grades > 1 else np.ones(len(right))
    confusion = np.empty((len(right), grades, grades))
    confusion[:] = ((1.0 - chance) / max(grades - 1, 1))[:, None, None]
    confusion[:, np.arange(grades), np.arange(grades)] = chance[:, None]
    return {"prior": np.full(grades, 1.0 / grades), "confusion": confusion}


def _valid(point: Record, valid: Record) -> Record:
    """An extrapolated point with every probability above 0 and every row summing to 1."""
    inside = {name: np.maximum(point[name], 0.1 * valid[name]) for name in point}
    return {name: table / table.sum(axis=-1, keepdims=True) for name, table in inside.items()}


def _state(evaluated: Evaluated) -> Record:
    """What theta remembers of a point."""
    return {
        **evaluated.point,
        **{f"next.{name}": table for name, table in evaluated.image.items()},
        **evaluated.facts,
        "objective": scalar(evaluated.objective),
    }


def _part(theta: Record, prefix: str) -> Record:
    return {name: theta[f"{prefix}{name}"] for name in ("prior", "confusion")}
