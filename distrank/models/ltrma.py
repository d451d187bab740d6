"""LTRMA: a ranker from rankings by a crowd, with the expertise of every annotator.  [Wu16]

    y         true ranking of a query: hidden                     w         weights of a linear ranker
    y_j       ranking by annotator j                              theta_j   expertise of j: dispersion, lower is better

    P(y | x, w)        Plackett-Luce with scores w x (8)          p(y_j | y, theta_j)   Mallows around y (7)

EM (Algorithm 2). E-step: the posterior of y, summed over all rankings of short lists (`kernels.subsets`), sampled for
longer ones (`kernels.metropolis`). M-step: theta from the expected distances (16) with side information (`_expertise`);
w by ListMLE on the most probable rankings (`w_step=map`, as in the paper) or in expectation over the posterior (19).

With `w_step=expectation` and lists that are summed over, the objective is the penalised log-likelihood (10) and never
falls. With `map` it is the same quantity, which that step does not maximise; sampled lists enter it with the joint
probability of their best ranking.

Gold, where it is given, is certain: true rankings agree with it (the paper's S1). Annotator info are statements about
theta, each with its confidence (S2, S3 and any mix).

`theta_error` is the standard error of theta given the true rankings, from the variance of the distance; what is not
known about those is not in it.

Deviation: lists may be of different items and lengths and have ties; annotators judge the queries that they judge. All
theta start at -1 and w at 0, a uniform law of y, in place of random numbers.

[Wu16] Wu, You, Xia, Ma, Hu: Listwise learning to rank from crowds. ACM TKDD 11(1), 2016.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from distrank.contract import Info, Learned, Model, Run, Tables, Traits
from distrank.errors import UsageError
from distrank.kernels.subsets import MOST_ITEMS
from distrank.models import _ranker
from distrank.models._expertise import (
    annotator_objective,
    fitted_expertise,
    no_side_information,
    pair_accuracy,
    side_objective,
    spread_of,
)
from distrank.models._linear import agreement, shares
from distrank.models._lists import LONGEST, Kinds, count_kinds, kinds_from, prepared_lists, total_by_annotator
from distrank.models._truth import (
    best_likelihood,
    better_graded,
    infer_truth,
    posterior_likelihood,
    start_rankings,
)
from distrank.records import Array, Record, scalar
from distrank.settings import setting

START = -1.0  # theta of everybody
KEPT = 20  # states of a chain that stand for its posterior
FEW_EFFECTIVE = 50.0  # effective samples per list below which a warning is due


@dataclass(frozen=True)
class RankerSettings:
    """Settings of everything that learns a linear ranker."""

    ridge: float = setting(1e-3, "ridge on the weights of standardised features, per query", above=0.0)
    max_iterations: int = setting(100, "iterations before giving up", low=1)


@dataclass(frozen=True)
class ListSettings(RankerSettings):
    """Settings of what models annotators' rankings."""

    top_k: int | None = setting(
        None, "learn from the first k items of every list; none: whole rankings", low=1, high=1_000
    )
    exact_items: int = setting(
        12, "lists of up to so many items are summed over exactly, longer ones sampled", low=1, high=MOST_ITEMS
    )
    samples: int = setting(500, "Metropolis steps per query and iteration (Ns), where lists are sampled", low=1)
    tolerance: float = setting(
        0.01, "converged when theta moves by less than this times annotators, and w times features", above=0.0
    )


@dataclass(frozen=True)
class LTRMASettings(ListSettings):
    """Settings of `ltrma`."""

    w_step: str = setting(
        "map",
        "the ranker learns from the most probable rankings, or in expectation over the posterior",
        choices=("map", "expectation"),
    )


class ListModel(Model):
    """What LTRMA and its two-stage relative share: Mallows annotators around a hidden ranking."""

    form = "rankings"
    accepts = ("rankings",)
    split = "never"
    features = True
    traits = Traits(
        monotone=False,
        sampled=True,
        weighted=False,
        opted_out={
            "weights": "a ranking is one judgment of all its items; rows of it cannot count more than others",
            "relabelling": "rankings that are exactly as probable are decided by the order of the items' ids",
            "splitting": "the ranking of a query is estimated as a whole",
            "objective": "the paper's step for w maximises the best ranking's probability; expectation is monotone",
        },
    )
    diagnostics = ("objective", "theta_change", "w_change", "acceptance", "effective_samples")

    @property
    def limits(self) -> Array:
        settings = self.settings
        kept = KEPT if getattr(settings, "w_step", "map") == "expectation" else 0
        return np.array([settings.exact_items, settings.samples, kept, settings.top_k or 0])

    def prepare(self, shard: Record) -> Record:
        longest = int(np.diff(shard["unit.nodes"]).max(initial=0))
        if self.settings.top_k is None and longest > LONGEST:
            raise UsageError(
                f"a query has {longest:,} items, and whole rankings of more than {LONGEST:,} are too long to estimate: "
                "set top_k to learn from the first items of every list"
            )
        if self.settings.top_k is not None and len(shard.get("gold.winner", ())):
            raise UsageError(
                "with top_k gold must be relevance: pairs of known order do not say who is among the first"
            )
        shard = prepared_lists(shard, self.settings.top_k)
        return {**shard, "node.higher": better_graded(shard)} if self.settings.top_k else shard

    def begin(self, run: Run, info: Info) -> Record:
        _ranker.require_features(info, self.name)
        ranker = _ranker.fresh_ranker(run, info)
        kinds = kinds_from(run(count_lists, {"top_k": scalar(self.settings.top_k or 0)}), info.annotators)
        run(start_rankings, {"limits": self.limits})
        side = {**no_side_information(), **info.annotator_info}
        expertise = np.full(info.annotators, START)
        expertise[side["side.fixed"]] = side["side.fixed_value"]
        theta: Record = {
            **ranker,
            **{f"kind.{name}": array for name, array in kinds._asdict().items()},
            **side,
            "expertise": expertise,
            "queries": scalar(info.queries),
            "theta_change": scalar(np.nan),
            "w_change": scalar(np.nan),
            "converged": scalar(False),
        }
        return self.inferred(run, theta)

    def inferred(self, run: Run, theta: Record) -> Record:
        """The E-step, and the objective where the parameters are."""
        shown = {**_ranker.shown_ranker(theta), "expertise": theta["expertise"], "limits": self.limits}
        found = run(infer_truth, shown)
        expertise, kinds = theta["expertise"], kinds_of(theta)
        objective = float(found["joint"]) + float(annotator_objective(kinds, expertise).sum())
        objective += side_objective(expertise, theta)
        objective -= _ranker.penalty(theta, self.settings.ridge, int(theta["queries"]))
        chains = float(found["chains"])
        return {
            **theta,
            "distance": total_by_annotator(found, "distance", len(expertise)),
            "objective": scalar(objective),
            "exact": found["exact"],
            "chains": found["chains"],
            "acceptance": scalar(float(found["accepted"]) / float(found["steps"]) if chains else np.nan),
            "effective_samples": scalar(float(found["effective"]) / chains if chains else np.nan),
        }

    def judged(self, theta: Record) -> Array:
        """The M-step for theta."""
        return fitted_expertise(kinds_of(theta), theta["distance"], theta["expertise"], theta)

    def finalize(self, shard: Record, local: Record, theta: Record) -> Tables:
        score = _ranker.item_scores(shard, theta)
        order, nodes = local["order"], shard["unit.nodes"]
        top_k = self.settings.top_k
        sizes = np.diff(nodes)
        place = np.arange(len(order)) - np.repeat(nodes[:-1], sizes)
        if top_k is not None:  # what the annotators' lists do not reach is in the ranker's order
            unit = np.repeat(np.arange(len(sizes)), sizes)
            order = order[np.lexsort((order, -score[order], np.where(place < top_k, place, top_k), unit))]
        share = np.empty(len(order))
        share[order] = 1.0 - place / np.maximum(np.repeat(sizes, sizes) - 1, 1)
        _, units = agreement(shard, share)
        return {"rankings": {"score": share, "ranker_score": score}, "queries": {"agreement": shares(units)}}

    def annotators(self, theta: Record, info: Info) -> Record:  # noqa: ARG002 (all that is needed is in theta)
        kinds = kinds_of(theta)
        _, variance = spread_of(kinds, theta["expertise"])
        error = np.where(variance > 0.0, 1.0 / np.sqrt(np.where(variance > 0.0, variance, 1.0)), 0.0)
        error[theta["side.fixed"]] = 0.0
        quality = np.clip(pair_accuracy(kinds, theta["expertise"]), 0.0, 1.0)
        return {"quality": quality, "theta": theta["expertise"], "theta_error": error}

    def learned(self, theta: Record, info: Info) -> Learned:
        return _ranker.learned_ranker(theta, info)

    def warnings(self, theta: Record, info: Info) -> list[str]:
        found = _ranker.ranker_warnings(theta, info)
        chains, effective = float(theta["chains"]), float(theta["effective_samples"])
        if chains and effective < FEW_EFFECTIVE:
            found.append(
                f"{int(chains):,} of {info.queries:,} queries were sampled, with {effective:.0f} effective samples of "
                f"{self.settings.samples} steps each ({float(theta['acceptance']):.1%} accepted): raise samples, or "
                "exact_items where lists are short enough"
            )
        return found

    def diagnosis(self, theta: Record) -> dict[str, Any]:
        return {
            "exact_queries": int(theta["exact"]),
            "sampled_queries": int(theta["chains"]),
            "ranker_evaluations": int(theta["evaluations"]),
        }


class LTRMA(ListModel):
    """Truth, expertise and ranker together."""

    name = "ltrma"
    title = "LTRMA: a ranker from crowd rankings, with annotator expertise"
    paper = "Wu, You, Xia, Ma, Hu: Listwise learning to rank from crowds. TKDD 2016"
    estimates = "ranker, true rankings, annotator expertise"
    Settings = LTRMASettings

    def iterate(self, run: Run, theta: Record) -> Record:
        expertise = self.judged(theta)
        fitted, _, _ = _ranker.trained(run, theta, self.likelihood, self.settings.ridge, int(theta["queries"]))
        theta_change = float(np.linalg.norm(expertise - theta["expertise"]))
        w_change = float(np.linalg.norm(fitted["w"] - theta["w"]))
        tolerance = self.settings.tolerance
        converged = theta_change < tolerance * len(expertise) and w_change < tolerance * len(fitted["w"])
        moved = {**fitted, "expertise": expertise, "converged": scalar(converged)}
        return self.inferred(run, {**moved, "theta_change": scalar(theta_change), "w_change": scalar(w_change)})

    def likelihood(self, run: Run, theta: Record) -> tuple[float, Array]:
        """What the ranker maximises at the weights in theta, given the last E-step (whose weights are in the memory of
        L-BFGS only until it moves, so they are handed over)."""
        shown = _ranker.shown_ranker(theta)
        if self.settings.w_step == "map":
            found = run(best_likelihood, {**shown, "top_k": scalar(self.settings.top_k or 0)}, keep=False)
        else:
            shown |= {"limits": self.limits, "e_step.w": theta["e_step.w"], "e_step.expertise": theta["expertise"]}
            found = run(posterior_likelihood, shown, keep=False)
        return float(found["value"]), found["gradient"]

    def inferred(self, run: Run, theta: Record) -> Record:
        return {**super().inferred(run, theta), "e_step.w": theta["w"]}


def kinds_of(theta: Record) -> Kinds:
    """The lists of all annotators, as `begin` counted them."""
    return Kinds(*(theta[f"kind.{name}"] for name in Kinds._fields))


def count_lists(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """A step: the kinds of lists of every annotator."""
    return None, count_kinds(shard, int(theta["top_k"]) or None)
