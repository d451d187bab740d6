"""Groups of opinions (`models._opinions`) beside a consensus: who agrees, and how an item fared with each annotator."""

from __future__ import annotations

import numpy as np

from distrank.kernels import kernel
from distrank.records import Array


@kernel
def levels(unit_nodes: Array, score: Array) -> Array:
    """The number of distinct higher scores in the unit, by item."""
    level = np.empty(len(score), np.int64)
    for u in range(len(unit_nodes) - 1):
        begin, end = unit_nodes[u], unit_nodes[u + 1]
        order = np.argsort(-score[begin:end], kind="mergesort")
        current = -1
        for r in range(end - begin):
            if r == 0 or score[begin + order[r]] != score[begin + order[r - 1]]:
                current += 1
            level[begin + order[r]] = current
    return level


@kernel
def win_shares(group_entries: Array, from_list: Array, wins: Array, contests: Array) -> Array:
    """The share of its contests that every entry won; NaN for one without contests."""
    share = np.full(len(wins), np.nan)
    for g in range(len(group_entries) - 1):
        first = group_entries[g]  # the first entry of as many wins
        for s in range(group_entries[g], group_entries[g + 1]):
            if wins[s] != wins[first]:
                first = s
            lost = float(first - group_entries[g])
            if not from_list[g]:
                lost = contests[s + 1] - contests[s] - wins[s]
            if wins[s] + lost > 0.0:
                share[s] = wins[s] / (wins[s] + lost)
    return share


@kernel
def medians(nodes: int, item: Array, value: Array, unknown: float) -> Array:
    """The median of the values of every item's entries (the mean of two in the middle); NaN values are left out."""
    offsets = np.zeros(nodes + 1, np.int64)
    for s in range(len(item)):
        if not np.isnan(value[s]):
            offsets[item[s] + 1] += 1
    for i in range(nodes):
        offsets[i + 1] += offsets[i]
    cursor, gathered = offsets[:-1].copy(), np.empty(offsets[nodes])
    for s in range(len(item)):
        if not np.isnan(value[s]):
            gathered[cursor[item[s]]] = value[s]
            cursor[item[s]] += 1
    result = np.full(nodes, unknown)
    for i in range(nodes):
        count = offsets[i + 1] - offsets[i]
        if count > 0:
            own = np.sort(gathered[offsets[i] : offsets[i + 1]])
            result[i] = 0.5 * (own[(count - 1) // 2] + own[count // 2])
    return result


@kernel
def _list_agreement(level: Array, wins: Array, seen: Array) -> tuple[float, float]:
    """Agreed and all pairs of different wins, entries with most wins first; `seen` is an empty Fenwick tree."""
    agreed, total, done, m = 0.0, 0.0, 0, len(level)
    end = m
    while end > 0:  # from the worst entries to the best ones
        begin = end - 1
        while begin > 0 and wins[begin - 1] == wins[end - 1]:
            begin -= 1
        for s in range(begin, end):
            not_above, above = 0, 0  # of the entries with fewer wins: levels up to this one, levels below this one
            i = level[s] + 1
            while i > 0:
                not_above += seen[i]
                i -= i & -i
            i = level[s]
            while i > 0:
                above += seen[i]
                i -= i & -i
            agreed += done - not_above + 0.5 * (not_above - above)
            total += done
        for s in range(begin, end):
            i = level[s] + 1
            while i < len(seen):
                seen[i] += 1
                i += i & -i
        done += end - begin
        end = begin
    for s in range(m):
        i = level[s] + 1
        while i < len(seen):
            seen[i] = 0
            i += i & -i
    return agreed, total


@kernel
def agreement(
    unit_nodes: Array,
    unit_groups: Array,
    group_entries: Array,
    from_list: Array,  # groups that came as lists; the others have contests
    item: Array,
    wins: Array,
    offsets: Array,
    other: Array,
    won: Array,
    level: Array,
    counts: Array,
) -> None:
    """Fill in, by group, the contests that agree with the order (equal scores: half of them) and all of them."""
    for u in range(len(unit_nodes) - 1):
        seen = np.zeros(unit_nodes[u + 1] - unit_nodes[u] + 1, np.int64)
        for g in range(unit_groups[u], unit_groups[u + 1]):
            begin, end = group_entries[g], group_entries[g + 1]
            if from_list[g]:
                levels = np.empty(end - begin, np.int64)
                for s in range(begin, end):
                    levels[s - begin] = level[item[s]]
                counts[g, 0], counts[g, 1] = _list_agreement(levels, wins[begin:end], seen)
                continue
            agreed, total = 0.0, 0.0
            for s in range(begin, end):
                for c in range(offsets[s], offsets[s + 1]):
                    if won[c]:
                        mine, theirs = level[item[s]], level[item[other[c]]]
                        agreed += 1.0 if mine < theirs else (0.5 if mine == theirs else 0.0)
                        total += 1.0
            counts[g, 0], counts[g, 1] = agreed, total
