"""A batch fit of Crowd-BT on the answers collected so far, started from the quality that the online updates found.

Questions that were chosen to test annotators leave many answers of bad ones. Started from ones, the fit then often ends
in the mirror image of the truth, which fits exactly as well (`models.crowd_bt`); the online quality knows the side.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from distrank.contract import UNITS, Info, Run
from distrank.engine.base import Placement
from distrank.engine.local import LocalEngine
from distrank.fit import fit
from distrank.models.crowd_bt import SURE, CrowdBT, CrowdBTSettings
from distrank.records import Array, Record
from distrank.tables.ids import unpack_ids
from distrank.tables.judgments import judgments_from_codes
from distrank.tables.shards import build_shards


class _StartedCrowdBT(CrowdBT):
    """`crowd-bt` from a given quality of every annotator."""

    def __init__(self, settings: CrowdBTSettings, quality: Array) -> None:
        super().__init__(settings)
        self.quality = quality

    def starts(self, run: Run, info: Info, theta: Record) -> Record:
        return {**super().starts(run, info, theta), "starts": self.quality[np.newaxis]}


def refit(
    annotator: Array,
    winner: Array,
    loser: Array,
    items: int,
    quality: Array,
    settings: CrowdBTSettings | None = None,
) -> tuple[Array, Array]:
    """Scores (0 for items without answers) and quality from the answers of one query, as codes."""
    ids = pa.array(np.arange(items))
    judgments = judgments_from_codes(
        "preferences",
        queries=pa.array([0]),
        items=ids,
        annotators=pa.array(np.arange(len(quality))),
        query=np.zeros(len(winner), np.int64),
        annotator=annotator,
        winner=winner,
        loser=loser,
    )
    model = _StartedCrowdBT(settings or CrowdBTSettings(), np.clip(quality, 1.0 - SURE, SURE))
    sharded = build_shards(judgments, form=model.form, unit=model.unit, split=model.split, gold=None)
    with LocalEngine(1) as engine:
        main = partial(fit, model=model, info=sharded.info, finish=partial(_scores_of, model))
        found = engine.execute(main, sharded.source, model, lambda _: None)
    scores = np.zeros(items)
    for codes, score in found.results:
        scores[codes] = score
    return scores, np.array(model.annotators(found.theta, sharded.info)["quality"])


def _scores_of(model: CrowdBT, placement: Placement, theta: Record) -> list[tuple[Array, Array]]:
    return placement.map(partial(_shard_scores, model), theta, on=UNITS)


def _shard_scores(model: CrowdBT, number: int, shard: Record, local: Record, theta: Record) -> tuple[Array, Array]:  # noqa: ARG001
    codes = unpack_ids(shard, "node.id", pa.int64()).to_numpy()
    return codes, model.finalize(shard, local, theta)["rankings"]["score"]
