"""Counting, scattering and numbering of coded rows: what turns columns of codes into shards."""

from __future__ import annotations

import numpy as np

from distrank.kernels import kernel
from distrank.records import Array

_ABSENT = np.int32(-1)


@kernel
def tally(codes: Array, kinds: int) -> Array:
    """How often every code occurs."""
    counts = np.zeros(kinds, np.int64)
    for i in range(len(codes)):
        counts[codes[i]] += 1
    return counts


@kernel
def scatter_positions(codes: Array, destination: Array, starts: Array, positions: Array) -> None:
    """Where every row goes when rows are laid out by the destination of their code, in order within each."""
    cursor = starts.copy()
    for i in range(len(codes)):
        goal = destination[codes[i]]
        positions[i] = cursor[goal]
        cursor[goal] += 1


@kernel
def scatter(values: Array, positions: Array, result: Array) -> None:
    """Put every value at its position."""
    for i in range(len(values)):
        result[positions[i]] = values[i]


@kernel
def append_field(keys: Array, codes: Array, bits: int) -> None:
    """Shift every key to the left and put a code into the bits that became free."""
    shift = keys.dtype.type(bits)
    for i in range(len(keys)):
        keys[i] = (keys[i] << shift) | keys.dtype.type(codes[i])


@kernel
def settle_runs(keys: Array, values: Array) -> None:
    """Sort the columns `values[0], values[1], ...` in place, in that order of precedence, within runs of equal keys."""
    begin = 0
    while begin < len(keys):
        end = begin + 1
        while end < len(keys) and keys[end] == keys[begin]:
            end += 1
        if end - begin > 1:
            for column in range(len(values) - 1, -1, -1):
                order = np.argsort(values[column, begin:end], kind="mergesort")
                for other in range(len(values)):
                    values[other, begin:end] = values[other, begin:end][order]
        begin = end


@kernel
def collect_distinct(codes: Array, scratch: Array, found: Array, count: int) -> int:
    """Append the codes that were not seen before to `found`; scratch is marked where a code was seen."""
    for i in range(len(codes)):
        code = codes[i]
        if scratch[code] == _ABSENT:
            scratch[code] = 0
            if count < len(found):
                found[count] = code
            count += 1
    return count


@kernel
def renumber(codes: Array, scratch: Array, result: Array) -> None:
    """Look up every code in the scratch table."""
    for i in range(len(codes)):
        result[i] = scratch[codes[i]]


@kernel
def number_nodes(unit_rows: Array, first: Array, second: Array, scratch: Array, nodes: Array) -> tuple[Array, int]:
    """Number the distinct codes of every unit, in code order, one unit after the other.

    `first` and `second` (empty if rows name one item only) are overwritten with the numbers, `nodes` with the code of
    every number. Returns the offsets of the units into the nodes, and the number of nodes. `scratch` is left as found.
    """
    units = len(unit_rows) - 1
    unit_nodes = np.zeros(units + 1, np.int64)
    count = 0
    for unit in range(units):
        begin, end = unit_rows[unit], unit_rows[unit + 1]
        start = count
        for i in range(begin, end):
            if scratch[first[i]] == _ABSENT:
                scratch[first[i]] = 0
                nodes[count] = first[i]
                count += 1
            if len(second) > 0 and scratch[second[i]] == _ABSENT:
                scratch[second[i]] = 0
                nodes[count] = second[i]
                count += 1
        nodes[start:count] = np.sort(nodes[start:count])
        for node in range(start, count):
            scratch[nodes[node]] = node
        for i in range(begin, end):
            first[i] = scratch[first[i]]
            if len(second) > 0:
                second[i] = scratch[second[i]]
        for node in range(start, count):
            scratch[nodes[node]] = _ABSENT
        unit_nodes[unit + 1] = count
    return unit_nodes, count


@kernel
def count_runs(unit_rows: Array, codes: Array) -> Array:
    """How many runs of equal codes every unit has: its distinct annotators, where rows are in canonical order."""
    counts = np.zeros(len(unit_rows) - 1, np.int64)
    for unit in range(len(unit_rows) - 1):
        for i in range(unit_rows[unit], unit_rows[unit + 1]):
            if i == unit_rows[unit] or codes[i] != codes[i - 1]:
                counts[unit] += 1
    return counts


@kernel
def _root(parent: Array, node: int) -> int:
    above = parent[node]
    while parent[above] != above:
        parent[above] = parent[parent[above]]  # path halving
        above = parent[above]
    return above


@kernel
def connect(parent: Array, first: Array, second: Array, components: int, fewest: int) -> int:
    """Join the two nodes of every row in a union-find forest; returns how many components are left.

    Stops as soon as the fewest possible are left, which in a well connected graph takes few rows.
    """
    for i in range(len(first)):
        if components <= fewest:
            break
        a, b = _root(parent, first[i]), _root(parent, second[i])
        if a != b:
            parent[max(a, b)] = min(a, b)
            components -= 1
    return components


@kernel
def connect_groups(parent: Array, unit_rows: Array, annotator: Array, item: Array) -> None:
    """Join the items that one annotator judged in one unit; rows in canonical order."""
    for unit in range(len(unit_rows) - 1):
        for i in range(unit_rows[unit] + 1, unit_rows[unit + 1]):
            if annotator[i] == annotator[i - 1]:
                a, b = _root(parent, item[i - 1]), _root(parent, item[i])
                if a != b:
                    parent[max(a, b)] = min(a, b)


@kernel
def count_components(parent: Array, unit_nodes: Array) -> Array:
    """How many trees of the forest every unit has."""
    counts = np.zeros(len(unit_nodes) - 1, np.int64)
    for unit in range(len(unit_nodes) - 1):
        for node in range(unit_nodes[unit], unit_nodes[unit + 1]):
            if parent[node] == node:
                counts[unit] += 1
    return counts


@kernel
def component_labels(parent: Array) -> Array:
    """The first node of the component of every node: a tree's root is its smallest node, and parents come before."""
    labels = np.empty(len(parent), np.int64)
    for node in range(len(parent)):
        labels[node] = node if parent[node] == node else labels[parent[node]]
    return labels
