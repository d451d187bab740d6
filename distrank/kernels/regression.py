"""Weighted least squares on standardised features with an intercept: sums over the rows of a shard.  [Raykar10]

[Raykar10] Raykar, Yu, Zhao, Valadez, Florin, Bogoni, Moy: Learning from crowds. JMLR 11, 2010.
"""

from __future__ import annotations

import numpy as np

from distrank.kernels import kernel
from distrank.records import Array


@kernel
def normal_equations(
    features: Array, mean: Array, scale: Array, weight: Array, target: Array, matrix: Array, vector: Array
) -> None:
    """Add sum of weight x x' and sum of target x over the nodes, x with a last entry of 1; only the lower triangle."""
    count = len(mean)
    row = np.ones(count + 1)
    for i in range(len(weight)):
        if weight[i] == 0.0:
            continue
        for f in range(count):
            row[f] = (features[i, f] - mean[f]) * scale[f]
        for f in range(count + 1):
            vector[f] += target[i] * row[f]
            part = weight[i] * row[f]
            for g in range(f + 1):
                matrix[f, g] += part * row[g]


@kernel
def rank_targets(list_rows: Array, level: Array, target: Array) -> None:
    """The score that a place in a list stands for: items below it, tied items counting half."""
    for number in range(len(list_rows) - 1):
        begin, end = list_rows[number], list_rows[number + 1]
        first = begin
        while first < end:
            last = first
            while last < end and level[last] == level[first]:
                last += 1
            for i in range(first, last):
                target[i] = (end - last) + 0.5 * (last - first - 1)
            first = last
