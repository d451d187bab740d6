"""Rankers trained on consensus labels: what reweighting and remapping are compared with.  [Ustinovskiy16] section 6.2

labels     majority, average, dawid-skene, glad: the most probable grade, or (soft) its probability
rankers    linear (ridge, on the same features and trees), lightgbm regression, lambdamart
deviation  the linear ranker on votes, fitted again with weights min(1 / delta^2, 1 / error^2)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.records import Array
from distrank.remap.consensus import Consensus
from distrank.remap.data import Samples
from distrank.remap.extension import Blocks
from distrank.trees import TreeShape, grow_lambdamart, grow_regression

RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # from which validation chooses
LABELS = ("majority", "average", "dawid-skene", "dawid-skene soft", "glad", "glad soft")


def consensus_labels(samples: Samples, consensus: Consensus) -> dict[str, Array]:
    """The label of every item of the source, from 0 to 1, by its name."""
    one = (samples.rating == consensus.grades[1]).astype(np.float64)
    count = np.bincount(samples.item, minlength=len(samples.query))
    average = np.bincount(samples.item, one, minlength=len(samples.query)) / np.maximum(count, 1)
    soft = {"dawid-skene": consensus.dawid_skene[samples.number], "glad": consensus.glad[samples.number]}
    return {
        "majority": np.where(average == 0.5, 0.5, (average > 0.5).astype(float)),
        "average": average,
        **{name: (chance > 0.5).astype(float) for name, chance in soft.items()},
        **{f"{name} soft": chance for name, chance in soft.items()},
    }


def label_counts(samples: Samples) -> Array:
    """Labels of every item."""
    return np.bincount(samples.item, minlength=len(samples.query)).astype(np.float64)


@dataclass(frozen=True)
class LinearFit:
    """Equation 6 with one row per item, for any labels and any ridge: X'WX is made once.

    `features` are those of the items of every block, `weight` counts labels, each worth one half.
    """

    blocks: Blocks
    features: list[Array]
    weight: Array
    squares: list[Array]

    @staticmethod
    def of(blocks: Blocks, values: Array, weight: Array) -> LinearFit:
        features = [block(values[blocks.block == k]) for k, block in enumerate(blocks.blocks)]
        return LinearFit.weighted(blocks, features, weight)

    @staticmethod
    def weighted(blocks: Blocks, features: list[Array], weight: Array) -> LinearFit:
        squares = []
        for k, x in enumerate(features):
            root = x * np.sqrt(0.5 * weight[blocks.block == k])[:, None]
            squares.append(root.T @ root)
        return LinearFit(blocks, features, weight, squares)

    def __call__(self, label: Array, ridge: float) -> Array:
        """The rankers of the blocks, one after the other."""
        mu = ridge * 0.5 * float(self.weight[self.blocks.block >= 0].sum())
        rankers = []
        for k, (x, square) in enumerate(zip(self.features, self.squares, strict=True)):
            own = self.blocks.block == k
            right = (0.5 * self.weight[own] * label[own]) @ x
            rankers.append(np.linalg.solve(square + mu * np.eye(len(square)), right))
        return np.concatenate(rankers)

    def by_deviation(self, label: Array, ridge: float, delta: float) -> Array:
        """Reweighting by deviation: items that a first fit misses count less in a second."""
        first = self(label, ridge).reshape(len(self.features), -1)
        factor = np.zeros(len(label))
        for k, x in enumerate(self.features):
            own = self.blocks.block == k
            error = np.abs(label[own] - x @ first[k])
            factor[own] = np.minimum(1.0 / delta**2, 1.0 / np.maximum(error, 1e-9) ** 2)
        kept = self.blocks.block >= 0
        factor *= self.weight[kept].sum() / max(float((factor * self.weight)[kept].sum()), 1e-300)
        return LinearFit.weighted(self.blocks, self.features, self.weight * factor)(label, ridge)


def fit_regression(samples: Samples, label: Array, weight: Array, trees: int, shape: TreeShape, seed: int = 0) -> str:
    """Boosted regression trees on the items' own features, as text."""
    return grow_regression(samples.values, label, weight, trees, shape, seed)


def fit_lambdamart(samples: Samples, label: Array, trees: int, shape: TreeShape, seed: int = 0) -> str:
    """LambdaMART on labels that are grades: 0, 1 (2 where votes are tied: labels are doubled)."""
    groups = np.bincount(np.unique(samples.query, return_inverse=True)[1])
    return grow_lambdamart(samples.values, np.round(2.0 * label), groups, trees, shape, seed)
