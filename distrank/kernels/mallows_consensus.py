"""Mallows' law of lists around a consensus: how spread out an annotator is, and the consensus of least cost.

    phi     dispersion of an annotator: P(list) proportional to e^(-phi d)      d   pairs that are the other way round
    [l]     1 + q + ... + q^(l-1), q = e^(-phi)

The lists of m items have the normaliser [1] [2] ... [m]; where items of a list are tied, it is divided by that of every
block of tied items (the Gaussian multinomial coefficient). So an annotator's normaliser is a product of powers of [l],
and the derivative of -log [l] in phi is the mean distance that l adds, (1/(e^phi - 1)) - l/(e^(l phi) - 1).

The cost of a consensus is the sum over the pairs of items of what was said against its order, weighted by phi. It is
least on a set by dynamic programming over subsets, for few items. For many, a Gibbs sampler of growing coldness: items
have keys in (0, 1), whose order is the consensus; given the others, the key of an item has a density that is constant
between the keys of its neighbours, so a draw costs the item's neighbours and not all items.
"""

from __future__ import annotations

import numpy as np

from distrank.kernels import kernel
from distrank.kernels.random import uniform
from distrank.records import Array

WIDEST = 12.0  # of |phi|: one report in 160,000 is the other way round
_SMALL = 1e-5  # of phi, where series take over
_COLDEST = 30.0  # last inverse temperature of a sampler
_BETTER = 1e-9  # a cost that is lower by less is not lower


@kernel
def log_bracket(phi: float, length: int) -> float:
    """log [l]."""
    if abs(phi) * length < _SMALL:
        return np.log(float(length)) - 0.5 * (length - 1.0) * phi
    if phi < 0.0:
        return log_bracket(-phi, length) - (length - 1.0) * phi
    return np.log1p(-np.exp(-length * phi)) - np.log1p(-np.exp(-phi))


@kernel
def mean_distance(phi: float, length: int) -> float:
    """The derivative of -log [l] in phi; falls with phi."""
    if phi < 0.0:
        return (length - 1.0) - mean_distance(-phi, length)
    if phi * length < _SMALL:
        return 0.5 * (length - 1.0) - phi * (length * length - 1.0) / 12.0
    tail = 0.0 if length * phi > 700.0 else length / np.expm1(length * phi)
    return 1.0 / np.expm1(phi) - tail


@kernel
def dispersions(offsets: Array, length: Array, power: Array, distance: Array, phi: Array) -> float:
    """Fill in every annotator's phi, at which the mean distance is the observed one, and return the log-likelihood.

    The powers of [l] of annotator k are power[offsets[k] : offsets[k + 1]].
    """
    total = 0.0
    for k in range(len(phi)):
        low, high = -WIDEST, WIDEST
        for _ in range(80):
            middle = 0.5 * (low + high)
            mean = 0.0
            for e in range(offsets[k], offsets[k + 1]):
                mean += power[e] * mean_distance(middle, length[e])
            if mean > distance[k]:
                low = middle
            else:
                high = middle
        phi[k] = 0.5 * (low + high)
        total -= phi[k] * distance[k]
        for e in range(offsets[k], offsets[k + 1]):
            total -= power[e] * log_bracket(phi[k], length[e])
    return total


@kernel
def cost_of(first: int, last: int, offsets: Array, other: Array, lead: Array, place: Array) -> float:
    """What an order costs beyond the least that any could: the leads of later items over earlier ones."""
    total = 0.0
    for i in range(first, last):
        for e in range(offsets[i], offsets[i + 1]):
            if lead[e] > 0.0 and place[other[e]] < place[i]:
                total += lead[e]
    return total


@kernel
def exact_order(first: int, last: int, offsets: Array, other: Array, lead: Array, place: Array) -> None:
    """The order of least cost, by dynamic programming over the sets that come first."""
    n = last - first
    against = np.zeros((n, n))  # against[x, y]: cost of x before y
    for i in range(first, last):
        for e in range(offsets[i], offsets[i + 1]):
            if lead[e] > 0.0:
                against[other[e] - first, i - first] = lead[e]
    least, choice = np.full(1 << n, np.inf), np.zeros(1 << n, np.int8)
    least[0] = 0.0
    for taken in range(1 << n):
        for x in range(n):
            if taken & (1 << x):
                continue
            cost = least[taken]
            for y in range(n):
                if y != x and not taken & (1 << y):
                    cost += against[x, y]
            after = taken | (1 << x)
            if cost < least[after] - _BETTER:
                least[after], choice[after] = cost, x
    taken = (1 << n) - 1
    for at in range(n - 1, -1, -1):
        x = int(choice[taken])
        place[first + x] = at
        taken ^= 1 << x


@kernel
def _draw(
    i: int, offsets: Array, other: Array, lead: Array, spot: Array, cold: float, chance: float, share: float
) -> float:
    """A new key of item i given all others (cold < 0: the middle of the cheapest gap, or where it is)."""
    begin, count = offsets[i], offsets[i + 1] - offsets[i]
    if count == 0:
        return share
    keys = np.empty(count)
    for e in range(count):
        keys[e] = spot[other[begin + e]]
    order = np.argsort(keys, kind="mergesort")
    cost, cheapest, least, here = np.empty(count + 1), 0, 0.0, 0
    cost[0] = 0.0
    for g in range(count):
        cost[g + 1] = cost[g] + lead[begin + order[g]]  # behind a neighbour that it leads over
        if keys[order[g]] < spot[i]:
            here = g + 1
        if cost[g + 1] < least:
            cheapest, least = g + 1, cost[g + 1]
    chosen = cheapest
    if cold < 0.0:
        if cost[here] <= least + _BETTER:
            return spot[i]
        share = 0.5
    else:
        weight, total = np.empty(count + 1), 0.0
        for g in range(count + 1):
            low = 0.0 if g == 0 else keys[order[g - 1]]
            high = 1.0 if g == count else keys[order[g]]
            weight[g] = (high - low) * np.exp(-cold * (cost[g] - least))
            total += weight[g]
        goal, chosen = chance * total, 0
        while chosen < count and goal >= weight[chosen]:
            goal -= weight[chosen]
            chosen += 1
    low = 0.0 if chosen == 0 else keys[order[chosen - 1]]
    high = 1.0 if chosen == count else keys[order[chosen]]
    return low + share * (high - low)


@kernel
def _spread(first: int, last: int, spot: Array, place: Array) -> None:
    """Places from keys, and keys evenly apart in the same order."""
    order = np.argsort(spot[first:last], kind="mergesort")
    for at in range(last - first):
        place[first + order[at]] = at
        spot[first + order[at]] = (at + 0.5) / (last - first)


@kernel
def sampled_order(
    first: int,
    last: int,
    offsets: Array,
    other: Array,
    lead: Array,
    sweeps: int,
    key: Array,
    unit: np.uint64,
    place: Array,
    spot: Array,
) -> None:
    """An order of low cost: sweeps of growing coldness from the places at hand, then downhill as far as it goes."""
    n = last - first
    for i in range(first, last):
        spot[i] = (place[i] + 0.5) / n
    draw = np.uint64(0)
    for sweep in range(sweeps):
        cold = _COLDEST ** (sweep / max(sweeps - 1, 1))
        for i in range(first, last):
            chance = uniform(key[0], key[1], unit, draw)
            share = uniform(key[0], key[1], unit, draw + np.uint64(1))
            draw += np.uint64(2)
            spot[i] = _draw(i, offsets, other, lead, spot, cold, chance, share)
        _spread(first, last, spot, place)
    cost = cost_of(first, last, offsets, other, lead, place)
    while True:
        for i in range(first, last):
            spot[i] = _draw(i, offsets, other, lead, spot, -1.0, 0.0, 0.5)
        _spread(first, last, spot, place)
        found = cost_of(first, last, offsets, other, lead, place)
        if found >= cost - _BETTER:
            break
        cost = found


@kernel
def improve(
    unit_nodes: Array,
    unit_hash: Array,
    offsets: Array,
    other: Array,
    lead: Array,
    exact: int,
    sweeps: int,
    key: Array,
    place: Array,
) -> int:
    """A better consensus of every unit, or the same; returns how many became better."""
    better = 0
    spot = np.empty(len(place))
    for u in range(len(unit_nodes) - 1):
        first, last = unit_nodes[u], unit_nodes[u + 1]
        before, old = cost_of(first, last, offsets, other, lead, place), place[first:last].copy()
        if before <= 0.0:
            continue
        if last - first <= exact:
            exact_order(first, last, offsets, other, lead, place)
        else:
            sampled_order(first, last, offsets, other, lead, sweeps, key, unit_hash[u], place, spot)
        if cost_of(first, last, offsets, other, lead, place) < before - _BETTER:
            better += 1
        else:
            place[first:last] = old
    return better
