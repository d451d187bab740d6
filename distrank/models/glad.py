"""GLAD: true grades, the ability of every annotator and the difficulty of every item.  [Whitehill09], [Ustinovskiy16]

    t_i    true grade of item i, hidden (known for honeypots)       p_c    P(t_i = c)
    a_w    ability of annotator w: 0 guesses, below 0 misleads      d_i    easiness of item i, above 0

    P(label = t_i) = sigma(a_w d_i); a wrong label is any of the other grades alike.

Priors a ~ N(1, 1) and log d ~ N(0, 1) (the papers state none): without them a and d have no scale. One item per grade
is imagined beside them. The objective is the
log-likelihood over grades with both. It is profiled: for given abilities every item's d is at its maximum (Newton's
method on the shard, `kernels.easiness`). The abilities climb by EM: for given posteriors the log-likelihood is that of
a logistic regression in every a_w, bounded from below by a parabola that touches it (its curvature is d^2 tanh(a d / 2)
/ (2 a d)); the step to the top of the parabola is closed-form and never goes down. Accelerated by `_squarem`.

[Whitehill09]   Whitehill, Wu, Bergsma, Movellan, Ruvolo: Whose vote should count more. NIPS 2009.
[Ustinovskiy16] Ustinovskiy, Fedorova, Gusev, Serdyukov: An optimization framework for remapping and reweighting noisy
relevance labels. SIGIR 2016.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from distrank.contract import Info, Run, Tables
from distrank.errors import UsageError
from distrank.kernels import easiness as kernels
from distrank.kernels.labels import logarithms
from distrank.models._labels import LabelModel, grades_of, labels_of, order_quality
from distrank.models._pairwise import by_annotator
from distrank.models._squarem import Evaluated, squarem
from distrank.records import Array, Record, scalar
from distrank.settings import setting
from distrank.stats import dense

_WIDEST = 20.0  # largest size of an ability: the prior is 180 below its top there
_LEAST = 1e-100


@dataclass(frozen=True)
class GladSettings:
    """Settings of `glad`."""

    start: str = setting(
        "ones", "ability to start from: 1, or what the answers to honeypots say", choices=("ones", "gold")
    )
    tolerance: float = setting(1e-8, "converged when an iteration gains less than this per judgment", above=0.0)
    max_iterations: int = setting(500, "where to stop without convergence", low=1)


class Glad(LabelModel):
    """EM with SQUAREM on a and p; log d lives on the shards, `before` being where the last evaluation started from."""

    name = "glad"
    title = "GLAD: soft labels, ability and difficulty"
    paper = "Whitehill et al., NIPS 2009"
    estimates = "grades, annotator ability, item difficulty"
    diagnostics = ("objective", "log_likelihood")
    Settings = GladSettings

    def prepare(self, shard: Record) -> Record:
        """Annotator and label of every row apart: dividing cells would cost more than the sigmoids."""
        made = super().prepare(shard)
        owner, label = np.divmod(made["label.cell"], np.uint32(grades_of(shard)))
        return {**made, "label.owner": owner, "label.grade": label.astype(np.uint8)}

    def begin(self, run: Run, info: Info) -> Record:
        grades = len(info.grades)
        theta = {**self.common_theta(run, info), "judgments": scalar(max(info.judgments, 1))}
        ability = np.ones(info.annotators)
        if self.settings.start == "gold":
            if not info.honeypots:
                raise UsageError("setting start='gold' needs honeypots: a gold table (--gold) with grades as relevance")
            right, asked = theta["honeypots"].T
            chance = (right + 1.5) / (asked + 2.0)
            ability = logarithms(chance / (1.0 - chance))
        start = {"prior": np.full(grades, 1.0 / grades), "ability": ability}
        return {**theta, **_state(self._evaluate(run, theta, start, back=False)), "converged": scalar(False)}

    def iterate(self, run: Run, theta: Record) -> Record:
        known = {name: theta[name] for name in ("log_likelihood", "chance")}
        before = Evaluated(_part(theta, ""), _part(theta, "next."), float(theta["objective"]), known)
        after = squarem(before, lambda point, back: self._evaluate(run, theta, point, back=back), _valid)
        gain = (after.objective - before.objective) / float(theta["judgments"])
        return {**theta, **_state(after), "converged": scalar(gain < self.settings.tolerance)}

    def conclude(self, run: Run, theta: Record) -> Record:
        run(write_posteriors, {name: theta[name] for name in ("count", "prior", "ability")})
        return super().conclude(run, theta)

    def finalize(self, shard: Record, local: Record, theta: Record) -> Tables:
        tables = super().finalize(shard, local, theta)
        difficulty = kernels.exponentials(-local["easiness"])
        tables["rankings"]["difficulty"] = difficulty
        tables["queries"]["difficulty"] = difficulty
        return tables

    def quality(self, theta: Record) -> Array:
        """From the mean chance of a right label over what the annotator judged."""
        right, grades = theta["chance"], len(theta["prior"])
        confusion = np.empty((len(right), grades, grades))
        confusion[:] = ((1.0 - right) / max(grades - 1, 1))[:, None, None]
        confusion[:, np.arange(grades), np.arange(grades)] = right[:, None]
        return order_quality(confusion, theta["prior"])

    def annotators(self, theta: Record, info: Info) -> Record:
        return {**super().annotators(theta, info), "ability": theta["ability"]}

    def diagnosis(self, theta: Record) -> dict[str, Any]:
        shown = {"log_likelihood": float(theta["log_likelihood"]), "grade_shares": theta["prior"].tolist()}
        return {**super().diagnosis(theta), **shown}

    def _evaluate(self, run: Run, theta: Record, point: Record, *, back: bool) -> Evaluated:
        """One round: the objective of a point, and its image under EM. `back` starts items from where they were before
        the last evaluation."""
        count, ability = int(theta["count"]), point["ability"]
        sums = run(settle_items, {"count": theta["count"], "back": scalar(back), **point})
        slope, bound, chance, labels = (
            dense(sums, f"annotator/{name}", count) for name in ("slope", "bound", "chance", "labels")
        )
        away = ability - 1.0
        objective = float(sums["log_posterior"]) - 0.5 * math.fsum((away * away).tolist())
        items = sums["items"] + 1.0  # one imagined item per grade
        penalty = float(logarithms(point["prior"]).sum())
        image = {
            "prior": items / items.sum(),
            "ability": np.clip(ability + (slope - away) / (bound + 1.0), -_WIDEST, _WIDEST),
        }
        typical = 1.0 / (1.0 + kernels.exponentials(-ability))  # of an item of easiness 1, for those without labels
        facts = {
            "log_likelihood": sums["log_posterior"] + sums["easiness_prior"],
            "chance": np.where(labels > 0.0, chance / np.where(labels > 0.0, labels, 1.0), typical),
        }
        return Evaluated(point, image, objective + penalty, facts)


def settle_items(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step: the easiness of every item at its maximum, expected counts, and derivatives in the abilities."""
    count = len(shard["unit.rows"]) - 1
    before = local["before" if bool(theta["back"]) else "easiness"] if local else np.zeros(count)
    easiness, sums, value = _settled(shard, before, theta, None)
    stats = {
        "log_posterior": np.asarray(value),
        "easiness_prior": np.asarray(0.5 * float((easiness * easiness).sum())),
        "items": sums.pop("items"),
        **by_annotator(shard, int(theta["count"]), **sums),
    }
    return {"easiness": easiness, "before": before}, stats


def write_posteriors(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step: the soft labels, once the parameters are final."""
    posterior = np.empty((len(shard["unit.rows"]) - 1, grades_of(shard)))
    easiness, _, _ = _settled(shard, local["easiness"], theta, posterior)
    return {"easiness": easiness, "posterior": posterior}, {}


def _settled(
    shard: Record, before: Array, theta: Record, posterior: Array | None
) -> tuple[Array, dict[str, Array], float]:
    rows, _, weight, known = labels_of(shard)
    owner, label = shard["label.owner"], shard["label.grade"]
    grades, codes = grades_of(shard), shard["annotator.code"]
    slope, bound, chance = (np.zeros(len(codes)) for _ in range(3))
    easiness, items = np.empty(len(rows) - 1), np.zeros(grades)
    value = kernels.ability_pass(
        rows, owner, label, weight, known, theta["ability"][codes], logarithms(theta["prior"]), before, easiness, slope,
        bound, chance, items, posterior,
    )  # fmt: skip
    labels = shard["label.count"].reshape(-1, grades).sum(axis=1)
    return easiness, {"slope": slope, "bound": bound, "chance": chance, "labels": labels, "items": items}, value


def _valid(point: Record, valid: Record) -> Record:
    """An extrapolated point with probabilities that sum to 1 and abilities in their range."""
    prior = np.maximum(point["prior"], np.maximum(0.1 * valid["prior"], _LEAST))
    return {"prior": prior / prior.sum(), "ability": np.clip(point["ability"], -_WIDEST, _WIDEST)}


def _state(evaluated: Evaluated) -> Record:
    """What theta remembers of a point."""
    return {
        **evaluated.point,
        **{f"next.{name}": table for name, table in evaluated.image.items()},
        **evaluated.facts,
        "objective": scalar(evaluated.objective),
    }


def _part(theta: Record, prefix: str) -> Record:
    return {name: theta[f"{prefix}{name}"] for name in ("prior", "ability")}
