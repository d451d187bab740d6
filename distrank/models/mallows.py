"""Mallows: lists scattered around a consensus by Kendall distance, with every annotator's dispersion.  [Mallows57]

    pi      consensus of a query              d        pairs that a list has the other way round than pi
    phi_k   dispersion of annotator k: P(list) proportional to e^(-phi_k d); 0: guesses; negative: reports the opposite

    rankings      lists, of any of the query's items
    ratings       lists with ties, whose normaliser counts the arrangements of tied blocks
    preferences   lists of two, each on its own

Consensus and dispersions maximise the likelihood in turns. Given the dispersions, the consensus is a weighted Kemeny
order: exact, by dynamic programming, for queries of at most `exact_items` items; for larger ones an annealed Gibbs
sampler and descent, of which the better of the old and the new order is kept. Given the consensus, every phi_k has the
mean distance that was observed: exact, too. So the likelihood never falls. It ends when no consensus gets better.

`regularization` counts that many imaginary judgments of a pair by every annotator each way, so that phi stays finite.
The score is the number of items that come after in the consensus. `quality` is the agreement with it; phi is the column
`dispersion`. All judgments of a query must be in one place, so queries are never split.

[Mallows57] Mallows: Non-null ranking models. Biometrika 44, 1957.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.contract import Info, Run, Traits
from distrank.kernels import forms
from distrank.kernels import mallows_consensus as kernels
from distrank.models._leads import order_scores
from distrank.models._opinions import OpinionModel
from distrank.models._pairwise import prepared, rows_of
from distrank.records import Array, Record, scalar
from distrank.settings import setting
from distrank.stats import dense

LONGEST = 1 << 24  # items of a list


@dataclass(frozen=True)
class MallowsSettings:
    """Settings of `mallows`."""

    exact_items: int = setting(10, "queries of at most so many items are solved exactly", low=1, high=18)
    samples: int = setting(30, "sweeps of the sampler per iteration, for larger queries", low=1)
    regularization: float = setting(0.5, "imaginary judgments of every annotator each way", above=0.0)
    ties: str = setting("half", "a tie is half a judgment each way, or is left out", choices=("half", "drop"))
    max_iterations: int = setting(100, "limit on the number of iterations", low=1)


class Mallows(OpinionModel):
    """Consensus and dispersions in turns."""

    name = "mallows"
    title = "Mallows: lists around a consensus, with annotator dispersion"
    paper = "Mallows57"
    estimates = "an order, annotator dispersion"
    traits = Traits(sampled=True)
    Settings = MallowsSettings

    def prepare(self, shard: Record) -> Record:
        opinions = super().prepare(shard)
        winner, loser, owner, weight, codes = _pairs(shard, opinions, self.settings.ties)
        nodes = max(int(shard["unit.nodes"][-1]), 1)
        item, other = np.concatenate([winner, loser]), np.concatenate([loser, winner])
        edges, place = np.unique(item * nodes + other, return_inverse=True)
        counts = np.bincount(edges // nodes, minlength=nodes)[: int(shard["unit.nodes"][-1])]
        return {
            **opinions,
            "edge.offsets": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            "edge.other": edges % nodes,
            "said.edge": place,  # of every judgment twice: for the winner, then for the loser
            "said.winner": winner,
            "said.loser": loser,
            "said.owner": owner,
            "said.weight": weight,
            "said.code": codes,
        }

    def begin(self, run: Run, info: Info) -> Record:
        shapes = run(count_shapes, {})
        index, power = shapes["shape/index"], shapes["shape/power"]
        theta = {
            **self.empty_theta(info),
            "exact": scalar(self.settings.exact_items),
            "sweeps": scalar(self.settings.samples),
            "phi": np.ones(info.annotators),
            **_with_prior(index, power, info.annotators, self.settings.regularization),
        }
        return {**self._after(run, theta), "converged": scalar(False)}  # the dispersions have only been guessed

    def iterate(self, run: Run, theta: Record) -> Record:
        return self._after(run, theta)

    def _after(self, run: Run, theta: Record) -> Record:
        """A consensus for the dispersions at hand, and the dispersions that follow from it."""
        found = run(improve, {name: theta[name] for name in ("phi", "exact", "sweeps")})
        phi = np.empty(len(theta["phi"]))
        distance = dense(found, "annotator/distance", len(phi)) + self.settings.regularization
        objective = kernels.dispersions(
            theta["shape.offsets"], theta["shape.length"], theta["shape.power"], distance, phi
        )
        done = int(found["better"]) == 0
        return {**theta, "phi": phi, "objective": scalar(objective), "converged": scalar(done)}

    def annotators(self, theta: Record, info: Info) -> Record:
        return {**super().annotators(theta, info), "dispersion": theta["phi"]}


def _pairs(shard: Record, opinions: Record, ties: str) -> tuple[Array, ...]:
    """Everything that was said of pairs: winner, loser, owner, weight; and the codes of the owners."""
    if "row.winner" in shard:
        pairs = prepared(shard, ties=ties)
        rows = rows_of(pairs)
        owner = np.repeat(rows.owner, np.diff(rows.run)).astype(np.int64)
        weight = np.ones(len(owner)) if rows.weight is None else rows.weight
        return rows.winner.astype(np.int64), rows.loser.astype(np.int64), owner, weight, pairs["annotator.code"]
    starts, item, wins = opinions["group.entries"], opinions["entry.item"], opinions["entry.wins"]
    count = forms.count_pairs(starts, item, wins)
    row, winner, loser = (np.empty(count, np.int64) for _ in range(3))
    forms.write_pairs(starts, item, wins, np.empty(0), row, winner, loser, np.empty(0))
    group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return winner, loser, opinions["group.owner"][group[row]], np.ones(count), opinions["annotator.code"]


def _with_prior(index: Array, power: Array, annotators: int, strength: float) -> Record:
    """The powers of every annotator's brackets in compressed rows, [2] twice `strength` more often."""
    owner = np.concatenate([index // LONGEST, np.arange(annotators)])
    length = np.concatenate([index % LONGEST, np.full(annotators, 2)])
    power = np.concatenate([power, np.full(annotators, 2.0 * strength)])
    order = np.lexsort((length, owner))
    counts = np.bincount(owner, minlength=annotators)
    return {
        "shape.offsets": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "shape.length": length[order],
        "shape.power": power[order],
    }


def count_shapes(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step: how often every bracket [l] is in the normalisers of every annotator; a first consensus by wins."""
    codes, group = shard["annotator.code"], shard["group.entries"]
    if shard["group.list"].any():
        lengths, powers, owner = _list_shapes(group, shard["entry.wins"], shard["group.owner"])
    else:  # preferences: lists of two
        owner, powers = shard["said.owner"], shard["said.weight"]
        lengths, codes = np.full(len(owner), 2), shard["said.code"]
    index, place = np.unique(codes[owner] * LONGEST + lengths, return_inverse=True)
    score = np.zeros(int(shard["unit.nodes"][-1]))
    np.add.at(score, shard["said.winner"], shard["said.weight"])
    np.subtract.at(score, shard["said.loser"], shard["said.weight"])
    nodes = shard["unit.nodes"]
    unit = np.repeat(np.arange(len(nodes) - 1), np.diff(nodes))
    place_of = np.empty(len(score), np.int64)
    place_of[np.lexsort((-score, unit))] = np.arange(len(score)) - np.repeat(nodes[:-1], np.diff(nodes))
    return {"place": place_of}, {"shape/index": index, "shape/power": np.bincount(place, powers, len(index))}


def _list_shapes(starts: Array, wins: Array, owner: Array) -> tuple[Array, Array, Array]:
    """Lengths, powers and owners of the brackets: [2] .. [m] once for a list, and once less for every tied block."""
    lengths, powers, owners = [], [], []
    for sign, sizes, of in ((1.0, np.diff(starts), owner), (-1.0, *_blocks(starts, wins, owner))):
        repeats = np.maximum(sizes - 1, 0)
        first = np.concatenate([[0], np.cumsum(repeats)])[:-1]
        lengths.append(np.arange(int(repeats.sum())) - np.repeat(first, repeats) + 2)
        powers.append(np.full(int(repeats.sum()), sign))
        owners.append(np.repeat(of, repeats))
    return np.concatenate(lengths), np.concatenate(powers), np.concatenate(owners)


def _blocks(starts: Array, wins: Array, owner: Array) -> tuple[Array, Array]:
    """Sizes and owners of the blocks of tied entries."""
    group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    new = np.ones(len(wins), bool)
    new[1:] = (group[1:] != group[:-1]) | (wins[1:] != wins[:-1])
    first = np.flatnonzero(new)
    return np.diff(np.append(first, len(wins))), owner[group[first]]


def improve(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:
    """A step: a better consensus for the dispersions at hand, and every annotator's distance to it."""
    codes, owner, weight = shard["said.code"], shard["said.owner"], shard["said.weight"]
    place = local["place"].copy()
    strength = theta["phi"][codes][owner] * weight
    lead = np.bincount(shard["said.edge"], np.concatenate([strength, -strength]), len(shard["edge.other"]))
    edges = shard["edge.offsets"], shard["edge.other"], lead
    limits = int(theta["exact"]), int(theta["sweeps"])
    better = kernels.improve(shard["unit.nodes"], shard["unit.hash"], *edges, *limits, key, place)
    wrong = place[shard["said.winner"]] > place[shard["said.loser"]]
    distance = np.bincount(owner, weight * wrong, len(codes))
    new = {"place": place, "score": order_scores(shard["unit.nodes"], place)}
    return new, {"better": scalar(better), "annotator/index": codes, "annotator/distance": distance}
