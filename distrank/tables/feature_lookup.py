"""Features brought together with the judgments: the row of numbers of every node."""

from __future__ import annotations

import numpy as np

from distrank.errors import InputError
from distrank.records import Array
from distrank.tables.features import Features
from distrank.tables.gold_lookup import codes_of
from distrank.tables.ids import show_id
from distrank.tables.judgments import Judgments


class FeatureLookup:
    """Features in the codes of the judgments. Every judged item must have them; this is checked before any shard is
    made.

    Items that nobody judged are only counted: they are what a ranker is for.
    """

    def __init__(self, features: Features, judgments: Judgments) -> None:
        self.features = features
        self.base = np.uint64(max(len(judgments.items), 1))
        query = codes_of(features.source, "query", features.query, judgments.queries)
        item = codes_of(features.source, "item", features.item, judgments.items)
        known = np.flatnonzero((query >= 0) & (item >= 0))
        keys = query[known].astype(np.uint64) * self.base + item[known].astype(np.uint64)
        order = np.argsort(keys, kind="stable")
        self.keys, self.rows = keys[order], known[order]
        judged = np.zeros(len(self.keys), bool)
        for column in judgments.item_columns:
            judged[self._places(judgments, judgments.query, column)] = True
        self.unjudged = len(features) - int(judged.sum())

    def __call__(self, query: Array, item: Array) -> Array:
        """The features of every node, given by the codes of its query and item."""
        return self.features.values[self.rows[np.searchsorted(self.keys, self._keys(query, item))]]

    def warnings(self) -> list[str]:
        """What to say about items that have features and no judgments."""
        if not self.unjudged:
            return []
        return [
            f"{self.features.source}: {self.unjudged:,} of {len(self.features):,} items with features are not judged"
        ]

    def _keys(self, query: Array, item: Array) -> Array:
        return query.astype(np.uint64) * self.base + item

    def _places(self, judgments: Judgments, query: Array, item: Array) -> Array:
        """Where the items of the rows are among the known ones; one that is not is an error with examples."""
        keys = np.unique(self._keys(query, item))
        place = np.minimum(np.searchsorted(self.keys, keys), max(len(self.keys) - 1, 0))
        hit = self.keys[place] == keys if len(self.keys) else np.zeros(len(keys), bool)
        if hit.all():
            return place
        without = keys[~hit]
        of_query, of_item = np.divmod(without[:3], self.base)
        examples = [
            f"{show_id(judgments.queries[int(q)].as_py())} / {show_id(judgments.items[int(i)].as_py())}"
            for q, i in zip(of_query, of_item, strict=True)
        ]
        raise InputError(
            f"{self.features.source}: {len(without):,} of {len(keys):,} judged items have no features, such as "
            f"(query / item) {', '.join(examples)}; add their rows, or leave their judgments out"
        )
