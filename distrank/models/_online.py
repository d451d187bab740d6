"""What the methods share that read judgments one after the other: the state, blocks of rows, continuation, outputs.

    state    item        mean and variance of every item's score, in two columns
             annotator   the model's parameters of every annotator, in columns (none: no columns)
             updates     how many it has seen

A state is a record. It is saved with the run, and a later run goes on from it with new judgments and without the old
ones: a pass over A and then over B has the bytes of one pass over A followed by B. There is one shard (`split =
"ordered"`), whose local is the state; an iteration is a block of rows, so that a long pass shows progress and can be
resumed.

Agreement compares every judgment with the order of the items at the end of the run that read it: where a run goes on
from another, the old judgments are not there to be compared again, and their counts are carried over.

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

from distrank.contract import Info, Learned, Model, Run, Step, Tables, Traits
from distrank.errors import UsageError
from distrank.kernels import online as kernels
from distrank.kernels.bounded import wilson_intervals
from distrank.models._pairwise import PairwiseModel, shares
from distrank.models._ranks import quantile, rank_bounds, score_bounds
from distrank.records import Array, Record, frozen, scalar

BLOCK = 5_000_000  # fewest rows of an iteration
ROWS_PER_ITEM = 4  # and of an iteration by item: it copies the state, which must not cost more than the rows
LARGEST_WEIGHT = 100.0
INTERVAL = "level of the intervals of scores, ranks and quality, from the beliefs; none leaves them out"
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
    if weight is None and (tie is None or ties != "drop"):
        return {**shard, "weights.cut": scalar(0.0)}
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
        block = max(BLOCK, ROWS_PER_ITEM * info.items)
        theta = {**self.settings_record(), "annotators": scalar(info.annotators), "block": scalar(block)}
        theta["prior.item"], theta["prior.annotator"] = (self.fresh_state(1, 1)[name] for name in ("item", "annotator"))
        return self._after(theta, run(place_start, theta))

    def iterate(self, run: Run, theta: Record) -> Record:
        return self._after(theta, run(self.step, theta))

    def conclude(self, run: Run, theta: Record) -> Record:
        """Agreement with the final order, and the annotators' parameters."""
        found = run(measure_agreement, {"annotators": theta["annotators"]})
        return {**theta, **found, "agreement": shares(found["agreed"])}

    def finalize(self, shard: Record, local: Record, theta: Record) -> Tables:  # noqa: ARG002 (beliefs are local)
        mean, variance = local["item"].T
        rankings = {"score": mean.copy(), "score_sd": np.sqrt(variance)}
        if self.settings.interval is not None:
            rankings |= belief_bounds(rankings["score"], rankings["score_sd"], shard, self.settings.interval)
        return {"rankings": rankings, "queries": {"agreement": local["agreement"]}}

    def annotators(self, theta: Record, info: Info) -> Record:
        columns = {"quality": theta["agreement"], "agreement": theta["agreement"]}
        if self.settings.interval is not None:
            low, high, count = np.empty(info.annotators), np.empty(info.annotators), info.annotator_judgments
            wilson_intervals(theta["agreement"], count.astype(np.float64), quantile(self.settings.interval), low, high)
            columns |= {"quality_low": low, "quality_high": high}
        return columns

    def learned(self, theta: Record, info: Info) -> Learned:  # noqa: ARG002 (all that is needed is in theta)
        names = {"annotator": "annotator", "updates": "updates", "agreed": "annotator.agreed", "cut": "weights.cut"}
        return Learned({saved: theta[name] for name, saved in names.items()}, {"updates": int(theta["updates"])})

    def learned_units(self, shard: Record, local: Record, theta: Record) -> Record:  # noqa: ARG002 (beliefs are local)
        return {"item": local["item"], "unit.agreed": local["agreed"]}

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
        over = scalar(int(stats["left"]) == 0)
        return {**theta, "updates": stats["done"], "objective": scalar(np.nan), "converged": over}


def belief_bounds(mean: Array, deviation: Array, shard: Record, level: float) -> Record:
    """The columns of intervals from beliefs: normal quantiles, and ranks of independent normal scores."""
    z = quantile(level)
    return score_bounds(mean, deviation, z) | rank_bounds(mean, deviation, shard["unit.nodes"], z)


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
        grown[name] = with_known(fresh[name], codes, state[name])
    return frozen(grown)


def with_known(fresh: Array, codes: Array, known: Array) -> Array:
    """The array with what is known put in the places of its codes."""
    grown = fresh.copy()
    grown[codes] = known
    return grown


def pass_block(update: Update, shard: Record, local: Record, theta: Record) -> tuple[Record, Record]:
    """The next block of rows."""
    updates, before = updates_of(shard), seen_before(shard)
    done = int(local["updates"]) - before
    end = min(done + int(theta["block"]), len(updates.winner))
    items, annotators = local["item"].copy(), local["annotator"].copy()
    update(updates.span(done, end), theta, items, annotators)
    state = {"item": items, "annotator": annotators, "updates": scalar(before + end)}
    return state, {"left": scalar(len(updates.winner) - end), "done": state["updates"]}


def seen_before(shard: Record) -> int:
    """How many updates an earlier run had seen."""
    return int(shard["saved.updates"]) if goes_on(shard) else 0


def goes_on(shard: Record) -> bool:
    """Whether there is an earlier run."""
    return "old.node" in shard


def place_start(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step: the state before the first judgment; what an earlier run knew is as it left it."""
    counts = {"item": int(shard["unit.nodes"][-1]), "annotator": int(theta["annotators"])}
    state = {name: np.repeat(theta[f"prior.{name}"], count, axis=0) for name, count in counts.items()}
    if goes_on(shard):
        state["item"] = with_known(state["item"], shard["old.node"], shard["saved.item"])
        state["annotator"] = with_known(state["annotator"], shard["old.annotator"], shard["saved.annotator"])
    state["updates"] = scalar(seen_before(shard))
    return state, {"left": scalar(len(shard["row.winner"])), "done": state["updates"]}


def measure_agreement(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step: what agrees with the final order, by annotator and by unit, on top of what an earlier run counted."""
    agreed, units = np.zeros((int(theta["annotators"]), 2)), np.zeros((len(shard["unit.hash"]), 2))
    cut = shard["weights.cut"]
    if goes_on(shard):
        agreed[shard["old.annotator"]] = shard["saved.annotator.agreed"]
        units[shard["old.unit"]] = shard["saved.unit.agreed"]
        cut = cut + shard["saved.weights.cut"]
    kernels.row_agreement(*updates_of(shard), local["item"], agreed, units)
    stats = {"agreed": agreed, "annotator": local["annotator"], "cut": cut}
    return {**local, "agreed": units, "agreement": shares(units)}, stats
