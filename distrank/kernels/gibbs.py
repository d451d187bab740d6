"""One sweep of the Gibbs sampler for TPP: domains, noisy differences, perceived scores.  [Wang16], section IV.B

    V    difference of the noisy scores of winner and loser, > 0, by preference                        Delta s^pi, (1)
    p    perceived score, by *slot*: an item that an annotator compared in a query                     s_li^(k)
    m    domain, by unit

A run is what one annotator judged in one unit; its slots are the items in it. `first`, `second` are the slots of the
winner and the loser of a preference, and `edge` lists the preferences of every slot.

A weight w raises the density of a row's noisy difference to the power w. Draws are counter-based: the key is that of
the round, the counter is (hash of the unit's id; annotator and number of the draw): a unit draws the same in any shard.

[Wang16] Wang, Wang, Jie, Zhai, Chang: Blind men and the elephant: Thurstonian pairwise preference for ranking in
         crowdsourcing. ICDM 2016.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel
from distrank.kernels.normal import ROOT_HALF
from distrank.kernels.normal_table import log_cdf_and_slope, log_cdf_of, quantile
from distrank.kernels.random import threefry

Floats = NDArray[np.float64]
Codes = NDArray[np.uint32]
Offsets = NDArray[np.int64]
Words = NDArray[np.uint64]

_TO_UNIT = 1.0 / 9007199254740992.0  # 2**-53
_DROP = np.uint64(11)
_ANNOTATOR = np.uint64(32)  # bits of a counter that number the draws of one annotator
_SLOTS = np.uint64(1 << 31)  # where the numbers of slots begin
_FAR = -30.0  # below, the tail of the normal law is exponential to 1e-3 of itself


@kernel
def _inside(word: np.uint64) -> float:
    """A number in (0, 1), never 0 or 1."""
    return (np.float64(word >> _DROP) + 0.5) * _TO_UNIT


@kernel
def truncated(u: float, y: float, table: Floats) -> float:
    """A draw of N(y, 1) given that it is positive, from a uniform number."""
    if y < _FAR:
        return -math.log(u) / -y
    return max(y - quantile(u * math.exp(log_cdf_of(table, y))), 0.0)


@kernel
def slots_of(run: Offsets, winner: Codes, loser: Codes, nodes: int) -> tuple[Offsets, Codes, Codes, Codes]:
    """Offsets of the slots of every run, their nodes, and the slots of every preference's winner and loser."""
    starts = np.zeros(len(run), np.int64)
    first, second = np.empty(len(winner), np.uint32), np.empty(len(winner), np.uint32)
    node = np.empty(2 * len(winner), np.uint32)
    seen, slot = np.full(nodes, -1, np.int64), np.zeros(nodes, np.uint32)
    count = 0
    for k in range(len(run) - 1):
        for r in range(run[k], run[k + 1]):
            for side in range(2):
                i = winner[r] if side == 0 else loser[r]
                if seen[i] != k:
                    seen[i], slot[i], node[count] = k, count, i
                    count += 1
            first[r], second[r] = slot[winner[r]], slot[loser[r]]
        starts[k + 1] = count
    return starts, node[:count].copy(), first, second


@kernel
def edges_of(first: Codes, second: Codes, slots: int) -> tuple[Offsets, Codes]:
    """Offsets into, and numbers of, the preferences of every slot."""
    starts = np.zeros(slots + 1, np.int64)
    for r in range(len(first)):
        starts[first[r] + 1] += 1
        starts[second[r] + 1] += 1
    for i in range(slots):
        starts[i + 1] += starts[i]
    fill, edge = starts[:-1].copy(), np.empty(2 * len(first), np.uint32)
    for r in range(len(first)):
        for i in (first[r], second[r]):
            edge[fill[i]] = r
            fill[i] += 1
    return starts, edge


@kernel
def domain_weights(
    unit: Offsets,
    run: Offsets,
    owner: Codes,
    weight: Floats | None,
    first: Codes,
    second: Codes,
    tau: Floats,
    perceived: Floats,
    difference: Floats,
    collapsed: bool,
    table: Floats,
    total: Floats,
) -> None:
    """log P(noisy differences | domain, perceived scores) of every unit, equation 8; if collapsed, log P(preferences |
    domain, perceived scores), equation 6, without the differences."""
    domains = tau.shape[1]
    for l in range(len(unit) - 1):  # noqa: E741
        for k in range(unit[l], unit[l + 1]):
            if collapsed:
                for m in range(domains):
                    gain, value = ROOT_HALF * tau[owner[k], m], 0.0
                    for r in range(run[k], run[k + 1]):
                        part = log_cdf_of(table, gain * (perceived[first[r]] - perceived[second[r]]))
                        value += part if weight is None else weight[r] * part
                    total[l, m] += value
                continue
            rows, honest, turned = 0.0, 0.0, 0.0
            for r in range(run[k], run[k + 1]):
                d, counted = perceived[first[r]] - perceived[second[r]], 1.0 if weight is None else weight[r]
                rows += counted
                honest += counted * (difference[r] - d) ** 2
                turned += counted * (difference[r] + d) ** 2
            for m in range(domains):
                x = tau[owner[k], m]
                total[l, m] += rows * math.log(abs(x)) - 0.25 * x * x * (honest if x > 0.0 else turned)


@kernel
def draw_domains(hashes: Words, key: Words, weights: Floats, log_share: Floats, domain: Offsets) -> None:
    """A domain for every unit, from the logarithms of its weights."""
    domains = weights.shape[1]
    for l in range(len(hashes)):  # noqa: E741
        top = -math.inf
        for m in range(domains):
            top = max(top, weights[l, m] + log_share[m])
        total = 0.0
        for m in range(domains):
            total += math.exp(weights[l, m] + log_share[m] - top)
        left = _inside(threefry(key[0], key[1], hashes[l], np.uint64(0))[0]) * total
        domain[l] = domains - 1
        for m in range(domains):
            left -= math.exp(weights[l, m] + log_share[m] - top)
            if left < 0.0:
                domain[l] = m
                break


@kernel
def draw_differences(
    hashes: Words,
    code: Offsets,
    key: Words,
    unit: Offsets,
    run: Offsets,
    owner: Codes,
    weight: Floats | None,
    first: Codes,
    second: Codes,
    tau: Floats,
    domain: Offsets,
    perceived: Floats,
    table: Floats,
    difference: Floats,
) -> None:
    """V of every preference, equation 13: two from every pair of random words."""
    for l in range(len(unit) - 1):  # noqa: E741
        for k in range(unit[l], unit[l + 1]):
            x = tau[owner[k], domain[l]]
            size = 1.0 / (ROOT_HALF * abs(x))
            base = np.uint64(code[owner[k]] + 1) << _ANNOTATOR
            u, v = np.uint64(0), np.uint64(0)
            for r in range(run[k], run[k + 1]):
                n = r - run[k]
                if n % 2 == 0:
                    u, v = threefry(key[0], key[1], hashes[l], base + np.uint64(n // 2))
                root = 1.0 if weight is None else math.sqrt(weight[r])
                y = root * ROOT_HALF * x * (perceived[first[r]] - perceived[second[r]])
                difference[r] = size / root * truncated(_inside(u if n % 2 == 0 else v), y, table)


@kernel
def draw_perceived(
    hashes: Words,
    code: Offsets,
    key: Words,
    unit: Offsets,
    owner: Codes,
    weight: Floats | None,
    slot: Offsets,
    node: Codes,
    first: Codes,
    second: Codes,
    edges: Offsets,
    edge: Codes,
    tau: Floats,
    domain: Offsets,
    score: Floats,
    hardness: Floats,
    difference: Floats,
    perceived: Floats,
) -> None:
    """p of every slot, equations 10 and 11, one after the other: the slots of a run depend on each other.

    Equation 11 prints the perceived score in its own first term; the true score belongs there.
    """
    for l in range(len(unit) - 1):  # noqa: E741
        easy = math.exp(-hardness[l])
        for k in range(unit[l], unit[l + 1]):
            x = tau[owner[k], domain[l]]
            trust, sign = 0.5 * x * x, 1.0 if x > 0.0 else -1.0
            base = (np.uint64(code[owner[k]] + 1) << _ANNOTATOR) + _SLOTS
            u, v = np.uint64(0), np.uint64(0)
            for i in range(slot[k], slot[k + 1]):
                total, count = 0.0, 0.0
                for e in range(edges[i], edges[i + 1]):
                    r = edge[e]
                    wins = first[r] == i
                    other = (
                        perceived[second[r]] + sign * difference[r]
                        if wins
                        else perceived[first[r]] - sign * difference[r]
                    )
                    counted = 1.0 if weight is None else weight[r]
                    total += counted * other
                    count += counted
                precision = easy + trust * count
                n = i - slot[k]
                if n % 2 == 0:
                    u, v = threefry(key[0], key[1], hashes[l], base + np.uint64(n // 2))
                deviate = quantile(_inside(u if n % 2 == 0 else v))
                perceived[i] = (easy * score[node[i]] + trust * total) / precision + deviate / math.sqrt(precision)


@kernel
def collect(
    unit: Offsets,
    run: Offsets,
    owner: Codes,
    weight: Floats | None,
    slot: Offsets,
    node: Codes,
    first: Codes,
    second: Codes,
    tau: Floats,
    domain: Offsets,
    score: Floats,
    hardness: Floats,
    perceived: Floats,
    table: Floats,
    sums: Floats,
    squares: Floats,
    slope: Floats,
    curvature: Floats,
) -> float:
    """What the M-step needs of a sample: sums of p, of squared distances from s (18, 19), derivatives in tau (21, 22).

    Returns log P(preferences, p | everything else), equation 6 without the domains.
    """
    value = 0.0
    for l in range(len(unit) - 1):  # noqa: E741
        easy = math.exp(-hardness[l])
        for k in range(unit[l], unit[l + 1]):
            m = domain[l]
            gain = ROOT_HALF * tau[owner[k], m]
            for r in range(run[k], run[k + 1]):
                d = perceived[first[r]] - perceived[second[r]]
                part, hazard = log_cdf_and_slope(table, gain * d)
                counted = 1.0 if weight is None else weight[r]
                value += counted * part
                slope[owner[k], m] += counted * ROOT_HALF * d * hazard  # (21)
                curvature[owner[k], m] += counted * 0.5 * d * d * hazard * (hazard + gain * d)  # (22)
            for i in range(slot[k], slot[k + 1]):
                away = perceived[i] - score[node[i]]
                sums[node[i]] += perceived[i]
                squares[node[i]] += away * away
                value -= 0.5 * (away * away * easy + hardness[l])
    return value
