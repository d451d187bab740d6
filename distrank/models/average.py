"""Average rating. The soft label is the share of every grade among the ratings.

The score is the mean of the ratings themselves, also where they have so many values that grades were cut.
"""

from __future__ import annotations

import numpy as np

from distrank.models._votes import VoteModel
from distrank.records import Array, Record


class Average(VoteModel):
    """The mean rating."""

    name = "average"
    title = "Average rating"
    estimates = "scores, agreement with the ratings of the others"
    majority = False

    def prepare(self, shard: Record) -> Record:
        """The mean rating is made here, once: it depends on nothing else."""
        rows = shard["unit.rows"]
        weight = shard["row.weight"] if "row.weight" in shard else np.ones(len(shard["row.rating"]))
        starts = np.minimum(rows[:-1], max(len(weight) - 1, 0))
        sums = [np.add.reduceat(column, starts) if len(weight) else np.zeros(len(starts))
                for column in (weight * shard["row.rating"], weight)]  # fmt: skip
        middle = float(shard["grade.values"].mean())
        mean = np.where(sums[1] > 0.0, sums[0] / np.where(sums[1] > 0.0, sums[1], 1.0), middle)
        return {**super().prepare(shard), "node.mean": mean}

    def score(self, shard: Record, local: Record) -> Array:  # noqa: ARG002 (the mean needs no soft label)
        return shard["node.mean"]
