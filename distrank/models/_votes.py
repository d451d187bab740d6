"""What `majority` and `average` share: one count of votes, and annotators compared with the votes of the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.contract import Info, Run, Traits
from distrank.kernels import labels as kernels
from distrank.models._labels import LabelModel, by_cell, grades_of, labels_of, order_quality
from distrank.records import Array, Record, scalar
from distrank.stats import dense


@dataclass(frozen=True)
class VoteSettings:
    """Counting votes has no settings."""


class VoteModel(LabelModel):
    """One round. Honeypots do not change a count; they are what annotators are compared with where they are given."""

    traits = Traits(iterative=False, monotone=False, opted_out={"objective": "a count has no objective"})
    Settings = VoteSettings
    majority: bool

    def begin(self, run: Run, info: Info) -> Record:
        theta = self.common_theta(run, info)
        shown = {"count": theta["count"], "majority": scalar(self.majority)}
        counts = dense(run(count_votes, shown), "annotator/others", info.annotators)
        return {
            **theta,
            "others": np.swapaxes(counts, 1, 2).copy(),  # by annotator: grade of the others, label
            "objective": scalar(np.nan),
            "converged": scalar(True),
        }

    def quality(self, theta: Record) -> Array:
        said = theta["others"].sum(axis=2)
        return order_quality(theta["others"] / np.where(said > 0.0, said, 1.0)[:, :, None], said)


def count_votes(shard: Record, local: Record, theta: Record, key: Array) -> tuple[Record, Record]:  # noqa: ARG001
    """A step: the soft label of every item, and what others said where an annotator said something."""
    rows, cell, weight, known = labels_of(shard)
    grades, majority = grades_of(shard), bool(theta["majority"])
    posterior = np.empty((len(rows) - 1, grades))
    kernels.vote_shares(rows, cell, weight, posterior)
    if majority:
        kernels.most_voted(posterior)
    others = np.zeros((grades * len(shard["annotator.code"]), grades))
    kernels.votes_of_others(rows, cell, weight, known, majority, others)
    return {"posterior": posterior}, by_cell(shard, int(theta["count"]), others=others)
