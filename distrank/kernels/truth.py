"""The posterior of the true ranking of every unit of a shard: what the E-step of [Wu16] computes.

Lists are `item` and `level` (see `lists`), with `list_rows` and `unit_lists` as offsets and `owner` the annotator of
every list. Rankings are permutations of the nodes of every unit, one after the other: `chain` is the state of the
sampler, `best` the most probable ranking, and the rows of `kept` are states in equal distances.

Sums come back as (ln of the joint probability, exact units, accepted steps, steps, effective samples, chains): the
logarithm is summed over all rankings for units that are short enough, and is that of the best ranking for the others.
"""

from __future__ import annotations

import numpy as np

from distrank.kernels import kernel, metropolis, subsets, top_chain
from distrank.kernels.lists import CERTAIN, add_gold, add_list, list_distance
from distrank.kernels.plackett_luce import log_likelihood
from distrank.records import Array


@kernel
def pair_weights(
    unit: int,
    nodes: Array,
    unit_lists: Array,
    list_rows: Array,
    owner: Array,
    item: Array,
    level: Array,
    theta: Array,
    grade: Array,
    gold: Array,
    weight: Array,
) -> None:
    """What annotators and gold say about every order of two items of the unit; `gold` holds rows (unit, winner,
    loser) in the order of the units."""
    begin = nodes[unit]
    weight[:] = 0.0
    for number in range(unit_lists[unit], unit_lists[unit + 1]):
        rows = slice(list_rows[number], list_rows[number + 1])
        add_list(weight, item[rows], level[rows], theta[owner[number]])
    add_gold(weight, grade[begin : nodes[unit + 1]])
    for row in range(np.searchsorted(gold[0], unit), len(gold[0])):
        if gold[0][row] != unit:
            break
        weight[gold[2][row] - begin, gold[1][row] - begin] -= CERTAIN


@kernel
def infer(
    nodes: Array,
    unit_lists: Array,
    list_rows: Array,
    owner: Array,
    item: Array,
    level: Array,
    theta: Array,
    grade: Array,
    gold: Array,
    score: Array,
    exact: int,
    steps: int,
    key: Array,
    unit_hash: Array,
    chain: Array,
    best: Array,
    kept: Array,
    distance: Array,
) -> Array:
    """Rankings of all items. Lists of up to `exact` items are summed over, longer ones are sampled; `distance` gains
    the expected distances of every annotator."""
    sums = np.zeros(6)
    choice = np.zeros((1, 1))
    for unit in range(len(nodes) - 1):
        begin, end = nodes[unit], nodes[unit + 1]
        n = end - begin
        weight, before, here = np.zeros((n, n)), np.zeros((n, n)), score[begin:end]
        pair_weights(unit, nodes, unit_lists, list_rows, owner, item, level, theta, grade, gold, weight)
        order = best[begin:end] - begin
        if n <= exact:
            if choice.shape[1] != n or choice.shape[0] != 1 << n:  # lists of one length share the room
                choice = np.zeros((1 << n, n))
            sums[0] += subsets.posterior(weight, here, choice, order)
            subsets.pair_probabilities(choice, n, before)
            sums[1] += 1.0
        else:
            state, states = chain[begin:end] - begin, kept[:, begin:end] - begin
            peak, accepted, effective = metropolis.walk(
                weight, here, state, order, steps, key, unit_hash[unit], before, states
            )
            chain[begin:end] = state + begin
            kept[:, begin:end] = states + begin
            sums[0] += peak
            sums[2] += accepted
            sums[3] += steps
            sums[4] += effective
            sums[5] += 1.0
        best[begin:end] = order + begin
        for number in range(unit_lists[unit], unit_lists[unit + 1]):
            rows = slice(list_rows[number], list_rows[number + 1])
            distance[owner[number]] += list_distance(before, item[rows], level[rows])
    return sums


@kernel
def _completed(chosen: Array, order: Array, begin: int) -> None:
    """The chosen items first, then all others in their own order."""
    taken = np.zeros(len(order), np.bool_)
    for i in range(len(chosen)):
        taken[chosen[i]] = True
        order[i] = chosen[i] + begin
    place = len(chosen)
    for i in range(len(order)):
        if not taken[i]:
            order[place] = i + begin
            place += 1


@kernel
def infer_top(
    nodes: Array,
    unit_lists: Array,
    list_rows: Array,
    owner: Array,
    item: Array,
    theta: Array,
    grade: Array,
    higher: Array,
    score: Array,
    top_k: int,
    steps: int,
    key: Array,
    unit_hash: Array,
    chain: Array,
    best: Array,
    kept: Array,
    distance: Array,
) -> Array:
    """Rankings of the first `top_k` items, always sampled; `higher` counts the better graded items of every node."""
    sums = np.zeros(6)
    for unit in range(len(nodes) - 1):
        begin, end = nodes[unit], nodes[unit + 1]
        k = min(top_k, end - begin)
        first, last = unit_lists[unit], unit_lists[unit + 1]
        place = np.full((last - first, end - begin), -1, np.int64)
        length, of_list = np.zeros(last - first, np.int64), np.zeros(last - first)
        named = np.zeros(end - begin, np.bool_)
        for number in range(first, last):
            start = list_rows[number]
            length[number - first] = list_rows[number + 1] - start
            of_list[number - first] = theta[owner[number]]
            for i in range(length[number - first]):
                place[number - first, item[start + i]] = i
                named[item[start + i]] = True
        chosen, top = chain[begin : begin + k] - begin, best[begin : begin + k] - begin
        states, expected = np.empty((len(kept), k), np.int64), np.zeros(last - first)
        peak, accepted, effective = top_chain.walk_top(
            score[begin:end],
            grade[begin:end],
            higher[begin:end],
            place,
            length,
            of_list,
            np.flatnonzero(named),
            chosen,
            top,
            steps,
            key,
            unit_hash[unit],
            expected,
            states,
        )
        _completed(chosen, chain[begin:end], begin)
        _completed(top, best[begin:end], begin)
        for row in range(len(kept)):
            _completed(states[row], kept[row, begin:end], begin)
        for number in range(first, last):
            distance[owner[number]] += expected[number - first]
        sums += np.array([peak, 0.0, accepted, steps, effective, 1.0])
    return sums


@kernel
def expected_likelihood(
    nodes: Array,
    unit_lists: Array,
    list_rows: Array,
    owner: Array,
    item: Array,
    level: Array,
    theta: Array,
    grade: Array,
    gold: Array,
    old_score: Array,
    exact: int,
    stages: Array,
    kept: Array,
    score: Array,
    residual: Array,
) -> float:
    """The expectation (19) of the Plackett-Luce likelihood of `score` under the posterior at `old_score`, theta.

    Short lists are summed over anew; for the others the kept states stand for the posterior.
    """
    value = 0.0
    for unit in range(len(nodes) - 1):
        begin, end = nodes[unit], nodes[unit + 1]
        n = end - begin
        if n <= exact:
            weight, choice = np.zeros((n, n)), np.zeros((1 << n, n))
            pair_weights(unit, nodes, unit_lists, list_rows, owner, item, level, theta, grade, gold, weight)
            subsets.posterior(weight, old_score[begin:end], choice, np.zeros(n, np.int64))
            reached = subsets.occupancy(choice, n)
            value += subsets.expected_likelihood(reached, score[begin:end], residual[begin:end])
        else:
            share = 1.0 / len(kept)
            for row in range(len(kept)):
                order = kept[row, begin:end]
                value += share * log_likelihood(order, stages[unit], score, residual, share)
    return value
