"""Plackett-Luce: a list is a series of choices, the best item first, then the best of the rest.  [Plackett75]

    s_i      score of item i; it is chosen out of a set with probability e^s_i / (sum of e^s over the set)

    rankings      every item of a list is chosen out of itself and the items after it. A list may hold some of the items
                  only; `unlisted=below` says that it is a top-k list, whose items were chosen out of all of the query's
    ratings       a list in which items of equal rating were not chosen out of each other
    preferences   lists of two: Bradley-Terry

Every e^s_i has a Gamma(1 + alpha, alpha) prior, `regularization`, as if every item had won and lost alpha times
against an item of score 0: the scores of undefeated items stay finite, and items that were never compared get 0. The
maximum is found by minorisation and maximisation (`kernels.list_scores`), query by query. Weights count for
preferences; in lists they only weigh several values of one item against each other.

All judgments of a query must be in one place, so queries are never split.

[Plackett75] Plackett: The analysis of permutations. Applied Statistics 24, 1975.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.contract import Info, Run
from distrank.kernels import list_scores as kernels
from distrank.models._opinions import OpinionModel, opinions_of
from distrank.models._pairwise import prepared
from distrank.records import Array, Record, scalar
from distrank.settings import setting

INNER = 100  # iterations of every query per outer one


@dataclass(frozen=True)
class PlackettLuceSettings:
    """Settings of `plackett-luce`."""

    regularization: float = setting(0.5, "alpha: imaginary wins and losses of every item, against score 0", above=0.0)
    unlisted: str = setting(
        "ignored",
        "items that a ranking leaves out: not compared with the others, or all below them (top-k lists)",
        choices=("ignored", "below"),
    )
    ties: str = setting("half", "a tie is half a win each way, or is left out", choices=("half", "drop"))
    tolerance: float = setting(1e-9, "largest derivative in a score, relative to the choices it won", above=0.0)
    max_iterations: int = setting(500, f"limit on the number of iterations, of {INNER} updates each", low=1)


class PlackettLuce(OpinionModel):
    """Updates until every query's derivatives vanish."""

    name = "plackett-luce"
    title = "Plackett-Luce: lists as series of choices"
    paper = "Plackett75"
    estimates = "scores"
    Settings = PlackettLuceSettings

    def prepare(self, shard: Record) -> Record:
        opinions = super().prepare(shard)
        if "row.winner" not in shard:
            empty = np.zeros(0, np.int64)
            rows = {"pair.offsets": np.zeros(len(shard["unit.rows"]), np.int64), "pair.winner": empty}
            return {**opinions, **rows, "pair.loser": empty, "pair.weight": np.zeros(0)}
        pairs = prepared(shard, ties=self.settings.ties)
        count = len(pairs["pair.winner"])
        return {
            **opinions,
            "pair.offsets": pairs["pair.run"][pairs["pair.unit"]],
            "pair.winner": pairs["pair.winner"],
            "pair.loser": pairs["pair.loser"],
            "pair.weight": pairs.get("pair.weight", np.ones(count)),
        }

    def begin(self, run: Run, info: Info) -> Record:
        theta = {
            **self.empty_theta(info),
            "alpha": scalar(self.settings.regularization),
            "below": scalar(self.settings.unlisted == "below"),
            "tolerance": scalar(self.settings.tolerance),
        }
        return self._after(theta, run(advance, {**self._shown(theta), "most": scalar(0)}))

    def iterate(self, run: Run, theta: Record) -> Record:
        return self._after(theta, run(advance, {**self._shown(theta), "most": scalar(INNER)}))

    @staticmethod
    def _shown(theta: Record) -> Record:
        return {name: theta[name] for name in ("alpha", "below", "tolerance")}

    @staticmethod
    def _after(theta: Record, stats: Record) -> Record:
        return {**theta, "objective": stats["objective"], "converged": scalar(int(stats["open"]) == 0)}


def advance(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step: updates of every query that is not done, from strengths of 1."""
    items, units = int(shard["unit.nodes"][-1]), len(shard["unit.nodes"]) - 1
    strength = local["strength"].copy() if local else np.ones(items)
    objective = local["objective"].copy() if local else np.zeros(units)
    done = local["done"].copy() if local else np.zeros(units, bool)
    entries = opinions_of(shard)
    lists = shard["unit.groups"] if len(shard["pair.winner"]) == 0 else np.zeros(units + 1, np.int64)
    kernels.climb(
        shard["unit.nodes"],
        lists,
        shard["group.entries"],
        entries.item,
        entries.wins,
        shard["pair.offsets"],
        shard["pair.winner"],
        shard["pair.loser"],
        shard["pair.weight"],
        bool(theta["below"]),
        float(theta["alpha"]),
        float(theta["tolerance"]),
        int(theta["most"]),
        strength,
        objective,
        done,
    )
    new = {"strength": strength, "objective": objective, "done": done, "score": kernels.scores(strength)}
    return new, {"objective": scalar(float(objective.sum())), "open": scalar(int((~done).sum()))}
