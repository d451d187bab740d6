"""Source and target of remapping: judged items with features and label features, and graded items with features.

Honeypots never enter the source. Features are standardised by the source's items (mean 0, standard deviation 1), a
constant is put at their end; the same is done to whatever is ranked later.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from distrank.contract import Info
from distrank.errors import InputError
from distrank.kernels.hashing import hash_words
from distrank.records import Array, Record, frozen
from distrank.remap.label_features import LabelFeatures
from distrank.remap.model import SOURCE, TARGET, TRAIN, VALIDATION
from distrank.tables.feature_lookup import FeatureLookup
from distrank.tables.feature_shards import FeatureShards
from distrank.tables.features import Features
from distrank.tables.gold import Gold
from distrank.tables.gold_lookup import look_up
from distrank.tables.ids import stable_hash
from distrank.tables.judgments import Judgments
from distrank.tables.order import bits_for
from distrank.tables.units import find_units

ITEMS_PER_SHARD = 16_384


@dataclass(frozen=True)
class Scaling:
    """How features become what the ranker sees."""

    mean: Array
    deviation: Array

    @staticmethod
    def of(values: Array) -> Scaling:
        deviation = values.std(axis=0)
        return Scaling(values.mean(axis=0), np.where(deviation > 1e-12, deviation, 1.0))

    def __call__(self, values: Array) -> Array:
        scaled = np.empty((len(values), values.shape[1] + 1))
        np.subtract(values, self.mean, out=scaled[:, :-1])
        scaled[:, :-1] /= self.deviation
        scaled[:, -1] = 1.0
        return scaled


@dataclass(frozen=True)
class Samples:
    """The judged items and their labels: a sample is one label. Items are numbered in code order of query and item."""

    query: Array  # code of the query of every item
    query_hash: Array  # stable hash of that query's id
    values: Array  # features of every item, as given
    item: Array  # item of every sample
    annotator: Array
    rating: Array
    number: Array  # of every item among those of all judgments, honeypots included

    def __len__(self) -> int:
        return len(self.item)


def samples_of(judgments: Judgments, features: Features, honeypots: Gold | None) -> Samples:
    """All labels but those on honeypots, in one canonical order."""
    units = find_units(judgments, "item")
    (item_column,) = judgments.item_columns
    item_code = np.zeros(len(units), np.int64)
    item_code[units.row] = item_column
    kept = np.ones(len(units), bool)
    if honeypots is not None:
        kept = np.isnan(look_up(honeypots, judgments).grades(units.query, item_code))
        if not kept.any():
            raise InputError(f"{honeypots.source}: all judged items are honeypots; there is nothing left to learn from")
    used = kept[units.row]
    if judgments.rating is None:
        raise InputError(f"remapping takes ratings (item, annotator, rating), not {judgments.form}")
    source = dataclasses.replace(
        judgments,
        query=judgments.query[used],
        annotator=judgments.annotator[used],
        item=item_column[used],
        rating=judgments.rating[used],
        weight=None,
        timestamp=None,
    )
    numbers = np.flatnonzero(kept)
    place = np.cumsum(kept) - 1
    rows = place[units.row[used]]
    rating = judgments.rating[used]
    order = np.lexsort((rating, source.annotator, rows))
    query = units.query[numbers]
    return Samples(
        query=query,
        query_hash=stable_hash(judgments.queries)[query],
        values=FeatureLookup(features, source)(query, item_code[numbers]),
        item=rows[order],
        annotator=source.annotator[order],
        rating=rating[order],
        number=numbers,
    )


def source_shards(samples: Samples, x: Array, y: LabelFeatures, label: Array | None = None) -> list[Record]:
    """The samples by the hash of their query: `node.features`, `row.item`, `row.y`, `row.annotator`, and `row.label`
    where relevance values are given."""
    depth = bits_for(-(-len(x) // ITEMS_PER_SHARD))
    shard = np.zeros(len(x), np.int64)
    if depth:
        shard = (samples.query_hash >> np.uint64(64 - depth)).astype(np.int64)
    shards = []
    for number in range(1 << depth):
        nodes = np.flatnonzero(shard == number)
        rows = np.flatnonzero(shard[samples.item] == number)
        local = np.searchsorted(nodes, samples.item[rows]).astype(np.uint32)
        shards.append(
            frozen(
                {
                    "node.features": x[nodes],
                    "row.item": local,
                    "row.y": y.values[rows],
                    "row.annotator": samples.annotator[rows],
                    **({} if label is None else {"row.label": label[rows]}),
                }
            )
        )
    return shards


def target_shards(
    built: FeatureShards, scaling: Scaling, parts: Array | None = None, validation: float = 0.3
) -> list[Record]:
    """Graded items; a share of the queries is for validation, chosen by the hash of the query's id."""
    shards = []
    for shard in built.shards:
        if np.isnan(shard["node.gold"]).any():
            raise InputError("the target must grade every item: give relevance for all of them")
        fraction = hash_words(shard["unit.hash"], np.uint64(77)).astype(np.float64) / 2.0**64
        part = np.where(fraction < validation, VALIDATION, TRAIN) if parts is None else parts
        shards.append(
            frozen(
                {
                    "unit.nodes": shard["unit.nodes"],
                    "unit.part": part.astype(np.int64),
                    "node.features": scaling(shard["node.features"]),
                    "node.gain": np.exp2(shard["node.gold"]) - 1.0,
                }
            )
        )
    return shards


def sets_of(source: list[Record], target: list[Record]) -> dict[str, list[Record]]:
    return {SOURCE: source, TARGET: target}


def info_of(samples: Samples, source: list[Record], target: list[Record], features: tuple[str, ...]) -> Info:
    """Counts, as a model gets them."""
    count = int(samples.annotator.max(initial=0)) + 1
    return Info(
        judgments=len(samples),
        queries=len(np.unique(samples.query)),
        items=len(samples.query),
        annotators=count,
        annotator_judgments=np.bincount(samples.annotator, minlength=count),
        shards={SOURCE: len(source), TARGET: len(target)},
        features=features,
    )
