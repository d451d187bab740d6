"""Trees: what LightGBM is fed, what comes back, and feature extension without leaking labels."""

from __future__ import annotations

import numpy as np
import pytest

from distrank.errors import InputError, UsageError
from distrank.remap.extension import NOT_USED, extend
from distrank.trees import TreeShape, grow_lambdamart, grow_regression, predict, tree_values

SHAPE = TreeShape(leaves=6, least_rows=5)


def data(seed: int = 1, rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 5))
    return x, np.sign(x[:, 0]) * x[:, 1] + 0.1 * rng.normal(size=rows)


def test_trees_add_up_to_the_prediction() -> None:
    x, y = data()
    text = grow_regression(x, y, None, 12, SHAPE)
    columns = tree_values(text, x)
    assert columns.shape == (400, 12)
    np.testing.assert_allclose(columns.sum(axis=1), predict(text, x), atol=1e-9)
    np.testing.assert_array_equal(tree_values(text, x, 5), columns[:, :5])
    assert np.corrcoef(predict(text, x), y)[0, 1] > 0.8


def test_threads_do_not_change_the_trees() -> None:
    x, y = data()
    texts = {
        grow_regression(x, y, None, 10, TreeShape(leaves=6, least_rows=5, threads=threads)).split("\nparameters:")[0]
        for threads in (1, 2, 3)
    }
    assert len(texts) == 1


def test_lambdamart_ranks() -> None:
    x, y = data(rows=600)
    grade = np.clip(np.floor(y + 1.0), 0, 3)
    text = grow_lambdamart(x, grade, np.full(60, 10), 30, SHAPE)
    assert np.corrcoef(predict(text, x), grade)[0, 1] > 0.6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grade": [0.5, 1, 0, 1]}, "row 0: grade 0.5 is no whole number"),
        ({"grade": [0, 1, 99, 1]}, "row 2: grade 99"),
        ({"grade": [0, -1, 0, 1]}, "row 1: grade -1"),
        ({"grade": [0, 1, 0]}, "4 rows of features and 3 of label"),
        ({"groups": [2, 1]}, "add up to 4 rows, not 3"),
        ({"groups": [4, 0]}, "at least one row each"),
        ({"groups": [20_000]}, "add up to 4 rows"),
        ({"x": [[1.0], [np.nan], [0.0], [0.0]]}, "row 1: a feature is not a finite number"),
    ],
)
def test_what_the_library_cannot_take_is_our_error(change: dict[str, list], message: str) -> None:
    given = {"x": [[1.0], [2.0], [0.0], [0.0]], "grade": [0, 1, 0, 1], "groups": [2, 2], **change}
    x, grade, groups = (np.array(given[name], float) for name in ("x", "grade", "groups"))
    with pytest.raises(InputError, match=message):
        grow_lambdamart(x, grade, groups.astype(int), 3, SHAPE)


def test_weights_and_shapes_are_checked() -> None:
    x, y = data()
    with pytest.raises(InputError, match=r"row 0: the weight -1\.0"):
        grow_regression(x, y, -np.ones(len(y)), 3, SHAPE)
    with pytest.raises(InputError, match="row 0: the label nan"):
        grow_regression(x, np.full(len(y), np.nan), None, 3, SHAPE)
    with pytest.raises(UsageError, match="rows of features"):
        grow_regression(np.empty((0, 3)), np.empty(0), None, 3, SHAPE)


@pytest.mark.parametrize("text", ["", "import os", "tree\nnonsense"])
def test_hostile_text_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        tree_values(text, np.ones((2, 2)))


def test_trees_of_a_fold_never_saw_its_labels() -> None:
    """Other labels in a fold change the trees of the other folds, and not its own."""
    x, y = data()
    queries = np.repeat(np.arange(40), 10).astype(np.uint64)
    ones = np.ones(len(y))
    before = extend(x, queries, y, ones, folds=2, trees=5, shape=SHAPE)
    changed = np.where(before.block == 0, -y, y)
    after = extend(x, queries, changed, ones, folds=2, trees=5, shape=SHAPE)
    assert set(before.block) == {0, 1}
    assert before.blocks[0].trees == after.blocks[0].trees
    assert before.blocks[1].trees != after.blocks[1].trees
    for query in range(40):
        assert len(set(before.block[queries == query])) == 1
    disjoint = extend(x, queries, y, ones, how="disjoint", trees=5, shape=SHAPE)
    assert set(disjoint.block) == {0, NOT_USED}
    assert len(disjoint.blocks) == 1


def test_features_are_standardised_with_a_constant_last() -> None:
    x, y = data()
    blocks = extend(x, np.repeat(np.arange(40), 10).astype(np.uint64), y, np.ones(len(y)), trees=5, shape=SHAPE)
    own = blocks.blocks[0](x[blocks.block == 0])
    assert own.shape[1] == 5 + 5 + 1
    np.testing.assert_allclose(own[:, :-1].mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_array_equal(own[:, -1], 1.0)
    fewer = blocks.with_trees(2, x).blocks[0](x)
    assert fewer.shape[1] == 5 + 2 + 1
