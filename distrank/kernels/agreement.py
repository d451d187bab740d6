"""How far annotators' lists agree with an order of the items."""

from __future__ import annotations

from distrank.kernels import kernel
from distrank.records import Array


@kernel
def count_agreement(
    nodes: Array,
    unit_lists: Array,
    list_rows: Array,
    owner: Array,
    item: Array,
    level: Array,
    score: Array,
    by_owner: Array,
    by_unit: Array,
) -> None:
    """Add to (pairs of a list in the order of the scores, all pairs) of every owner and unit; equal scores are half."""
    for unit in range(len(nodes) - 1):
        begin = nodes[unit]
        for number in range(unit_lists[unit], unit_lists[unit + 1]):
            agreed, pairs = 0.0, 0.0
            for i in range(list_rows[number], list_rows[number + 1]):
                for j in range(i + 1, list_rows[number + 1]):
                    if level[i] != level[j]:
                        gap = score[begin + item[i]] - score[begin + item[j]]
                        agreed += 1.0 if gap > 0.0 else 0.5 if gap == 0.0 else 0.0
                        pairs += 1.0
            by_owner[owner[number], 0] += agreed
            by_owner[owner[number], 1] += pairs
            by_unit[unit, 0] += agreed
            by_unit[unit, 1] += pairs
