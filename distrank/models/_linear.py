"""What rankers without a hidden ranking share: scores of the ranker as the result, and agreement with it."""

from __future__ import annotations

import numpy as np

from distrank.contract import Info, Learned, Model, Run, Tables
from distrank.kernels.agreement import count_agreement
from distrank.models._lists import by_annotator, prepared_lists, total_by_annotator
from distrank.models._ranker import item_scores, learned_ranker, ranker_warnings, shown_ranker
from distrank.records import Array, Record


def agreement(shard: Record, score: Array) -> tuple[Array, Array]:
    """Pairs of lists that agree with the scores, and all pairs: by annotator, and by unit."""
    owners, units = np.zeros((len(shard["annotator.code"]), 2)), np.zeros((len(shard["unit.nodes"]) - 1, 2))
    lists = (shard["unit.nodes"], shard["unit.lists"], shard["list.rows"], shard["list.owner"])
    count_agreement(*lists, shard["item.place"], shard["item.level"], score, owners, units)
    return owners, units


def shares(counts: Array) -> Array:
    """First column over second, 0.5 where there is nothing to compare."""
    known = counts[:, 1] > 0.0
    return np.where(known, counts[:, 0] / np.where(known, counts[:, 1], 1.0), 0.5)


def measure_agreement(shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:  # noqa: ARG001
    """A step: what agrees with the ranker's order, by annotator."""
    owners, _ = agreement(shard, item_scores(shard, theta))
    return None, by_annotator(shard, agreed=owners)


class LinearModel(Model):
    """A linear ranker whose scores are the result."""

    form = "rankings"
    accepts = ("rankings",)
    split = "never"
    features = True

    def prepare(self, shard: Record) -> Record:
        return prepared_lists(shard, None)

    def conclude(self, run: Run, theta: Record) -> Record:
        found = run(measure_agreement, shown_ranker(theta))
        return {**theta, "agreement": shares(total_by_annotator(found, "agreed", len(theta["agreement"])))}

    def finalize(self, shard: Record, local: Record, theta: Record) -> Tables:  # noqa: ARG002 (nothing is local)
        score = item_scores(shard, theta)
        _, units = agreement(shard, score)
        return {"rankings": {"score": score}, "queries": {"agreement": shares(units)}}

    def annotators(self, theta: Record, info: Info) -> Record:  # noqa: ARG002
        return {"quality": theta["agreement"]}

    def learned(self, theta: Record, info: Info) -> Learned:
        return learned_ranker(theta, info)

    def warnings(self, theta: Record, info: Info) -> list[str]:
        return ranker_warnings(theta, info)
