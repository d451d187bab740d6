"""TRM: the Thurstonian ranking model, from full and partial rankings.  [Wang16], section II and appendix B

    s_li      score of item i in query l           p_lik ~ N(s_li, delta_l^2)   how annotator k perceives it

An annotator ranks items by p. Given a ranking, each p is a normal score cut off at its neighbours (27): stochastic EM
sweeps over all p, then s is the mean of the p of its item (18). The first `burn_in` iterations are thrown away, scores
are averaged over the next `samples`. A partial ranking orders the items that are in it; items of equal rank are left
unordered.

Deviation: delta_l is 1. Rankings say nothing about it: scores and delta of a query can be multiplied by any number (the
paper rescales all queries together, which leaves that open). `difficulty` is delta^2 against the variance of the
query's scores: large where annotators perceive the items' differences badly.
Deviation: scores are N(0, score_spread^2) a priori. Where all annotators agree, the paper's have no finite maximum.

A weight counts in the mean of p. All annotators are alike in this model; `quality` is the share of an annotator's pairs
that agree with the consensus.

[Wang16] Wang, Wang, Jie, Zhai, Chang: Blind men and the elephant: Thurstonian pairwise preference for ranking in
         crowdsourcing. ICDM 2016.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.contract import PARTS, Info, Model, Run, Tables, Traits
from distrank.kernels import ordered as kernels
from distrank.kernels.pair_counts import count_by_query
from distrank.models._pairwise import INTERVALS, UNKNOWN, by_annotator, shares, split_offsets, split_slice
from distrank.models._tpp_gibbs import settled
from distrank.models._tpp_intervals import half_width, separate_bounds
from distrank.models._tpp_steps import centred
from distrank.records import Array, Record, scalar
from distrank.settings import setting
from distrank.stats import dense

SWEEPS = 4  # per iteration


@dataclass(frozen=True)
class TRMSettings:
    """Settings of `trm`."""

    burn_in: int = setting(50, "iterations before the first that counts", low=1)
    samples: int = setting(50, "iterations that are averaged", low=2)
    score_spread: float = setting(3.5, "standard deviation of scores a priori, in units of delta", above=0.0)
    interval: float | None = setting(
        0.9, "level of the intervals of scores and ranks; none leaves them out", above=0.0, high=0.999
    )
    max_iterations: int = setting(500, "most iterations before it ends without convergence", low=1)


class TRM(Model):
    """Stochastic EM with chains that go on from iteration to iteration."""

    name = "trm"
    title = "TRM: Thurstonian ranking model, scores from rankings"
    paper = "Wang et al., ICDM 2016"
    estimates = "scores, query difficulty"
    form = "rankings"
    accepts = ("rankings",)
    split = "annotator"
    traits = Traits(
        monotone=False,
        sampled=True,
        opted_out={"objective": "stochastic EM: the log-likelihood of a sample rises in expectation only"},
    )
    Settings = TRMSettings

    def prepare(self, shard: Record) -> Record:
        """Rows in runs of one annotator, best first; rows without weight are left out."""
        annotator, unit = shard["row.annotator"], np.repeat(
            np.arange(len(shard["unit.rows"]) - 1), np.diff(shard["unit.rows"])
        )  # fmt: skip
        weight, rank = shard.get("row.weight"), shard["row.rank"].astype(np.float64)
        kept = np.arange(len(annotator)) if weight is None else np.flatnonzero(weight > 0.0)
        order = kept[np.lexsort((shard["row.item"][kept], rank[kept], annotator[kept], unit[kept]))]
        unit, annotator, rank = unit[order], annotator[order], rank[order]
        starts = np.ones(len(order), bool)
        starts[1:] = (annotator[1:] != annotator[:-1]) | (unit[1:] != unit[:-1])
        run = np.append(np.flatnonzero(starts), len(order)).astype(np.int64)
        level = np.zeros(len(order), np.int64)
        kernels.levels(run, rank, level)
        owner = annotator[run[:-1]].astype(np.int64)
        items = int(shard["unit.nodes"][-1])
        node = shard["row.item"][order].astype(np.uint32)
        weight = None if weight is None else weight[order]
        others = {name: array for name, array in shard.items() if not name.startswith("row.")}
        return {
            **others,
            "rank.run": run,
            "rank.unit": np.searchsorted(unit[run[:-1]], np.arange(len(shard["unit.rows"]))).astype(np.int64),
            "rank.owner": owner,
            "rank.node": node,
            "rank.level": level,
            "rank.count": np.bincount(node, weight, items).astype(np.float64),
            **({} if weight is None else {"rank.weight": weight}),
            "annotator.code": np.unique(owner),
        }

    def begin(self, run: Run, info: Info) -> Record:
        items = sum(info.split_items)
        theta = {
            "spread": scalar(self.settings.score_spread),
            "agreement": np.full(info.annotators, UNKNOWN),
            "split.offsets": split_offsets(info),
            **{f"split.{name}": np.zeros(items) for name in ("score", "count", "total", "square", "noise")},
            "iterations": scalar(0),
            "taken": scalar(0),
            "history": np.zeros(self.settings.samples),
        }
        run(start_units, {"spread": theta["spread"]})
        parts = run(start_parts, theta, on=PARTS)
        if parts:
            theta["split.count"] = parts["count"]
            theta["split.score"] = mean_scores(parts["sums"], parts["count"], theta)
        return {**self._swept(run, theta, sampling=False, restart=False), "converged": scalar(False)}

    def iterate(self, run: Run, theta: Record) -> Record:
        settings, done = self.settings, int(theta["iterations"]) + 1
        full = int(theta["taken"]) == settings.samples  # but they drifted: take them anew
        theta = self._swept(run, theta, sampling=done > settings.burn_in, restart=full)
        near = int(theta["taken"]) == settings.samples and settled(theta["history"])
        return {**theta, "iterations": scalar(done), "converged": scalar(near)}

    def _swept(self, run: Run, theta: Record, *, sampling: bool, restart: bool) -> Record:
        """The E-step in rounds of one sweep, then the M-step."""
        total, sums = 0.0, np.zeros(len(theta["split.score"]))
        for _ in range(SWEEPS):
            units, parts = run(sweep_units, {}), run(sweep_parts, _of_split(theta), on=PARTS)
            total = sum(float(found["value"]) for found in (units, parts) if found)
            if parts:
                sums = sums + parts["sums"] / SWEEPS
        flags = {"spread": theta["spread"], "sampling": scalar(sampling), "restart": scalar(restart)}
        run(update_units, flags)
        theta = {**theta, "objective": scalar(total)}
        if len(sums):
            score = centred(mean_scores(sums, theta["split.count"], theta), theta["split.offsets"])
            split = {name: theta[f"split.{name}"] for name in ("count", "total", "square", "noise")}
            theta |= {f"split.{name}": value for name, value in updated(split, score, flags).items()}
        if restart:
            theta["taken"] = scalar(0)
        if sampling:
            history = theta["history"].copy()
            history[int(theta["taken"])] = total
            theta |= {"history": history, "taken": theta["taken"] + 1}
        return theta

    def conclude(self, run: Run, theta: Record) -> Record:
        """Means over the samples, intervals, and everyone's agreement with the consensus."""
        z = half_width(self.settings.interval)
        count = len(theta["agreement"])
        shown = {"taken": theta["taken"], "z": scalar(z), "count": scalar(count)}
        whole = run(conclude_units, shown)
        if len(theta["split.score"]):
            split = {name: theta[f"split.{name}"] for name in ("score", "count", "total", "square", "noise")}
            found = concluded(split, theta["split.offsets"], shown)
            theta = {**theta, **{f"split.{name}": value for name, value in found.items()}}
        parts = run(conclude_parts, shown | _of_split(theta), on=PARTS)
        agreed = np.zeros((count, 2))
        for sums in (whole, parts):
            if sums:
                agreed = agreed + dense(sums, "annotator/agreed", count)
        units = parts["units"] if parts else np.zeros((0, 2))
        return {**theta, "agreement": shares(agreed), "split.agreement": shares(units)}

    def finalize(self, shard: Record, local: Record, theta: Record) -> Tables:
        nodes, found = shard["unit.nodes"], local
        if "part.unit" in shard:
            unit, here = int(shard["part.unit"]), split_slice(shard, theta["split.offsets"])
            found = {name: theta[f"split.{name}"][here] for name in ("score", *INTERVALS) if f"split.{name}" in theta}
            found["agreement"] = theta["split.agreement"][unit : unit + 1]
        rankings = {name: found[name] for name in ("score", *INTERVALS) if name in found}
        return {
            "rankings": rankings,
            "queries": {"agreement": found["agreement"], "difficulty": difficulty(found["score"], nodes)},
        }

    def annotators(self, theta: Record, info: Info) -> Record:  # noqa: ARG002 (all that is needed is in theta)
        return {"quality": theta["agreement"], "agreement": theta["agreement"]}

    def warnings(self, theta: Record, info: Info) -> list[str]:  # noqa: ARG002
        if not info.disconnected:
            return []
        apart = f"{info.disconnected:,} of {info.queries:,} queries"
        return [
            f"nobody ranked some items of {apart} together, not even through others: nothing in the data orders them"
        ]


def difficulty(score: Array, nodes: Array) -> Array:
    """delta^2 = 1 against the variance of the scores of every query; scores that are all equal count as 1e-3 apart."""
    sizes = np.diff(nodes)
    unit = np.repeat(np.arange(len(sizes)), sizes)
    total = np.bincount(unit, score**2, len(sizes))  # scores have mean 0
    return 1.0 / np.maximum(total / np.maximum(sizes, 1), 1e-6)


def mean_scores(sums: Array, count: Array, theta: Record) -> Array:
    """(18), with the pull of the prior; 0 for an item without weight."""
    return sums / (count + float(theta["spread"]) ** -2)


def updated(state: Record, score: Array, flags: Record) -> Record:
    """The state with its new scores; totals over the samples are begun anew, or added to, where asked for."""
    fresh, sampling = bool(flags["restart"]), bool(flags["sampling"])
    noise = 1.0 / (state["count"] + float(flags["spread"]) ** -2)
    found = {"score": score}
    for name, value in {"total": score, "square": score**2, "noise": noise}.items():
        before = np.zeros(len(score)) if fresh else state[name]
        found[name] = before + value if sampling else before
    return found


def concluded(state: Record, nodes: Array, theta: Record) -> Record:
    """Mean scores with their bounds: the deviation between samples, and that of s given all perceived scores."""
    taken = max(float(theta["taken"]), 1.0)
    last = float(theta["taken"]) == 0.0
    score = state["score"] if last else state["total"] / taken
    noise = 1.0 / np.maximum(state["count"], 1.0) if last else state["noise"] / taken
    spread = 0.0 if last else np.maximum(state["square"] / taken - score**2, 0.0)
    bounds = separate_bounds(score, np.sqrt(spread + noise), nodes, float(theta["z"])) if float(theta["z"]) else {}
    return {"score": score, **bounds}


def _of_split(theta: Record) -> Record:
    return {name: theta[name] for name in ("split.offsets", "split.score")}


# Steps. --------------------------------------------------------------------------------------------------------------


def start_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """Perceived scores by place, scores as their means."""
    perceived, sums = _first(shard)
    score = centred(mean_scores(sums, shard["rank.count"], theta), shard["unit.nodes"])
    nothing = np.zeros(len(score))
    means = {"total": nothing, "square": nothing, "noise": nothing, "sums": nothing}
    return {"score": score, "perceived": perceived, **means}, {}


def start_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """The same for a part of a split query."""
    perceived, sums = _first(shard)
    here = split_slice(shard, theta["split.offsets"])
    whole = {name: np.zeros(len(theta["split.score"])) for name in ("sums", "count")}
    whole["sums"][here], whole["count"][here] = sums, shard["rank.count"]
    return {"perceived": perceived}, whole


def _first(shard: Record) -> tuple[Array, Array]:
    perceived, items = np.zeros(len(shard["rank.node"])), int(shard["unit.nodes"][-1])
    kernels.first_perceived(shard["rank.run"], shard["rank.level"], perceived)
    sums = np.zeros(items)
    kernels.add_perceived(shard["rank.node"], shard.get("rank.weight"), perceived, np.zeros(items), sums)
    return perceived, sums


def sweep_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """One sweep; its perceived scores add to those of the sweeps before it."""
    perceived, sums, value = _sweep(shard, local["perceived"], local["score"], key)
    return {**local, "perceived": perceived, "sums": local["sums"] + sums / SWEEPS}, {"value": scalar(value)}


def sweep_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:
    """One sweep over a part."""
    here = split_slice(shard, theta["split.offsets"])
    perceived, sums, value = _sweep(shard, local["perceived"], theta["split.score"][here], key)
    whole = np.zeros(len(theta["split.score"]))
    whole[here] = sums
    return {"perceived": perceived}, {"value": scalar(value), "sums": whole}


def _sweep(shard: Record, before: Array, score: Array, key: Array) -> tuple[Array, Array, float]:
    perceived, sums = before.copy(), np.zeros(len(score))
    runs = shard["rank.unit"], shard["rank.run"], shard["rank.owner"]
    kernels.sweep(shard["unit.hash"], key, *runs, shard["rank.node"], shard["rank.level"], score, perceived)
    value = kernels.add_perceived(shard["rank.node"], shard.get("rank.weight"), perceived, score, sums)
    return perceived, sums, value


def update_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """The M-step, and a sample where asked for."""
    score = centred(mean_scores(local["sums"], shard["rank.count"], theta), shard["unit.nodes"])
    state = updated({**local, "count": shard["rank.count"]}, score, theta)
    return {**local, **state, "sums": np.zeros(len(score))}, {}


def conclude_units(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """Local as the tables need it."""
    found = concluded({**local, "count": shard["rank.count"]}, shard["unit.nodes"], theta)
    units, sums = _agreement(shard, found["score"], int(theta["count"]))
    return {**found, "agreement": shares(units)}, sums


def conclude_parts(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """Agreement with the consensus on a part of a split query."""
    units, sums = _agreement(
        shard, theta["split.score"][split_slice(shard, theta["split.offsets"])], int(theta["count"])
    )
    whole = np.zeros((len(theta["split.offsets"]) - 1, 2))
    whole[int(shard["part.unit"])] = units[0]
    return None, {**sums, "units": whole}


def _agreement(shard: Record, score: Array, count: int) -> tuple[Array, Record]:
    """Pairs that agree with the order of the scores and pairs that could, of every unit, and by annotator."""
    run, unit = shard["rank.run"], shard["rank.unit"]
    right, _, pairs, _ = count_by_query(run, score[shard["rank.node"]], -shard["rank.level"].astype(np.float64))
    both = np.stack([right, pairs], axis=1).astype(np.float64)
    codes = shard["annotator.code"]
    place = np.searchsorted(codes, shard["rank.owner"])
    agreed = np.stack([np.bincount(place, both[:, side], len(codes)) for side in range(2)], axis=1)
    of_unit = np.repeat(np.arange(len(unit) - 1), np.diff(unit))
    units = np.stack([np.bincount(of_unit, both[:, side], len(unit) - 1) for side in range(2)], axis=1)
    return units, by_annotator(shard, count, agreed=agreed)
