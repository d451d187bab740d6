"""Rankings as lists: pair weights that annotators put on orders, distances, and what a ranking of all items expects.

A list is a run of rows, best first: `item` numbers the items of its unit from 0, `level` counts up wherever the
annotator told the next item from the one before; items of one level are tied. Matrices are n x n for the n items of a
unit: entry (a, b) belongs to "a before b".
"""

from __future__ import annotations

from distrank.kernels import kernel
from distrank.records import Array

CERTAIN = 1e6  # what an order against gold costs: more than all annotators together, and still a finite number


@kernel
def add_list(weight: Array, item: Array, level: Array, theta: float) -> None:
    """Add theta to every order of a pair that the list has the other way round."""
    for i in range(len(item)):
        for j in range(i + 1, len(item)):
            if level[i] != level[j]:
                weight[item[j], item[i]] += theta


@kernel
def list_distance(before: Array, item: Array, level: Array) -> float:
    """The expected Kendall distance to the list, from the probabilities that a is before b."""
    distance = 0.0
    for i in range(len(item)):
        for j in range(i + 1, len(item)):
            if level[i] != level[j]:
                distance += before[item[j], item[i]]
    return distance


@kernel
def add_gold(weight: Array, grade: Array) -> None:
    """Forbid every order of two graded items that their grades contradict."""
    for a in range(len(grade)):
        for b in range(len(grade)):
            if grade[a] < grade[b]:  # never for NaN
                weight[a, b] -= CERTAIN


@kernel
def ranking_weight(order: Array, weight: Array) -> float:
    """The sum of the weights of all pairs in the order that the ranking has."""
    total = 0.0
    for i in range(len(order)):
        for j in range(i + 1, len(order)):
            total += weight[order[i], order[j]]
    return total


@kernel
def top_distance(one: Array, place: Array, length: int, common_before: Array) -> float:
    """The distance (52)-(54) of two lists of `length` items: one as items, the other as the place of every item.

    `place` is the place in the other list, from 0, and -1 for items that it does not have; `common_before` is scratch
    for length + 1 counts.
    """
    distance, missing = 0, 0
    common_before[: length + 1] = 0  # common items among the first places of the other list
    for i in range(length):
        where = place[one[i]]
        if where >= 0:
            common_before[where + 1] = 1
    for i in range(length):
        common_before[i + 1] += common_before[i]
    for i in range(length):
        where = place[one[i]]
        if where < 0:
            missing += 1
            for j in range(i + 1, length):
                distance += place[one[j]] >= 0  # an item that only this list has, before a common one
            continue
        distance += where - common_before[where]  # items that only the other list has, before this common one
        for j in range(i + 1, length):
            other = place[one[j]]
            distance += 0 <= other < where
    return distance + 0.5 * missing * (missing + 1)
