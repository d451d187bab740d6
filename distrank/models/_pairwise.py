"""What every pairwise model shares: preferences as the kernels take them, agreement with the consensus, outputs.

A tie is half a win each way, two preferences of half the weight, unless it is an outcome of its own (`_ties`).
Preferences without weight are left out at loading.
Item scores of whole queries are in `local`, those of split queries in theta (`split.score`, one block after the other).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from distrank.contract import PARTS, Info, Model, Run, Tables
from distrank.kernels import preferences as kernels
from distrank.records import Array, Record, scalar
from distrank.stats import dense

UNKNOWN = 0.5  # agreement where nobody judged anything
INTERVALS = ("score_low", "score_high", "rank_low", "rank_high", "score_sd")  # columns of `_intervals`
DENSE_SHARE = 4  # statistics cover all annotators once a shard has a quarter of them: equal indices add faster


class Rows(NamedTuple):
    """The preferences of a shard, in the order in which kernels take them."""

    run: Array
    owner: Array
    winner: Array
    loser: Array
    weight: Array | None


def rows_of(shard: Record, kind: str = "pair") -> Rows:
    """The arrays that `prepared` made; no weight where every preference counts once."""
    run, owner, winner, loser = (shard[f"{kind}.{name}"] for name in ("run", "owner", "winner", "loser"))
    return Rows(run, owner, winner, loser, shard.get(f"{kind}.weight"))


def fitted_rows(shard: Record) -> Rows:
    """What scores are fitted to: the preferences themselves, or the votes that a model made of them (`vote.*`)."""
    return rows_of(shard, "vote" if "vote.run" in shard else "pair")


def fitted_units(shard: Record) -> Array:
    """The offsets of units into the runs of `fitted_rows`."""
    return shard["vote.unit" if "vote.run" in shard else "pair.unit"]


def prepared(shard: Record, *, ties: str) -> Record:
    """The shard with its preferences in runs of one annotator in place of rows."""
    annotator, winner, loser = shard["row.annotator"], shard["row.winner"], shard["row.loser"]
    weight, unit = shard.get("row.weight"), shard["unit.rows"]
    tie = shard.get("row.tie")
    if tie is not None or weight is not None:
        copies = np.ones(len(winner), np.int64) if tie is None else np.where(tie, 2 if ties == "half" else 0, 1)
        if weight is not None:
            copies[weight == 0.0] = 0
        row = np.repeat(np.arange(len(winner)), copies)
        unit = np.concatenate([[0], np.cumsum(copies)])[unit]
        weight = np.ones(len(row)) if weight is None else weight[row]
        annotator, winner, loser = annotator[row], winner[row], loser[row]
        if tie is not None and len(row):
            turned = np.concatenate([[False], row[1:] == row[:-1]])  # the second copy goes the other way
            winner, loser = np.where(turned, loser, winner), np.where(turned, winner, loser)
            weight = np.where(tie[row], 0.5 * weight, weight)
        if (weight == 1.0).all():
            weight = None
    starts = np.ones(len(annotator), bool)
    starts[1:] = annotator[1:] != annotator[:-1]
    starts[unit[:-1][unit[:-1] < len(annotator)]] = True
    run = np.append(np.flatnonzero(starts), len(annotator)).astype(np.int64)
    codes, owner = distinct_codes(annotator[run[:-1]])
    kept = {name: array for name, array in shard.items() if not name.startswith("row.")}
    return {
        **kept,
        **(tied_pairs(shard) if ties == "davidson" else {}),
        "pair.run": run,
        "pair.owner": owner,
        "pair.winner": winner.astype(np.uint32, copy=False),
        "pair.loser": loser.astype(np.uint32, copy=False),
        **({} if weight is None else {"pair.weight": weight}),
        "pair.unit": np.searchsorted(run, unit).astype(np.int64),
        "annotator.code": codes,
    }


def tied_pairs(shard: Record) -> Record:
    """The pairs that were tied, in place of two preferences each."""
    tie, weight = shard.get("row.tie"), shard.get("row.weight")
    kept = np.zeros(len(shard["row.winner"]), bool) if tie is None else tie.astype(bool)
    if weight is not None:
        kept = kept & (weight > 0.0)
    pairs = {f"tie.{name}": shard[f"row.{side}"][kept] for name, side in (("one", "winner"), ("other", "loser"))}
    return pairs if weight is None else {**pairs, "tie.weight": weight[kept]}


def distinct_codes(values: Array) -> tuple[Array, Array]:
    """The sorted distinct codes, and the place of every code among them."""
    place = np.zeros(int(values.max(initial=0)) + 1, np.uint32)
    place[values] = 1
    codes = np.flatnonzero(place).astype(np.int64)
    place[codes] = np.arange(len(codes), dtype=np.uint32)
    return codes, place[values]


def by_annotator(shard: Record, count: int, **columns: Array) -> Record:
    """Statistics of the shard's annotators as a sparse group (`stats`)."""
    codes = shard["annotator.code"]
    if DENSE_SHARE * len(codes) < count:
        return {"annotator/index": codes, **{f"annotator/{name}": column for name, column in columns.items()}}
    group: Record = {"annotator/index": np.arange(count, dtype=np.uint32)}
    for name, column in columns.items():
        full = np.zeros((count, *column.shape[1:]))
        full[codes] = column
        group[f"annotator/{name}"] = full
    return group


def split_offsets(info: Info) -> Array:
    """Where the items of every split unit begin in the `split.*` arrays of theta."""
    return np.concatenate([[0], np.cumsum(info.split_items)]).astype(np.int64)


def split_slice(shard: Record, offsets: Array) -> slice:
    """The items of a part's unit in the `split.*` arrays of theta."""
    unit = int(shard["part.unit"])
    return slice(int(offsets[unit]), int(offsets[unit + 1]))


def measure_agreement(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step over whole units: what agrees with the order of their scores, by annotator and by unit."""
    counts, units = _agreement(shard, local["score"])
    local = {"score": local["score"], "agreement": shares(units)}
    return local, by_annotator(shard, int(theta["count"]), agreed=counts)


def measure_part_agreement(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """The same over the parts of split units, whose scores are in theta."""
    offsets = theta["split.offsets"]
    counts, units = _agreement(shard, theta["split.score"][split_slice(shard, offsets)])
    split = np.zeros((len(offsets) - 1, 2))
    split[int(shard["part.unit"])] = units[0]
    return None, {"split.agreed": split, **by_annotator(shard, int(theta["count"]), agreed=counts)}


def _agreement(shard: Record, score: Array) -> tuple[Array, Array]:
    counts, units = np.zeros((len(shard["annotator.code"]), 2)), np.zeros((len(shard["pair.unit"]) - 1, 2))
    kernels.agreement(shard["pair.unit"], *rows_of(shard), score, counts, units)
    return counts, units


def shares(counts: Array, unknown: Array | float = UNKNOWN) -> Array:
    """First column over second, and `unknown` where the second is 0."""
    known = counts[:, 1] > 0.0
    return np.where(known, counts[:, 0] / np.where(known, counts[:, 1], 1.0), unknown)


def quality_bounds(theta: Record) -> Record:
    """The columns of an interval of quality, where one was found."""
    return {f"quality_{end}": theta[f"quality.{end}"] for end in ("low", "high") if f"quality.{end}" in theta}


class PairwiseModel(Model):
    """Scores from preferences. A subclass finds them; `score` is in local and `split.score` in theta when it ends."""

    form = "preferences"
    disconnected = (
        "the comparison graph of {count:,} of {queries:,} queries is not connected: items of different components "
        "were never compared, not even through others, so nothing in the data orders them. More comparisons across "
        "the components would"
    )

    def prepare(self, shard: Record) -> Record:
        return prepared(shard, ties=self.settings.ties)

    @abstractmethod
    def begin(self, run: Run, info: Info) -> Record: ...

    def conclude(self, run: Run, theta: Record) -> Record:
        """One more round: every annotator's and every query's agreement with the consensus."""
        count = len(theta["agreement"])
        shown = {name: theta[name] for name in ("split.offsets", "split.score")} | {"count": scalar(count)}
        whole = run(measure_agreement, shown)
        parts = run(measure_part_agreement, shown, on=PARTS)
        agreed = dense(whole, "annotator/agreed", count) if whole else np.zeros((count, 2))
        if parts:
            agreed = agreed + dense(parts, "annotator/agreed", count)
        split = parts["split.agreed"] if parts else np.zeros((0, 2))
        return {**theta, "agreement": shares(agreed), "judged": agreed[:, 1], "split.agreement": shares(split)}

    def finalize(self, shard: Record, local: Record, theta: Record) -> Tables:
        if "part.unit" not in shard:
            rankings = {name: local[name] for name in ("score", *INTERVALS) if name in local}
            return {"rankings": rankings, "queries": {"agreement": local["agreement"]}}
        unit, here = int(shard["part.unit"]), split_slice(shard, theta["split.offsets"])
        rankings = {name: theta[f"split.{name}"][here] for name in ("score", *INTERVALS) if f"split.{name}" in theta}
        return {"rankings": rankings, "queries": {"agreement": theta["split.agreement"][unit : unit + 1]}}

    def annotators(self, theta: Record, info: Info) -> Record:  # noqa: ARG002 (all that is needed is in theta)
        return {"quality": theta["agreement"], "agreement": theta["agreement"], **quality_bounds(theta)}

    def warnings(self, theta: Record, info: Info) -> list[str]:  # noqa: ARG002
        if not info.disconnected:
            return []
        return [self.disconnected.format(count=info.disconnected, queries=info.queries)]

    def empty_theta(self, info: Info) -> dict[str, Any]:
        """The entries that the outputs rely on."""
        return {
            "agreement": np.full(info.annotators, UNKNOWN),
            "split.offsets": split_offsets(info),
            "split.score": np.zeros(sum(info.split_items)),
        }
