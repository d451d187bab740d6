"""The order in which judgments were made, for methods that read them one after the other.

Judgments go by `timestamp`. Equal timestamps keep the order as read (files by name), and so does data without
timestamps; judgments whose timestamp is unknown come after all others.
"""

from __future__ import annotations

import numpy as np

from distrank.records import Array
from distrank.tables.fingerprint import content_fingerprint
from distrank.tables.judgments import Judgments


def time_positions(judgments: Judgments) -> Array:
    """The place of every row in time order."""
    count = len(judgments)
    if judgments.timestamp is None:
        return np.arange(count)
    positions = np.empty(count, np.int64)
    positions[np.argsort(judgments.timestamp, kind="stable")] = np.arange(count)  # NaN sorts last
    return positions


def order_fingerprint(judgments: Judgments) -> str:
    """Like `Judgments.content`, but of rows with their places: another order in time is other data.

    Where timestamps settle the order, neither the order as read nor the files matter to it.
    """
    ids = [(judgments.queries, judgments.query), (judgments.annotators, judgments.annotator)]
    ids += [(judgments.items, column) for column in judgments.item_columns]
    numbers = [(judgments.value, 0.0), (judgments.tie, 0.0), (judgments.weight, 1.0)]
    return content_fingerprint(judgments.form, ids, [*numbers, (time_positions(judgments), 0.0)])


def order_warnings(judgments: Judgments) -> list[str]:
    """What to say about an order that the data does not settle."""
    unknown = len(judgments) if judgments.timestamp is None else int(np.isnan(judgments.timestamp).sum())
    if unknown == 0:
        return []
    if unknown == len(judgments):
        return ["the judgments have no timestamps: the order in which they were read is taken for the order in time"]
    return [
        f"{unknown:,} of {len(judgments):,} judgments have no timestamp: they were taken last, in the order as read"
    ]
