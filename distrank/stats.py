"""Statistics: what steps add up over shards.

Statistics are records. A name with a slash, such as "annotator/gradient", belongs to a sparse group: "annotator/index"
holds sorted distinct codes and the other members are aligned with it. Groups are added by code; everything else is
added element by element.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from distrank.records import Array, Record

SEPARATOR = "/"
INDEX = "index"


def merged(left: Record | None, right: Record | None) -> Record | None:
    """The sum of two records of statistics with the same names; None adds nothing."""
    if left is None or right is None:
        return right if left is None else left
    if left.keys() != right.keys():
        raise ValueError(f"steps returned different statistics: {sorted(left)} and {sorted(right)}")
    result: Record = {}
    for group, names in _groups(left):
        if group is None:
            for name in names:
                result[name] = left[name] + right[name]
        else:
            _merge_sparse(group, names, left, right, result)
    return result


def dense(stats: Record, name: str, size: int) -> Array:
    """A member of a sparse group as a dense array over all codes, zero where no shard had the code."""
    group = name.split(SEPARATOR, maxsplit=1)[0]
    if f"{group}/{INDEX}" not in stats:
        return np.zeros(size)
    values = stats[name]
    result = np.zeros((size, *values.shape[1:]), values.dtype)
    result[stats[f"{group}/{INDEX}"]] = values
    return result


def _groups(record: Record) -> Iterable[tuple[str | None, list[str]]]:
    groups: dict[str | None, list[str]] = {}
    for name in record:
        group = name.split(SEPARATOR)[0] if SEPARATOR in name else None
        if name != f"{group}/{INDEX}":
            groups.setdefault(group, []).append(name)
    return groups.items()


def _merge_sparse(group: str, names: list[str], left: Record, right: Record, result: Record) -> None:
    index = f"{group}/{INDEX}"
    a, b = left[index], right[index]
    if a is b or np.array_equal(a, b):
        result[index] = a
        for name in names:
            result[name] = left[name] + right[name]
        return
    both = np.union1d(a, b)
    at_a, at_b = np.searchsorted(both, a), np.searchsorted(both, b)
    result[index] = both
    for name in names:
        values = np.zeros((len(both), *left[name].shape[1:]), np.result_type(left[name], right[name]))
        values[at_a] = left[name]
        values[at_b] += right[name]
        result[name] = values
