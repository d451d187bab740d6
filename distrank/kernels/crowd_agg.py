"""Expected measures of CrowdAgg, and how well annotators agree with an order.  [Niu15]

A *group* is what one annotator said in one unit: entries (items with the number of contests that they won, best first)
and, unless it is a list in which every pair of different wins is a contest, the contests of every entry.

    n        items of the unit                  eta     quality of the group's annotator
    N_s      contests that item s won (7)       lose    P(s loses a contest) = 1 - (9)

    difference   lose to t = 1/2 - (2 eta - 1) (N_s - N_t) / (2 n)        the reading of (6)
    step         lose to t = 1 - eta if N_s > N_t, eta if N_s < N_t; as the contest was judged where the wins are equal

The measure's discount of a rank r = 0, 1, ... is 1 / log2(2 + r) for NDCG and p^r for RBP. The mean of p^r over
independent contests is a product, so RBP needs no distribution at all.

[Niu15] Niu, Lan, Guo, Cheng, Yu, Long: Listwise approach for rank aggregation in crowdsourcing. WSDM 2015.
"""

from __future__ import annotations

import numpy as np

from distrank.kernels import kernel
from distrank.kernels.hashing import mix
from distrank.kernels.rank_distribution import expected_value, fair_means
from distrank.records import Array

NDCG, RBP = 0, 1
DIFFERENCE, STEP = 0, 1
ROUND = 1e12  # scores that differ by a smaller share are equal: the same sum in another order


@kernel
def _lose(eta: float, mine: float, other: float, step: bool, items: int) -> float:
    """P(the entry with `mine` wins loses a contest with the one that has `other` wins)."""
    if step:
        return 1.0 - eta if mine > other else eta
    return 0.5 - (2.0 * eta - 1.0) * (mine - other) / (2.0 * items)  # (6) and (9)


@kernel
def _value_rows(needed: Array, items: int) -> tuple[Array, Array]:
    """The mean discount by losses in d judged contests, for every d that is needed: rows of d + 1, and their starts."""
    most = len(needed) - 1
    discount = np.empty(items)
    for r in range(items):
        discount[r] = 1.0 / np.log2(2.0 + r)
    starts = np.zeros(most + 1, np.int64)
    size = 0
    for d in range(most + 1):
        starts[d] = size
        if needed[d]:
            size += d + 1
    rows = np.empty(size)
    row = fair_means(discount, items - 1 - most, most + 1)
    for d in range(most, -1, -1):
        if needed[d]:
            rows[starts[d] : starts[d] + d + 1] = row[: d + 1]
        for t in range(d):  # one judged contest fewer is one fair coin more
            row[t] = 0.5 * (row[t] + row[t + 1])
    return rows, starts


@kernel
def _strict_list(wins: Array, eta: float, step: bool, items: int, value: Array, result: Array) -> None:
    """NDCG of a list without ties. The contests with better items only depend on how many there are, and those with
    worse ones too, so that all entries share them: m^2 in place of m^3."""
    m = len(wins)
    below = np.empty((m, m))  # below[k, t]: mean value of t losses and k contests with worse items
    below[0] = value[:m]
    for k in range(1, m):
        p = _lose(eta, float(k), 0.0, step, items)
        for t in range(m - k):
            below[k, t] = below[k - 1, t] + p * (below[k - 1, t + 1] - below[k - 1, t])
    above = np.zeros(m)  # the distribution of losses to better items
    above[0] = 1.0
    for a in range(m):
        if a > 0:
            p = _lose(eta, 0.0, float(a), step, items)
            for r in range(a, 0, -1):
                above[r] = above[r] * (1.0 - p) + above[r - 1] * p
            above[0] *= 1.0 - p
        total = 0.0
        for r in range(a + 1):
            total += above[r] * below[m - 1 - a, r]
        result[a] = total


@kernel
def _tied_list(
    wins: Array, eta: float, step: bool, items: int, rows: Array, starts: Array, lose: Array, room: Array, result: Array
) -> None:
    """NDCG of a list with ties: entries of equal wins have one distribution."""
    m, begin = len(wins), 0
    while begin < m:
        end = begin + 1
        while end < m and wins[end] == wins[begin]:
            end += 1
        d = 0
        for other in range(m):
            if other < begin or other >= end:
                lose[d] = _lose(eta, wins[begin], wins[other], step, items)
                d += 1
        result[begin:end] = expected_value(lose[:d], rows[starts[d] : starts[d] + d + 1], room)
        begin = end


@kernel
def _persistent_list(wins: Array, eta: float, step: bool, items: int, p: float, result: Array) -> None:
    """RBP of a list: a product over contests."""
    m, begin = len(wins), 0
    while begin < m:
        end = begin + 1
        while end < m and wins[end] == wins[begin]:
            end += 1
        mean = (0.5 + 0.5 * p) ** (items - 1 - (m - (end - begin)))
        for other in range(m):
            if other < begin or other >= end:
                mean *= 1.0 - (1.0 - p) * _lose(eta, wins[begin], wins[other], step, items)
        result[begin:end] = mean
        begin = end


@kernel
def _contests(
    first: int,
    wins: Array,
    offsets: Array,
    other: Array,
    won: Array,
    eta: float,
    step: bool,
    items: int,
    rows: Array,
    starts: Array,
    p: float,
    lose: Array,
    room: Array,
    result: Array,
) -> None:
    """Any measure (p < 0: NDCG) of the entries of a group whose contests are listed."""
    for s in range(len(result)):
        d = 0
        for c in range(offsets[first + s], offsets[first + s + 1]):
            if step and wins[first + s] == wins[other[c]]:
                lose[d] = 1.0 - eta if won[c] else eta  # as judged
            else:
                lose[d] = _lose(eta, wins[first + s], wins[other[c]], step, items)
            d += 1
        if p < 0.0:
            result[s] = expected_value(lose[:d], rows[starts[d] : starts[d] + d + 1], room)
        else:
            mean = (0.5 + 0.5 * p) ** (items - 1 - d)
            for c in range(d):
                mean *= 1.0 - (1.0 - p) * lose[c]
            result[s] = mean


@kernel
def _needed_rows(group_entries: Array, is_list: Array, wins: Array, offsets: Array, first: int, last: int) -> Array:
    """Which numbers of judged contests an entry of the unit has; 0 always, for items that nobody judged."""
    most = 0
    for g in range(first, last):
        most = max(most, group_entries[g + 1] - group_entries[g] - 1)
        if not is_list[g]:
            for s in range(group_entries[g], group_entries[g + 1]):
                most = max(most, offsets[s + 1] - offsets[s])
    needed = np.zeros(most + 1, np.bool_)
    needed[0] = True
    for g in range(first, last):
        begin, end = group_entries[g], group_entries[g + 1]
        if not is_list[g]:
            for s in range(begin, end):
                needed[offsets[s + 1] - offsets[s]] = True
            continue
        s = begin
        while s < end:
            tied = s
            while tied < end and wins[tied] == wins[s]:
                tied += 1
            needed[end - begin - (tied - s)] = True
            s = tied
    return needed


@kernel
def add_expected(
    unit_nodes: Array,
    unit_groups: Array,
    group_entries: Array,
    is_list: Array,
    item: Array,
    wins: Array,
    offsets: Array,
    other: Array,
    won: Array,
    eta: Array,  # by group
    measure: int,
    persistence: float,
    step: bool,
    gain: Array,
    base: Array,
) -> None:
    """Add to `gain`, by item, how far the annotators' expected discounts are above that of an item nobody judged, which
    goes to `base`, by unit."""
    for u in range(len(unit_nodes) - 1):
        items = unit_nodes[u + 1] - unit_nodes[u]
        first, last = unit_groups[u], unit_groups[u + 1]
        needed = _needed_rows(group_entries, is_list, wins, offsets, first, last)
        most = len(needed)
        p = -1.0
        rows, starts = np.empty(0), np.empty(0, np.int64)
        if measure == RBP:
            p = persistence
            base[u] = (0.5 + 0.5 * p) ** (items - 1)
        else:
            rows, starts = _value_rows(needed, items)
            base[u] = rows[starts[0]]
        lose, room = np.empty(most), np.empty(most + 1)
        for g in range(first, last):
            begin, end = group_entries[g], group_entries[g + 1]
            m = end - begin
            result = np.empty(m)
            if not is_list[g]:
                _contests(begin, wins, offsets, other, won, eta[g], step, items, rows, starts, p, lose, room, result)
            elif measure == RBP:
                _persistent_list(wins[begin:end], eta[g], step, items, p, result)
            else:
                strict = True
                for s in range(begin + 1, end):
                    strict = strict and wins[s] != wins[s - 1]
                if strict and m > 0:
                    value = rows[starts[m - 1] : starts[m - 1] + m]
                    _strict_list(wins[begin:end], eta[g], step, items, value, result)
                else:
                    _tied_list(wins[begin:end], eta[g], step, items, rows, starts, lose, room, result)
            for s in range(m):
                gain[item[begin + s]] += result[s] - base[u]


@kernel
def place(unit_nodes: Array, score: Array, base: Array, level: Array, position: Array) -> Array:
    """Sort every unit's items by falling score, equal ones by id: optimal, by the rearrangement inequality.

    `base` is the score of an unjudged item: scores below it are compared as they are, those above it by their ratio
    (the discounts of RBP range over many orders of magnitude). `position` gets every item's place, `level` the number
    of distinct higher scores. Returns a hash of the permutations: a sum over units, so that it adds up over shards.
    """
    total = np.zeros(1, np.uint64)
    for u in range(len(unit_nodes) - 1):
        begin, end = unit_nodes[u], unit_nodes[u + 1]
        unit = base[u] if base[u] > 0.0 else 1.0
        key = -np.rint(np.arcsinh(score[begin:end] / unit) * ROUND)
        order = np.argsort(key, kind="mergesort")
        word, current = np.uint64(end - begin), -1
        for r in range(end - begin):
            if r == 0 or key[order[r]] != key[order[r - 1]]:
                current += 1
            level[begin + order[r]] = current
            position[begin + order[r]] = r
            word = mix(word ^ np.uint64(order[r]))
        total[0] += word
    return total


@kernel
def measured(unit_nodes: Array, position: Array, score: Array, measure: int, persistence: float) -> float:
    """The objective (14) with mean in place of sum over annotators: the expected measure of every unit, added up."""
    total = 0.0
    for u in range(len(unit_nodes) - 1):
        n = unit_nodes[u + 1] - unit_nodes[u]
        found, best = 0.0, 0.0
        for j in range(unit_nodes[u], unit_nodes[u + 1]):
            grade = (n - position[j]) / n  # kappa
            if measure == NDCG:
                found += (2.0**grade - 1.0) * score[j]
                best += (2.0**grade - 1.0) / np.log2(2.0 + position[j])
            else:
                found += (1.0 - persistence) * grade * score[j]
                best = 1.0
        total += found / best
    return total
