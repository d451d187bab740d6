"""SVP: the pairwise preference matrix completed at rank 2, then averaged.  [Gleich11]

    Y_ij   mean preference of item i over j in a query, between -1 and 1, known on the judged pairs
    X      the skew-symmetric rank-2 matrix closest to Y on these pairs, by singular value projection
    s      scores: s_i = mean of X_ij over j

If preferences are differences of scores, Y is s e' - e s', which has rank 2: completing it fills in the pairs that
nobody judged, and the row means of X give the scores back, up to their mean.

Deviation: the paper's step is constant; here it begins at one over the share of pairs that were judged, as theirs does,
and is halved where it would raise the error, so that the error never rises.

All judgments of a query must be in one place, so queries are never split.

[Gleich11] Gleich, Lim: Rank aggregation via nuclear norm minimization. KDD 2011.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.contract import Info, Run
from distrank.kernels import svp as kernels
from distrank.models._leads import LeadsSettings, with_leads
from distrank.models._pairwise import PairwiseModel
from distrank.records import Array, Record, scalar
from distrank.settings import setting


@dataclass(frozen=True)
class SVPSettings(LeadsSettings):
    """Settings of `svp`."""

    tolerance: float = setting(1e-6, "a query ends once an iteration lowers its error by a smaller share", above=0.0)
    max_iterations: int = setting(1_000, "limit on the number of iterations", low=1)


class SVP(PairwiseModel):
    """Projections until no query's error falls any more."""

    name = "svp"
    title = "SVP: rank-2 completion of the pairwise preferences"
    paper = "Gleich11"
    estimates = "scores"
    split = "never"
    Settings = SVPSettings

    def prepare(self, shard: Record) -> Record:
        shard = with_leads(super().prepare(shard))
        kept = {name: array for name, array in shard.items() if name not in ("lead.lead", "lead.total")}
        return {**kept, "lead.mean": shard["lead.lead"] / shard["lead.total"]}

    def begin(self, run: Run, info: Info) -> Record:
        return self._after({**self.empty_theta(info), "tolerance": scalar(self.settings.tolerance)}, run(start, {}))

    def iterate(self, run: Run, theta: Record) -> Record:
        return self._after(theta, run(advance, {"tolerance": theta["tolerance"]}))

    @staticmethod
    def _after(theta: Record, stats: Record) -> Record:
        return {**theta, "objective": -stats["error"], "converged": scalar(int(stats["open"]) == 0)}


def start(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step: X = 0 in the plane where the iteration begins."""
    nodes, known = shard["unit.nodes"], shard["lead.mean"]
    items, units = int(nodes[-1]), len(nodes) - 1
    q, r = np.zeros(items), np.zeros(items)
    error, step, done = np.zeros(units), np.ones(units), np.zeros(units, bool)
    for unit in range(units):
        first, last = int(nodes[unit]), int(nodes[unit + 1])
        here = slice(int(shard["lead.offsets"][first]), int(shard["lead.offsets"][last]))
        error[unit] = 0.25 * (known[here] ** 2).sum()
        pairs = here.stop - here.start
        step[unit] = (last - first) * (last - first - 1) / max(pairs, 1)
        plane = q[first:last], r[first:last]
        done[unit] = not kernels.start_plane(shard["lead.offsets"], shard["lead.other"], known, first, *plane)
    state = {"factor": np.zeros(units), "q": q, "r": r, "step": step, "error": error, "done": done}
    return {**state, "score": np.zeros(items)}, _stats(error, done)


def advance(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step: one iteration of every query."""
    nodes = shard["unit.nodes"]
    new = {name: local[name].copy() for name in ("factor", "q", "r", "step", "error", "done")}
    known = shard["lead.offsets"], shard["lead.other"], shard["lead.mean"]
    state = new["factor"], new["q"], new["r"], new["step"], new["error"], new["done"]
    kernels.iterate_units(nodes, *known, *state, float(theta["tolerance"]))
    sums = [np.add.reduceat(new[name], nodes[:-1]) for name in ("q", "r")] if len(nodes) > 1 else [np.zeros(0)] * 2
    scale = np.repeat(new["factor"] / np.maximum(np.diff(nodes), 1), np.diff(nodes))
    of_q, of_r = (np.repeat(total, np.diff(nodes)) for total in sums)
    return {**new, "score": scale * (new["q"] * of_r - new["r"] * of_q)}, _stats(new["error"], new["done"])


def _stats(error: Array, done: Array) -> Record:
    return {"error": scalar(float(error.sum())), "open": scalar(int((~done).sum()))}
