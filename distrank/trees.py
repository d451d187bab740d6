"""Gradient-boosted trees by LightGBM, the only module that imports it.

Data is checked before it reaches the library, so that a violation is an error with a place and not a crash: finite
numbers, as many labels and weights as rows, groups that are not empty and add up, grades that are small whole numbers.
Trees are the same for any number of threads (`deterministic`). What is kept of them is LightGBM's text, which holds
numbers and no code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from distrank.errors import InputError, UsageError
from distrank.records import Array

MOST_GRADE = 30  # LightGBM's table of gains ends there
MOST_GROUP = 10_000  # rows per query that its ranking objective takes


@dataclass(frozen=True)
class TreeShape:
    """How trees are grown."""

    leaves: int = 16
    rate: float = 0.1
    least_rows: int = 20
    threads: int = 1  # OpenMP threads that wait spin, and slow everything else down


def grow_regression(x: Array, y: Array, weight: Array | None, trees: int, shape: TreeShape, seed: int = 0) -> str:
    """Trees that predict y by least squares, as text."""
    _check(x, y, weight)
    return _grow({"objective": "regression"}, x, y, weight, None, trees, shape, seed)


def grow_lambdamart(x: Array, grade: Array, groups: Array, trees: int, shape: TreeShape, seed: int = 0) -> str:
    """LambdaMART: trees that rank the rows of every group by grade; `groups` are the numbers of rows of the queries."""
    _check(x, grade, None)
    if (groups < 1).any() or int(groups.sum()) != len(x):
        raise InputError(f"groups must be of at least one row each and add up to {len(x):,} rows, not {groups.sum():,}")
    if int(groups.max(initial=0)) > MOST_GROUP:
        raise InputError(f"a query has {groups.max():,} items; LambdaMART takes {MOST_GROUP:,} at most: use regression")
    bad = (grade != np.floor(grade)) | (grade < 0) | (grade > MOST_GRADE)
    if bad.any():
        row = int(bad.argmax())
        raise InputError(f"row {row}: grade {grade[row]:g} is no whole number from 0 to {MOST_GRADE}")
    gains = [2.0**value - 1.0 for value in range(MOST_GRADE + 1)]
    options = {"objective": "lambdarank", "label_gain": gains, "lambdarank_truncation_level": 15}
    return _grow(options, x, grade, None, groups, trees, shape, seed)


def tree_values(text: str, x: Array, trees: int | None = None) -> Array:
    """What every tree says of every row: a column per tree."""
    booster = _load(text)
    count = booster.num_trees() if trees is None else min(trees, booster.num_trees())
    if count == 0 or len(x) == 0:
        return np.zeros((len(x), count))
    leaf = np.asarray(booster.predict(x, pred_leaf=True, num_iteration=count)).reshape(len(x), -1).astype(np.int64)
    values = np.empty(leaf.shape)
    for tree in range(count):
        leaves = int(leaf[:, tree].max()) + 1
        output = np.array([booster.get_leaf_output(tree, number) for number in range(leaves)])
        values[:, tree] = output[leaf[:, tree]]
    return values


def predict(text: str, x: Array) -> Array:
    """The sum over the trees."""
    return np.asarray(_load(text).predict(x), np.float64)


def _grow(
    options: dict[str, Any],
    x: Array,
    y: Array,
    weight: Array | None,
    groups: Array | None,
    trees: int,
    shape: TreeShape,
    seed: int,
) -> str:
    import lightgbm  # noqa: PLC0415 (not before it is needed)

    settings = {
        **options,
        "num_leaves": shape.leaves,
        "learning_rate": shape.rate,
        "min_data_in_leaf": min(shape.least_rows, max(len(x) // 4, 1)),
        "num_threads": shape.threads,
        "deterministic": True,
        "force_col_wise": True,
        "seed": seed,
        "verbosity": -1,
    }
    data = lightgbm.Dataset(x, y, weight=weight, group=groups, params={"verbosity": -1}, free_raw_data=True)
    booster = lightgbm.train(settings, data, num_boost_round=trees)
    text: str = booster.model_to_string(num_iteration=-1)
    return text


def _load(text: str) -> Any:
    import lightgbm  # noqa: PLC0415 (not before it is needed)

    if not text.startswith("tree\n"):
        raise InputError("these are no trees of LightGBM: the text must begin with 'tree'")
    try:
        return lightgbm.Booster(model_str=text)
    except lightgbm.basic.LightGBMError as error:
        raise InputError(f"these trees cannot be read: {error}") from error


def _check(x: Array, y: Array, weight: Array | None) -> None:
    if x.ndim != 2 or not len(x) or not x.shape[1]:
        raise UsageError(f"trees need rows of features, not an array of shape {x.shape}")
    for name, column in (("label", y), ("weight", weight)):
        if column is None:
            continue
        if len(column) != len(x):
            raise InputError(f"there are {len(x):,} rows of features and {len(column):,} of {name}")
        bad = ~np.isfinite(column) | ((column < 0) if name == "weight" else False)
        if bad.any():
            raise InputError(f"row {int(bad.argmax())}: the {name} {column[bad.argmax()]} cannot be learned from")
    bad_rows = ~np.isfinite(x).all(axis=1)
    if bad_rows.any():
        raise InputError(f"row {int(bad_rows.argmax())}: a feature is not a finite number")
