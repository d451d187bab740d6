"""Which judgments weigh most against a suspect, by any model that has scores and a law of a judgment.

Who is typical: the median of those who judged, but nobody worse than TYPICAL_LEAST, so that in a bad crowd a judgment
is still held against somebody who knows.
"""

from __future__ import annotations

import numpy as np

from distrank.contract import EVIDENCE
from distrank.kernels.laws import SCALED
from distrank.records import Array, Record

TYPICAL_LEAST, TYPICAL_MOST = 0.75, 0.99


def typical_parameter(parameter: Array | None, judged: Array, law: int) -> float:
    """The parameter of a typical annotator; 1 where annotators have none."""
    if parameter is None or not (judged > 0.0).any():
        return 1.0
    median = float(np.median(parameter[judged > 0.0]))
    return median if law == SCALED else min(max(median, TYPICAL_LEAST), TYPICAL_MOST)


def empty_lists(suspects: Array) -> tuple[Array, Array]:
    """Weights and rows before the first judgment is looked at."""
    return np.zeros((len(suspects), EVIDENCE)), np.full((len(suspects), EVIDENCE), -1, np.int64)


def places(codes: Array, suspects: Array) -> Array:
    """Where every code is among the suspects (which are sorted), or -1."""
    if not len(suspects):
        return np.full(len(codes), -1, np.int64)
    found = np.minimum(np.searchsorted(suspects, codes), len(suspects) - 1)
    return np.where(suspects[found] == codes, found, -1).astype(np.int64)


def as_record(suspects: Array, winner: Array, loser: Array, weights: Array, rows: Array) -> Record:
    """What was found, as `Model.evidence` gives it."""
    suspect, rank = np.nonzero(rows >= 0)
    row = rows[suspect, rank]
    return {
        "annotator": suspects[suspect],
        "winner": winner[row].astype(np.int64),
        "loser": loser[row].astype(np.int64),
        "weight": weights[suspect, rank],
    }
