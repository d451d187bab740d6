"""Plackett-Luce by minorisation and maximisation.  [Hunter04], with the prior of [Caron12]

    w_i      strength of item i, e^score
    stage    an item is chosen out of a set: itself and the items of the list that come after it

The objective is sum over stages of log(w_chosen / sum of w over the set) + alpha sum_i (log w_i - w_i). An iteration

    w_i <- (stages that i won + alpha) / (sum over the stages with i in the set of 1 / (sum of w over the set) + alpha)

never lowers it. A list of m items costs m: sums over the sets, from its end, and over the stages, from its beginning.

[Hunter04] Hunter: MM algorithms for generalized Bradley-Terry models. Annals of Statistics 32, 2004.
[Caron12] Caron, Doucet: Efficient Bayesian inference for generalized Bradley-Terry models. JCGS 21, 2012.
"""

from __future__ import annotations

import numpy as np

from distrank.kernels import kernel
from distrank.records import Array


@kernel
def _add_list(item: Array, wins: Array, w: Array, rest: float, chosen: Array, load: Array) -> tuple[float, float]:
    """One list, best first; `rest` is the strength of the items that come after the whole list. Returns the
    log-likelihood, and what an item after the whole list is loaded with."""
    m = len(item)
    total = np.empty(m)  # of the set of every stage; 0 where nothing comes after the entry
    below, end = rest, m
    while end > 0:
        begin = end - 1
        while begin > 0 and wins[begin - 1] == wins[end - 1]:
            begin -= 1
        tied = 0.0
        for s in range(begin, end):
            total[s] = w[item[s]] + below if below > 0.0 else 0.0
            tied += w[item[s]]
        below += tied
        end = begin
    found, above, begin = 0.0, 0.0, 0
    while begin < m:
        end, stages = begin, 0.0
        while end < m and wins[end] == wins[begin]:
            load[item[end]] += above
            if total[end] > 0.0:
                found += np.log(w[item[end]] / total[end])
                chosen[item[end]] += 1.0
                load[item[end]] += 1.0 / total[end]
                stages += 1.0 / total[end]
            end += 1
        above += stages
        begin = end
    return found, above


@kernel
def _pass(
    first: int,
    last: int,
    groups: tuple[int, int],
    group_entries: Array,
    item: Array,
    wins: Array,
    rows: tuple[int, int],
    winner: Array,
    loser: Array,
    weight: Array,
    unlisted_below: bool,
    w: Array,
    chosen: Array,
    load: Array,
) -> float:
    """Log-likelihood, stages won and loads of one unit, from lists and from preferences."""
    found, everything, whole = 0.0, 0.0, 0.0
    for i in range(first, last):
        chosen[i] = load[i] = 0.0
        whole += w[i]
    for g in range(groups[0], groups[1]):
        begin, end = group_entries[g], group_entries[g + 1]
        rest = 0.0
        if unlisted_below and end - begin < last - first:
            rest = whole
            for s in range(begin, end):
                rest -= w[item[s]]
            rest = max(rest, 1e-12 * whole)
        likelihood, above = _add_list(item[begin:end], wins[begin:end], w, rest, chosen, load)
        found += likelihood
        if rest > 0.0:  # every stage loads the items that are not in the list
            everything += above
            for s in range(begin, end):
                load[item[s]] -= above
    for i in range(first, last):
        load[i] += everything
    for e in range(rows[0], rows[1]):
        i, j = winner[e], loser[e]
        total = w[i] + w[j]
        found += weight[e] * np.log(w[i] / total)
        chosen[i] += weight[e]
        load[i] += weight[e] / total
        load[j] += weight[e] / total
    return found


@kernel
def climb(
    unit_nodes: Array,
    unit_groups: Array,
    group_entries: Array,
    item: Array,
    wins: Array,
    unit_rows: Array,
    winner: Array,
    loser: Array,
    weight: Array,
    unlisted_below: bool,
    alpha: float,
    tolerance: float,
    most: int,
    w: Array,
    objective: Array,
    done: Array,
) -> None:
    """Up to `most` iterations of every unit that is not done; the objective is that of the strengths handed back.

    A unit is done when no derivative in a score is above the tolerance, relative to the stages that the item won.
    """
    chosen, load = np.empty(len(w)), np.empty(len(w))
    for u in range(len(unit_nodes) - 1):
        if done[u]:
            continue
        first, last = unit_nodes[u], unit_nodes[u + 1]
        groups, rows = (unit_groups[u], unit_groups[u + 1]), (unit_rows[u], unit_rows[u + 1])
        for turn in range(most + 1):
            found = _pass(
                first,
                last,
                groups,
                group_entries,
                item,
                wins,
                rows,
                winner,
                loser,
                weight,
                unlisted_below,
                w,
                chosen,
                load,
            )
            steepest = 0.0
            for i in range(first, last):
                found += alpha * (np.log(w[i]) - w[i])
                slope = chosen[i] + alpha - w[i] * (load[i] + alpha)
                steepest = max(steepest, abs(slope) / (1.0 + chosen[i]))
            objective[u] = found
            done[u] = steepest <= tolerance
            if done[u] or turn == most:
                break
            for i in range(first, last):
                w[i] = (chosen[i] + alpha) / (load[i] + alpha)


@kernel
def scores(w: Array) -> Array:
    """log w, the same bytes on every machine of a kind."""
    result = np.empty(len(w))
    for i in range(len(w)):
        result[i] = np.log(w[i])
    return result
