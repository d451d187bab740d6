"""Evidence: for the most suspicious annotators, the judgments that weigh most against them.

Two looks at the shards, where they lie. The first brings the heaviest few judgments of every suspect in every shard, as
numbers of nodes; the heaviest of all are kept. The second brings their ids. What passes through here is small: at most
SUSPECTS times EVIDENCE judgments per shard.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from distrank.contract import EVIDENCE, PARTS, UNITS, Info, Model
from distrank.engine.base import Placement
from distrank.records import Array, Record, scalar
from distrank.tables.ids import unpack_ids
from distrank.tables.outputs import FEWEST_JUDGMENTS, KINDS, IdTypes

SUSPECTS = 1000  # at most so many annotators get a list
SUSPICIOUS = next(limit for limit, kind in KINDS if kind == "average")  # below this quality


def suspects_of(quality: Array, judgments: Array) -> Array:
    """The codes of the most suspicious annotators, in code order."""
    codes = np.flatnonzero((quality < SUSPICIOUS) & (judgments >= FEWEST_JUDGMENTS))
    order = np.lexsort((codes, -judgments[codes], quality[codes]))
    return np.sort(codes[order[:SUSPECTS]])


def collect_evidence(model: Model, info: Info, types: IdTypes, placement: Placement, theta: Record) -> pa.Array | None:
    """The column `evidence` of annotators.parquet, heaviest judgment first; None where the model gives none."""
    if not model.gives_evidence:
        return None
    suspects = suspects_of(model.annotators(theta, info)["quality"], info.annotator_judgments)
    kept = _heaviest(model, placement, {**theta, "evidence.suspects": suspects}) if len(suspects) else None
    if kept is None or not len(kept["annotator"]):
        return _lists(np.zeros(info.annotators, np.int64), _no_ids(types), np.zeros(0))
    ids = _ids(types, placement, kept)
    return _lists(np.bincount(kept["annotator"], minlength=info.annotators), ids, kept["weight"])


def _heaviest(model: Model, placement: Placement, theta: Record) -> Record | None:
    """The heaviest judgments of all shards, by annotator; of equal ones, those of the first shard."""
    found: list[Record] = []
    for name in (UNITS, PARTS):
        if placement.shard_counts.get(name):
            found += [entry for entry in placement.map(partial(_look, model, name), theta, on=name) if entry]
    if not found:
        return None
    every = {name: np.concatenate([entry[name] for entry in found]) for name in found[0]}
    order = np.lexsort((np.arange(len(every["weight"])), -every["weight"], every["annotator"]))
    annotator = every["annotator"][order]
    first = np.searchsorted(annotator, annotator)  # where the list of the annotator begins
    order = order[np.arange(len(order)) - first < EVIDENCE]
    return {name: column[order] for name, column in every.items()}


def _look(model: Model, name: str, number: int, shard: Record, local: Record, theta: Record) -> Record:
    """The heaviest judgments in one shard, and who has their ids: the shard itself, or a split unit's first part."""
    found = model.evidence(shard, local, theta, theta["evidence.suspects"])
    if not found:
        return {}
    owner = int(shard["part.unit"]) if name == PARTS else number
    count = len(found["annotator"])
    return {**found, "split": np.full(count, name == PARTS), "owner": np.full(count, owner)}


def _ids(types: IdTypes, placement: Placement, kept: Record) -> dict[str, pa.Array]:
    """Ids of query, winner and loser of every kept judgment, in order."""
    pieces: list[tuple[Array, dict[str, pa.Array]]] = []
    for name in (UNITS, PARTS):
        wanted = np.flatnonzero(kept["split"] == (name == PARTS))
        if len(wanted):
            asked = {key: kept[key][wanted] for key in ("owner", "winner", "loser")} | {"place": wanted}
            asked["split"] = scalar(name == PARTS)
            pieces += [entry for entry in placement.map(partial(_name, types), asked, on=name) if entry is not None]
    places = np.concatenate([place for place, _ in pieces])
    order = pa.array(np.argsort(places))
    return {key: pa.concat_arrays([ids[key] for _, ids in pieces]).take(order) for key in ("query", "winner", "loser")}


def _name(types: IdTypes, number: int, shard: Record, local: Record, theta: Record) -> Any:  # noqa: ARG001
    """The ids that this shard has of the judgments asked for."""
    if bool(theta["split"]):
        mine = theta["owner"] == (int(shard["part.unit"]) if bool(shard["part.first"]) else -1)
    else:
        mine = theta["owner"] == number
    if not mine.any():
        return None
    winner, loser = theta["winner"][mine], theta["loser"][mine]
    unit = np.searchsorted(shard["unit.nodes"], winner, side="right") - 1
    items = unpack_ids(shard, "node.id", types.item)
    return theta["place"][mine], {
        "query": unpack_ids(shard, "unit.id", types.query).take(pa.array(unit)),
        "winner": items.take(pa.array(winner)),
        "loser": items.take(pa.array(loser)),
    }


def _no_ids(types: IdTypes) -> dict[str, pa.Array]:
    return {
        "query": pa.array([], types.query),
        "winner": pa.array([], types.item),
        "loser": pa.array([], types.item),
    }


def _lists(counts: Array, ids: dict[str, pa.Array], weight: Array) -> pa.Array:
    """A list of judgments for every annotator."""
    judgments = pa.StructArray.from_arrays([*ids.values(), pa.array(weight)], [*ids, "weight"])
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32()), judgments)
