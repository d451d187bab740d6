"""Rankings by enumeration: every formula written out over all permutations, slowly."""

from __future__ import annotations

from itertools import combinations, permutations
from math import exp, log

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Levels = dict[int, int]  # item -> level of an annotator's list: equal levels are ties


def kendall(order: tuple[int, ...], levels: Levels) -> int:
    """Pairs of listed items that the ranking has in the opposite order."""
    return sum(
        levels[later] < levels[earlier]
        for earlier, later in combinations(order, 2)
        if earlier in levels and later in levels
    )


def plackett_luce(order: tuple[int, ...], score: Floats, stages: int | None = None) -> float:
    """ln P of the first choices among all items."""
    left = set(range(len(score)))
    total = 0.0
    for item in order[:stages]:
        total += score[item] - log(sum(exp(score[i]) for i in left))
        left.remove(item)
    return total


def top_distance(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """Equations (52)-(54) as printed, with k for n: one after the other, from the augmented lists."""
    k = len(one)
    common, new = set(one) & set(other), set(other) - set(one)
    place = {item: i for i, item in enumerate(other)}  # the augmented other list puts all others at k
    distance = 0.0
    for i, item in enumerate(one):
        if item in common:
            distance += sum(place[item] > place[later] for later in one[i:] if later in common)
            distance += sum(place[item] > place[stranger] for stranger in new)
        else:
            distance += sum(later in common for later in one[i:])
    r = k - len(common)
    return distance + r * (r + 1) / 2


def top_lists(items: int, k: int) -> list[tuple[int, ...]]:
    return list(permutations(range(items), k))


class Posterior:
    """p(y | lists, scores) over all rankings y, from (6): a table."""

    def __init__(self, score: Floats, lists: list[Levels], theta: list[float], grade: Floats | None = None) -> None:
        items = range(len(score))
        self.rankings = [y for y in permutations(items) if grade is None or _consistent(y, grade)]
        self.log_joint = np.array(
            [
                plackett_luce(y, score) + sum(t * kendall(y, levels) for t, levels in zip(theta, lists, strict=True))
                for y in self.rankings
            ]
        )
        top = self.log_joint.max()
        self.log_total = top + log(np.exp(self.log_joint - top).sum())
        self.share = np.exp(self.log_joint - self.log_total)

    @property
    def best(self) -> tuple[int, ...]:
        return self.rankings[int(self.log_joint.argmax())]

    def before(self, items: int) -> Floats:
        result = np.zeros((items, items))
        for y, share in zip(self.rankings, self.share, strict=True):
            for a, b in combinations(y, 2):
                result[a, b] += share
        return result

    def expected_distance(self, levels: Levels) -> float:
        return float(sum(s * kendall(y, levels) for y, s in zip(self.rankings, self.share, strict=True)))

    def expected_likelihood(self, score: Floats) -> float:
        return float(sum(s * plackett_luce(y, score) for y, s in zip(self.rankings, self.share, strict=True)))


def _consistent(order: tuple[int, ...], grade: Floats) -> bool:
    return not any(grade[later] > grade[earlier] for earlier, later in combinations(order, 2))
