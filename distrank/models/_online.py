"""What the methods share that read judgments one after the other: the state, blocks of rows, continuation, outputs.

    state    item        mean and variance of every item's score, in two columns
             annotator   the model's parameters of every annotator, in columns (none: no columns)
             updates     how many it has seen

A state is a record: it can be saved, and `continue_online` goes on from it with new judgments and without the old
ones; a pass over A and then over B has the bytes of one pass over A followed by B. There is one shard (`split =
"ordered"`), whose local is the state; an iteration is a block of rows, so that a long pass shows progress and can be
resumed.

A judgment of weight w is w updates: ceil(w) updates of equal size, w / ceil(w) each, in a row; weights above
LARGEST_WEIGHT count as that many. What an update of a size, and half an update each way (a tie), are is in
`kernels.online`.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from distrank.contract import Info, Model, Run, Step, Tables, Traits
from distrank.errors import UsageError
from distrank.kernels import online as kernels
from distrank.models._pairwise import PairwiseModel, shares
from distrank.records import Array, Record, frozen, scalar

BLOCK = 5_000_000  # rows of an iteration
LARGEST_WEIGHT = 100.0
TRAITS = Traits(
    iterative=False,
    monotone=False,
    weighted=False,
    ordered=True,
    opted_out={
        "objective": "one pass updates beliefs and maximises nothing",
        "weights": "a weight of two is two updates in a row, which is not a second row at the end",
    },
)


class Updates(NamedTuple):
    """Updates in time order, as kernels take them; None where there are no ties, or all sizes are 1."""

    unit: Array
    annotator: Array
    winner: Array
    loser: Array
    tie: Array | None
    size: Array | None

    def span(self, begin: int, end: int) -> Updates:
        here = slice(begin, end)
        return Updates(
            self.unit[here],
            self.annotator[here],
            self.winner[here],
            self.loser[here],
            None if self.tie is None else self.tie[here],
            None if self.size is None else self.size[here],
        )


Update: TypeAlias = Callable[[Updates, Record, Array, Array], None]  # (updates, settings, items, annotators)


def updates_of(shard: Record) -> Updates:
    """The arrays that `prepared` made."""
    unit, annotator, winner, loser = (shard[f"row.{name}"] for name in ("unit", "annotator", "winner", "loser"))
    return Updates(unit, annotator, winner, loser, shard.get("row.tie"), shard.get("row.size"))


def prepared(shard: Record, *, ties: str) -> Record:
    """The shard with updates in place of rows: without what has no weight, and without ties where they are dropped."""
    weight, tie = shard.get("row.weight"), shard.get("row.tie")
    cut = float(np.count_nonzero(weight > LARGEST_WEIGHT)) if weight is not None else 0.0
    copies = np.ones(len(shard["row.winner"]), np.int64)
    if weight is not None:
        weight = np.minimum(weight, LARGEST_WEIGHT)
        copies = np.ceil(weight).astype(np.int64)
    if tie is not None and ties == "drop":
        copies[tie] = 0
    row = np.repeat(np.arange(len(copies)), copies)
    whole = len(row) == len(copies) and bool((copies == 1).all())
    rows = {name: array if whole else array[row] for name, array in shard.items() if name.startswith("row.")}
    rows.pop("row.weight", None)
    if tie is not None and ties == "drop":
        rows.pop("row.tie")
    if weight is not None:
        size = (weight / np.maximum(copies, 1))[row]
        if (size != 1.0).any():
            rows["row.size"] = size
    kept = {name: array for name, array in shard.items() if not name.startswith("row.")}
    return {**kept, **rows, "weights.cut": scalar(cut)}


class OnlineModel(Model):
    """Beliefs about items, updated judgment by judgment.

    A subclass says where they start and how updates move them.
    """

    form = "preferences"
    accepts = ("preferences",)
    split = "ordered"
    traits = TRAITS
    diagnostics = ("updates",)

    @abstractmethod
    def fresh_state(self, items: int, annotators: int) -> Record:
        """The state before the first judgment."""

    @property
    @abstractmethod
    def update(self) -> Update:
        """What changes the two arrays of a state by updates, in turn."""

    @property
    @abstractmethod
    def step(self) -> Step:
        """`pass_block` with this update, as a function of the model's module."""

    @abstractmethod
    def settings_record(self) -> Record:
        """The settings that `update` needs, as a record."""

    @property
    def max_iterations(self) -> int:
        return sys.maxsize  # the pass ends with the rows

    def prepare(self, shard: Record) -> Record:
        return prepared(shard, ties=self.settings.ties)

    def begin(self, run: Run, info: Info) -> Record:
        theta = {**self.settings_record(), "annotators": scalar(info.annotators), "block": scalar(BLOCK)}
        theta["prior.item"], theta["prior.annotator"] = (self.fresh_state(1, 1)[name] for name in ("item", "annotator"))
        stats = run(place_priors, theta)
        return self._after(theta, {**stats, "done": scalar(0)})

    def iterate(self, run: Run, theta: Record) -> Record:
        return self._after(theta, run(self.step, theta))

    def conclude(self, run: Run, theta: Record) -> Record:
        """Agreement with the final order, and the annotators' parameters."""
        found = run(measure_agreement, {"annotators": theta["annotators"]})
        return {**theta, "agreement": shares(found["agreed"]), "annotator": found["annotator"], "cut": found["cut"]}

    def finalize(self, shard: Record, local: Record, theta: Record) -> Tables:  # noqa: ARG002 (beliefs are local)
        mean, variance = local["item"].T
        return {
            "rankings": {"score": mean.copy(), "score_sd": np.sqrt(variance)},
            "queries": {"agreement": local["agreement"]},
        }

    def annotators(self, theta: Record, info: Info) -> Record:  # noqa: ARG002 (all that is needed is in theta)
        return {"quality": theta["agreement"], "agreement": theta["agreement"]}

    def warnings(self, theta: Record, info: Info) -> list[str]:
        found = []
        if info.disconnected:
            found.append(PairwiseModel.disconnected.format(count=info.disconnected, queries=info.queries))
        if theta["cut"]:
            found.append(f"{int(theta['cut']):,} judgments with a weight above {LARGEST_WEIGHT:g} count as that many")
        return found

    def diagnosis(self, theta: Record) -> dict[str, Any]:
        return {"updates": int(theta["updates"])}

    @staticmethod
    def _after(theta: Record, stats: Record) -> Record:
        left = int(stats["rows"]) - int(stats["done"])
        return {**theta, "updates": stats["done"], "objective": scalar(np.nan), "converged": scalar(left == 0)}


def continue_online(model: OnlineModel, state: Record, updates: Updates) -> Record:
    """The state after more updates; codes are those of the state (`renumbered`)."""
    items, annotators = state["item"].copy(), state["annotator"].copy()
    model.update(updates, frozen(model.settings_record()), items, annotators)
    seen = state["updates"] + len(updates.winner)
    return frozen({"item": items, "annotator": annotators, "updates": np.asarray(seen)})


def renumbered(model: OnlineModel, state: Record, items: tuple[Array, int], annotators: tuple[Array, int]) -> Record:
    """The state in another numbering, in which there may be more items and annotators: those start at their priors.

    Given are the new codes of the old ones, and how many codes there are.
    """
    fresh = model.fresh_state(items[1], annotators[1])
    grown: Record = {"updates": state["updates"]}
    for name, (codes, _) in (("item", items), ("annotator", annotators)):
        if len(codes) != len(state[name]) or len(np.unique(codes)) != len(codes):
            raise UsageError(f"the state has {len(state[name]):,} {name}s: give each a new code of its own")
        grown[name] = fresh[name].copy()
        grown[name][codes] = state[name]
    return frozen(grown)


def pass_block(update: Update, shard: Record, local: Record, theta: Record) -> tuple[Record, Record]:
    """The next block of rows."""
    updates, done = updates_of(shard), int(local["updates"])
    end = min(done + int(theta["block"]), len(updates.winner))
    items, annotators = local["item"].copy(), local["annotator"].copy()
    update(updates.span(done, end), theta, items, annotators)
    state = {"item": items, "annotator": annotators, "updates": scalar(end)}
    return state, {"rows": scalar(len(updates.winner)), "done": scalar(end)}


def place_priors(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step: the state before the first judgment."""
    counts = {"item": int(shard["unit.nodes"][-1]), "annotator": int(theta["annotators"])}
    state = {name: np.repeat(theta[f"prior.{name}"], count, axis=0) for name, count in counts.items()}
    return {**state, "updates": scalar(0)}, {"rows": scalar(len(shard["row.winner"]))}


def measure_agreement(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step: what agrees with the final order, by annotator and by unit."""
    agreed, units = np.zeros((int(theta["annotators"]), 2)), np.zeros((len(shard["unit.hash"]), 2))
    kernels.row_agreement(*updates_of(shard), local["item"], agreed, units)
    stats = {"agreed": agreed, "annotator": local["annotator"], "cut": shard["weights.cut"]}
    return {**local, "agreement": shares(units)}, stats
