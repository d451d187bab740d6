"""Feature extension: every tree of an ensemble is one more feature of the linear ranker.  [Ustinovskiy16] section 5.2

Trees that were grown on the labels of an item know the noise in them, and a linear ranker fitted to the same labels
would trust them too much. So the trees of a fold are grown on the queries of the other folds, and every fold has a
linear ranker of its own (tree t must be one function for all samples of a ranker); alpha and beta are shared, the
scores of the rankers are averaged. With `disjoint` there is one ranker, on half of the queries, with trees from the
other half.

A block is the features of one such ranker: those of the item, the trees, standardised, and a constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from distrank.kernels.hashing import hash_words
from distrank.records import Array
from distrank.trees import TreeShape, grow_regression, tree_values

Extend: TypeAlias = Literal["cross", "disjoint", "none"]
NOT_USED = -1  # the block of items that only trees are grown on
_SALT = np.uint64(41)


@dataclass(frozen=True)
class Scaling:
    """How features become what the ranker sees: mean 0, standard deviation 1, a constant at the end."""

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
class Block:
    """The features of one ranker."""

    scaling: Scaling
    trees: str | None  # LightGBM's text
    count: int  # trees that are used

    def __call__(self, values: Array) -> Array:
        return self.scaling(_extended(values, self.trees, self.count))


@dataclass(frozen=True)
class Blocks:
    """The blocks, and which of them every item of the source belongs to."""

    blocks: tuple[Block, ...]
    block: Array

    def with_trees(self, count: int, values: Array) -> Blocks:
        """The same with fewer trees."""
        blocks = tuple(
            Block(Scaling.of(_extended(values[self.block == k], one.trees, count)), one.trees, count)
            for k, one in enumerate(self.blocks)
        )
        return Blocks(blocks, self.block)


def extend(
    values: Array,
    query_hash: Array,
    label: Array,
    weight: Array,
    *,
    how: Extend = "cross",
    folds: int = 2,
    trees: int = 300,
    shape: TreeShape | None = None,
    seed: int = 0,
) -> Blocks:
    """Grow trees on the labels of items and say which ranker every item is for."""
    if how == "none" or trees == 0:
        return Blocks((Block(Scaling.of(values), None, 0),), np.zeros(len(values), np.int64))
    fold = (hash_words(query_hash, _SALT) % np.uint64(folds if how == "cross" else 2)).astype(np.int64)
    kept = range(folds) if how == "cross" else range(1)
    block = fold if how == "cross" else np.where(fold == 0, 0, NOT_USED)
    blocks = []
    for k in kept:
        others = fold != k
        if not others.any() or others.all():
            return extend(values, query_hash, label, weight, how="none")  # too few queries to keep any apart
        text = grow_regression(values[others], label[others], weight[others], trees, shape or TreeShape(), seed)
        blocks.append(Block(Scaling.of(_extended(values[~others], text, trees)), text, trees))
    return Blocks(tuple(blocks), block)


def _extended(values: Array, trees: str | None, count: int) -> Array:
    return values if trees is None or count == 0 else np.hstack([values, tree_values(trees, values, count)])
