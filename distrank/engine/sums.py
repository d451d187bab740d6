"""Sums along one fixed binary tree over shard numbers.

Float addition is not associative, so the order of a sum is part of the result. Every sum follows the same tree:
node (level, i) is the sum of (level - 1, 2i) and (level - 1, 2i + 1), and level 0 are the shards. A call that covers a
contiguous range of shards completes the nodes it can and hands them on; whoever collects them goes on from there.
The bytes of the root therefore do not depend on how shards were packed into calls, or on when calls ended.
"""

from __future__ import annotations

from typing import TypeAlias

from distrank.records import Record
from distrank.stats import merged

Node: TypeAlias = tuple[int, int]  # level, index


class TreeSum:
    """Collects nodes in any order and merges siblings as soon as both are there; an absent sibling is None."""

    def __init__(self, shards: int) -> None:
        self.shards = shards
        self.waiting: dict[Node, Record | None] = {}

    def add(self, node: Node, stats: Record | None) -> None:
        """Put in a node that covers at least one shard, and merge upwards while its sibling is known."""
        level, index = node
        while True:
            sibling = (level, index ^ 1)
            if sibling in self.waiting:
                other = self.waiting.pop(sibling)
            elif self._beyond(sibling):
                other = None
            else:
                self.waiting[(level, index)] = stats
                return
            if self._is_root(level):
                self.waiting[(level, index)] = stats
                return
            stats = merged(other, stats) if index & 1 else merged(stats, other)
            level, index = level + 1, index >> 1

    def nodes(self) -> list[tuple[Node, Record | None]]:
        """The nodes completed so far, for whoever goes on with the sum."""
        return sorted(self.waiting.items(), key=lambda pair: pair[0])

    def total(self) -> Record:
        """The root; an empty record if no shard had anything to add."""
        if self.shards == 0:
            return {}
        if len(self.waiting) != 1 or not self._is_root(next(iter(self.waiting))[0]):
            raise RuntimeError(f"the sum over {self.shards} shards is not complete: {sorted(self.waiting)}")
        return next(iter(self.waiting.values())) or {}

    def _beyond(self, node: Node) -> bool:
        """Whether a node covers only shard numbers past the last one."""
        level, index = node
        return (index << level) >= self.shards

    def _is_root(self, level: int) -> bool:
        return (1 << level) >= self.shards
