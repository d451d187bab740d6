"""Trees of boxes: items by mean and variance, annotators by how informative their answers are and how well known.

A node is a box that holds its members' two coordinates; its two children part them. A leaf is one member. Members can
move (their boxes and those above are set anew) and can be taken out, without the tree being built again: a box is then
wider than it need be, never wrong.

    items        mean and variance of the score; one tree per query, all in the same arrays
    annotators   u = |2 eta - 1| of the mean quality eta, and alpha + beta; and, per node, the most that any member of
                 it would teach about itself on a pair of every degree of clearness |z| (a table of GRID + 1 values)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel
from distrank.kernels.gain import quality_gain
from distrank.kernels.gain_bounds import SUREST_Z
from distrank.records import Array

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

GRID = 32


class Tree(NamedTuple):
    """Nodes in arrays; the children of a node stand side by side."""

    left: Array  # the first of the two children, -1 for leaves
    parent: Array  # -1 for roots
    member: Array  # of leaves; -1 elsewhere
    members: Array  # that can be chosen
    low: Array  # (nodes, 2): the box
    high: Array
    leaf: Array  # of every member
    root: Array  # of every group


class Crowd(NamedTuple):
    """Annotators: what is believed of them, their tree, and what there is to learn about them."""

    belief: Array  # (annotators, 2): alpha and beta
    tree: Tree
    lesson: Array  # (nodes, GRID + 1); without rows where nobody asks for it


def item_tree(items: Array, order: Array, groups: Array) -> Tree:
    """A tree per group; group g has the members order[groups[g]:groups[g + 1]], in random order to break ties."""
    return Tree(*_build(items, order, groups, np.array([0.5, 0.0])))


def crowd_of(belief: Array, order: Array, *, lessons: bool) -> Crowd:
    """One tree of all annotators; `lessons` where gamma is above 0."""
    points = np.empty_like(belief)
    for k in range(len(belief)):
        points[k] = crowd_point(belief[k, 0], belief[k, 1])
    tree = Tree(*_build(points, order, np.array([0, len(order)]), np.zeros(2)))
    crowd = Crowd(belief, tree, np.zeros((len(tree.left) if lessons else 0, GRID + 1)))
    if lessons:
        _fill_lessons(crowd)
    return crowd


@kernel
def crowd_point(alpha: float, beta: float) -> tuple[float, float]:
    """An annotator's coordinates."""
    return abs(alpha - beta) / (alpha + beta), alpha + beta


@kernel
def _build(
    points: Floats, order: Integers, groups: Integers, absolute: Floats
) -> tuple[Array, Array, Array, Array, Array, Array, Array, Array]:
    """Splits in the middle of the wider side: the few members far out, which gain most, are soon among themselves.

    A side is measured by `absolute` times its length, or relative to its end.
    """
    total = 2 * len(order)  # at most: a tree of n members has 2n - 1 nodes
    left, parent = np.full(total, -1, np.int64), np.full(total, -1, np.int64)
    member, members = np.full(total, -1, np.int64), np.zeros(total, np.int64)
    low, high = np.zeros((total, 2)), np.zeros((total, 2))
    leaf, root = np.full(len(points), -1, np.int64), np.full(len(groups) - 1, -1, np.int64)
    order = order.copy()
    begin, end = np.zeros(total, np.int64), np.zeros(total, np.int64)
    nodes = 0
    for group in range(len(groups) - 1):
        if groups[group] == groups[group + 1]:
            continue
        root[group] = nodes
        begin[nodes], end[nodes] = groups[group], groups[group + 1]
        done = nodes
        nodes += 1
        while done < nodes:
            node, b, e = done, begin[done], end[done]
            done += 1
            members[node] = e - b
            wide = np.zeros(2)
            for side in range(2):
                low[node, side] = high[node, side] = points[order[b], side]
                for place in range(b + 1, e):
                    low[node, side] = min(low[node, side], points[order[place], side])
                    high[node, side] = max(high[node, side], points[order[place], side])
                length = high[node, side] - low[node, side]
                wide[side] = absolute[side] * length
                if absolute[side] == 0.0 and length > 0.0:
                    wide[side] = length / high[node, side]
            if e - b == 1:
                member[node], leaf[order[b]] = order[b], node
                continue
            side = 0 if wide[0] >= wide[1] else 1
            middle = (b + e) // 2
            if wide[side] > 0.0:
                middle = _parted(points[:, side], order, b, e, 0.5 * (low[node, side] + high[node, side]))
            left[node] = nodes
            for child in range(2):
                parent[nodes] = node
                begin[nodes], end[nodes] = (b, middle) if child == 0 else (middle, e)
                nodes += 1
    return left, parent, member, members, low, high, leaf, root


@kernel
def _parted(values: Floats, order: Integers, begin: int, end: int, middle: float) -> int:
    """Order members so that those below the middle come first; where the others begin. Neither part is empty."""
    first, last = begin, end - 1
    while first <= last:
        if values[order[first]] <= middle:
            first += 1
        else:
            order[first], order[last] = order[last], order[first]
            last -= 1
    return min(max(first, begin + 1), end - 1)


@kernel
def place_member(tree: Tree, member: int, first: float, second: float) -> None:
    """Give a member other coordinates."""
    node = tree.leaf[member]
    tree.low[node, 0] = tree.high[node, 0] = first
    tree.low[node, 1] = tree.high[node, 1] = second
    _set_above(tree, node)


@kernel
def remove_member(tree: Tree, member: int) -> None:
    """Take a member out: it will not be chosen any more."""
    node = tree.leaf[member]
    tree.members[node] = 0
    _set_above(tree, node)


@kernel
def _set_above(tree: Tree, node: int) -> None:
    """Set the boxes of all that hold a node from their two children; those without members do not count."""
    node = tree.parent[node]
    while node >= 0:
        a = tree.left[node]
        b = a + 1
        tree.members[node] = tree.members[a] + tree.members[b]
        if tree.members[a] == 0:
            a = b
        if tree.members[b] == 0:
            b = a
        for side in range(2):
            tree.low[node, side] = min(tree.low[a, side], tree.low[b, side])
            tree.high[node, side] = max(tree.high[a, side], tree.high[b, side])
        node = tree.parent[node]


@kernel
def learn_annotator(crowd: Crowd, k: int, alpha: float, beta: float) -> None:
    """Believe something else of an annotator."""
    crowd.belief[k, 0], crowd.belief[k, 1] = alpha, beta
    u, total = crowd_point(alpha, beta)
    place_member(crowd.tree, k, u, total)
    if len(crowd.lesson):
        _fill_lesson(crowd, k)
        _lessons_above(crowd, crowd.tree.leaf[k])


@kernel
def remove_annotator(crowd: Crowd, k: int) -> None:
    """An annotator who is not to be asked any more."""
    remove_member(crowd.tree, k)
    if len(crowd.lesson):
        crowd.lesson[crowd.tree.leaf[k]] = 0.0
        _lessons_above(crowd, crowd.tree.leaf[k])


@kernel
def clear_lesson(alpha: float, beta: float, z: float) -> float:
    """What a pair whose order is known to the degree |z| teaches about an annotator."""
    z = min(z, SUREST_Z)
    return quality_gain(alpha, beta, 0.5 * (1.0 + z), 0.5 * (1.0 - z))


@kernel
def _fill_lesson(crowd: Crowd, k: int) -> None:
    leaf = crowd.tree.leaf[k]
    for g in range(GRID + 1):
        crowd.lesson[leaf, g] = clear_lesson(crowd.belief[k, 0], crowd.belief[k, 1], g / GRID)


@kernel
def _lessons_above(crowd: Crowd, node: int) -> None:
    node = crowd.tree.parent[node]
    while node >= 0:
        a = crowd.tree.left[node]
        for g in range(GRID + 1):
            crowd.lesson[node, g] = max(crowd.lesson[a, g], crowd.lesson[a + 1, g])
        node = crowd.tree.parent[node]


@kernel
def _fill_lessons(crowd: Crowd) -> None:
    for k in range(len(crowd.belief)):
        if crowd.tree.leaf[k] >= 0:
            _fill_lesson(crowd, k)
    for node in range(len(crowd.tree.left) - 1, -1, -1):  # children stand after their parents
        a = crowd.tree.left[node]
        if a >= 0:
            for g in range(GRID + 1):
                crowd.lesson[node, g] = max(crowd.lesson[a, g], crowd.lesson[a + 1, g])
