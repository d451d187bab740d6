"""CrowdAgg: the permutation that the annotators' lists would score best on.  [Niu15]

    tau_i    what annotator i said of a query's n items: contests, from preferences or from ratings and rankings (5)
    eta_i    quality of annotator i: share of the contests that agree with the consensus (8), (17)
    p_st     P(s is before t according to i), from the wins of both and eta_i (6), (9)
    r_j      rank of item j according to i: 0 is best; the contests with the n - 1 others are independent coins (12)
    F_j      expected discount of item j's rank, its mean over the annotators
    h(r)     gain of place r in the consensus: 2^kappa - 1 (NDCG) or kappa (RBP), kappa = (n - r) / n

The consensus maximises sum_j h(place of j) F_j (14): an assignment problem, solved by sorting F because h falls with
the place (rearrangement inequality). Then the qualities are set to (17), and so on until the permutations stay as they
are, or come back to earlier ones, which is a cycle and is said.

Deviations: equation 6 as printed is garbled; the reading is 1/2 + (N_s - N_t) / (2n). Ranks and discounts start at 0,
1 / log2(2 + r). Equal F count as half an agreement in (17), so that the names of items do not matter.

`pair_model=step` makes p = 1 for the side of a contest with more wins (with equal wins, for the one that was put
first): better against a minority of malicious annotators, worse against a majority. `quality_scope=query` gives every
annotator a quality per query. `quality_prior=a,b` makes (17) the mode of its posterior under a Beta(a, b) prior, as in
`crowd-bt`: with few judgments per annotator and query it keeps three lucky answers from making an expert.

Annotators' lists are never split, so queries too large for a shard are cut between annotators; the sums F add up.

[Niu15] Niu, Lan, Guo, Cheng, Yu, Long: Listwise approach for rank aggregation in crowdsourcing. WSDM 2015.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from distrank.contract import PARTS, Info, Model, Run, Tables, Traits
from distrank.errors import UsageError
from distrank.kernels import crowd_agg as kernels
from distrank.models._opinions import by_owner, by_unit, group_agreement, opinions_of, with_opinions
from distrank.models._pairwise import by_annotator, shares, split_offsets, split_slice
from distrank.records import Array, Record, scalar
from distrank.settings import setting
from distrank.stats import dense


@dataclass(frozen=True)
class CrowdAggSettings:
    """Settings of `crowd-agg`."""

    measure: str = setting("ndcg", "the measure whose expectation is maximised", choices=("ndcg", "rbp"))
    persistence: float = setting(0.95, "p of rbp: probability of going on to the next item", above=0.0, high=0.999999)
    pair_model: str = setting(
        "difference",
        "P(s before t) from the difference of their wins (equation 6), or 1 for the side with more wins",
        choices=("difference", "step"),
    )
    annotator_quality: str = setting(
        "estimate", "estimate every annotator's quality eta, or trust all alike", choices=("estimate", "equal")
    )
    quality_scope: str = setting(
        "all", "one quality per annotator over all queries, or one per query", choices=("all", "query")
    )
    quality_prior: tuple[float, float] | None = setting(
        None, "Beta(a,b) prior on every quality, as a,b: the mode of the posterior is taken", low=1.0
    )
    max_iterations: int = setting(100, "limit on the number of iterations", low=1)


class CrowdAgg(Model):
    """Sorting and counting, in turns."""

    name = "crowd-agg"
    title = "CrowdAgg: best expected ranking measure over annotators of estimated quality"
    paper = "Niu15"
    estimates = "scores, annotator quality"
    form = "preferences"
    native = ("preferences", "ratings", "rankings")
    split = "annotator"
    traits = Traits(
        monotone=False,
        opted_out={"objective": "the quality update (17) counts agreement, it does not maximise the expected measure"},
    )
    Settings = CrowdAggSettings
    diagnostics = ("objective", "moved")

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        if settings.annotator_quality == "equal" and settings.quality_prior is not None:
            raise UsageError("quality_prior says nothing where annotator_quality=equal: leave one of them out")

    def prepare(self, shard: Record) -> Record:
        shard = with_opinions(shard)
        # in the difference model a group whose pairs are all contests is a list: only the wins matter
        lists = shard["group.list"]
        if self.settings.pair_model == "difference":
            sizes = np.diff(shard["group.entries"])
            contests = np.diff(shard["entry.contests"][shard["group.entries"]])
            lists = lists | (contests == sizes * (sizes - 1))
        return {**shard, "group.complete": lists}

    def begin(self, run: Run, info: Info) -> Record:
        prior = self.settings.quality_prior or (1.0, 1.0)
        theta: Record = {
            "measure": scalar(kernels.NDCG if self.settings.measure == "ndcg" else kernels.RBP),
            "persistence": scalar(self.settings.persistence),
            "step": scalar(self.settings.pair_model == "step"),
            "per_query": scalar(self.settings.quality_scope == "query" and self.settings.annotator_quality != "equal"),
            "prior": np.asarray(prior) - 1.0,
            "eta": np.ones(info.annotators),
            "quality": np.full(info.annotators, 0.5),
            "split.offsets": split_offsets(info),
            "split.position": np.full(sum(info.split_items), -1),
            "seen": np.empty(0, np.uint64),
            "cycle": scalar(0),
        }
        return self._round(run, theta)

    def iterate(self, run: Run, theta: Record) -> Record:
        return self._round(run, {**theta, "eta": theta["eta.next"]})

    def _round(self, run: Run, theta: Record) -> Record:
        """Permutations for the qualities at hand, and the qualities that follow from them."""
        count = len(theta["eta"])
        shown = {name: theta[name] for name in (*_SHOWN, "eta")}
        whole = run(rank_units, shown)
        parts = run(score_parts, shown, on=PARTS)
        moved, objective, hashed = _outcome(whole)
        agreed = dense(whole, "annotator/agreed", count) if whole else np.zeros((count, 2))
        if parts:
            split = _ranked(theta, parts["split.gain"], parts["split.base"], parts["split.annotators"])
            moved += float((split["split.position"] != theta["split.position"]).sum())
            objective += float(split.pop("objective"))
            hashed = hashed + split.pop("hash")
            theta = {**theta, **split}
            shown = {name: theta[name] for name in (*_SHOWN, "split.level")} | {"count": scalar(count)}
            found = run(count_parts, shown, on=PARTS)
            agreed = agreed + dense(found, "annotator/agreed", count)
            theta["split.agreement"] = shares(found["split.agreed"])
        estimates = self.settings.annotator_quality == "estimate"
        again = np.flatnonzero(theta["seen"] == hashed[0])
        cycle = len(theta["seen"]) - int(again[-1]) if len(again) and moved else 0
        return {
            **theta,
            "eta.next": _quality(agreed, theta["prior"]) if estimates else theta["eta"],
            "quality": shares(agreed),
            "moved": scalar(moved),
            "objective": scalar(objective),
            "seen": np.append(theta["seen"], hashed),
            "cycle": scalar(cycle),
            "converged": scalar(not estimates or moved == 0.0 or cycle > 0),
        }

    def finalize(self, shard: Record, local: Record, theta: Record) -> Tables:
        if "part.unit" not in shard:
            return {"rankings": {"score": local["score"]}, "queries": {"agreement": local["agreement"]}}
        unit, here = int(shard["part.unit"]), split_slice(shard, theta["split.offsets"])
        agreement = theta["split.agreement"][unit : unit + 1]
        return {"rankings": {"score": theta["split.score"][here]}, "queries": {"agreement": agreement}}

    def annotators(self, theta: Record, info: Info) -> Record:  # noqa: ARG002 (all that is needed is in theta)
        """`quality` is eta over all queries, also where the fit used one per query."""
        one_eta = self.settings.annotator_quality == "estimate" and self.settings.quality_scope == "all"
        return {"quality": theta["eta.next"] if one_eta else theta["quality"], "agreement": theta["quality"]}

    def warnings(self, theta: Record, info: Info) -> list[str]:
        found = []
        if int(theta["cycle"]):
            found.append(
                f"crowd-agg came back to an earlier permutation: it goes round in a cycle of {int(theta['cycle'])} and "
                "was stopped there. The items that keep changing places are about equally good"
            )
        quality, known = self.annotators(theta, info)["quality"], info.annotator_judgments >= 5
        if known.any() and float(np.median(quality[known])) < 0.5:
            found.append(
                "most annotators disagree with the consensus: a majority may be malicious, which only gold can tell"
            )
        return found

    def diagnosis(self, theta: Record) -> dict[str, Any]:
        return {"cycle": int(theta["cycle"])}


_SHOWN = ("measure", "persistence", "step", "per_query", "prior", "split.offsets")


def _quality(counts: Array, prior: Array) -> Array:
    """Equation 17, or the mode of its posterior; 0.5 where there is nothing to go by."""
    return shares(np.stack([counts[:, 0] + prior[0], counts[:, 1] + prior.sum()], axis=1))


def _outcome(stats: Record) -> tuple[float, float, Array]:
    if not stats:
        return 0.0, 0.0, np.zeros(1, np.uint64)
    return float(stats["moved"]), float(stats["objective"]), stats["hash"]


def _gains(shard: Record, local: Record, theta: Record) -> tuple[Array, Array]:
    """By item, what the annotators' expected discounts add to that of an unjudged item; by unit, the latter."""
    gain, base = np.zeros(int(shard["unit.nodes"][-1])), np.zeros(len(shard["unit.groups"]) - 1)
    if bool(theta["per_query"]):
        eta = local["eta"] if local else np.ones(len(shard["group.owner"]))
    else:
        eta = theta["eta"][shard["annotator.code"]][shard["group.owner"]]
    kernels.add_expected(
        shard["unit.nodes"],
        shard["unit.groups"],
        shard["group.entries"],
        shard["group.complete"],
        *opinions_of(shard),
        eta,
        int(theta["measure"]),
        float(theta["persistence"]),
        bool(theta["step"]),
        gain,
        base,
    )
    return gain, base


def rank_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step over whole units: scores and permutations for the qualities at hand, and who agrees with them."""
    nodes = shard["unit.nodes"]
    gain, base = _gains(shard, local, theta)
    score = gain / np.repeat(shard["unit.annotators"], np.diff(nodes)) + np.repeat(base, np.diff(nodes))
    level, position = np.empty(len(score), np.int64), np.empty(len(score), np.int64)
    hashed = kernels.place(nodes, score, base, level, position)
    counts = group_agreement(shard, level)
    objective = kernels.measured(nodes, position, score, int(theta["measure"]), float(theta["persistence"]))
    new = {"score": score, "position": position, "agreement": shares(by_unit(shard, counts))}
    if bool(theta["per_query"]):
        new["eta"] = _quality(counts, theta["prior"])
    moved = (position != local["position"]).sum() if local else len(position)
    stats = {"moved": scalar(float(moved)), "objective": scalar(objective), "hash": hashed}
    return new, {**stats, **by_annotator(shard, len(theta["eta"]), agreed=by_owner(shard, counts))}


def score_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """A step over the parts of split units: what their annotators add to the scores."""
    offsets, unit = theta["split.offsets"], int(shard["part.unit"])
    gain, base = _gains(shard, local, theta)
    stats = {name: np.zeros(len(offsets) - 1) for name in ("split.base", "split.annotators")}
    total = np.zeros(int(offsets[-1]))
    total[split_slice(shard, offsets)] = gain
    if bool(shard["part.first"]):
        stats["split.base"][unit] = base[0]
        stats["split.annotators"][unit] = shard["unit.annotators"][0]
    return None, {**stats, "split.gain": total}


def _ranked(theta: Record, gain: Array, base: Array, annotators: Array) -> dict[str, Array]:
    """The permutations of all split units."""
    offsets = theta["split.offsets"]
    items = np.diff(offsets)
    score = gain / np.repeat(annotators, items) + np.repeat(base, items)
    level, position = np.empty(len(score), np.int64), np.empty(len(score), np.int64)
    hashed = kernels.place(offsets, score, base, level, position)
    objective = kernels.measured(offsets, position, score, int(theta["measure"]), float(theta["persistence"]))
    found = {"split.score": score, "split.level": level, "split.position": position}
    return {**found, "objective": scalar(objective), "hash": hashed}


def count_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record | None, Record]:  # noqa: ARG001
    """A step over the parts of split units: who agrees with the permutations."""
    offsets = theta["split.offsets"]
    counts = group_agreement(shard, theta["split.level"][split_slice(shard, offsets)])
    split = np.zeros((len(offsets) - 1, 2))
    split[int(shard["part.unit"])] = counts.sum(axis=0)
    stats = by_annotator(shard, int(theta["count"]), agreed=by_owner(shard, counts))
    new = {"eta": _quality(counts, theta["prior"])} if bool(theta["per_query"]) else None
    return new, {"split.agreed": split, **stats}
