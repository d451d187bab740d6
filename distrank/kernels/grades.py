"""Ratings as grades: finding the few distinct values of a long column, and the code of every value."""

from __future__ import annotations

import numpy as np

from distrank.kernels import kernel
from distrank.records import Array


@kernel
def distinct_up_to(values: Array, most: int) -> Array:
    """The distinct values in the order in which they come, at most `most + 1` of them: then there are too many."""
    found = np.empty(most + 1, np.float64)
    count = 0
    for i in range(len(values)):
        place = 0
        while place < count and found[place] != values[i]:
            place += 1
        if place == count:
            found[count] = values[i]
            count += 1
            if count > most:
                break
    return found[:count]


@kernel
def grade_codes(values: Array, edges: Array, codes: Array) -> None:
    """How many of the ascending edges are at most the value."""
    for i in range(len(values)):
        grade = 0
        while grade < len(edges) and edges[grade] <= values[i]:
            grade += 1
        codes[i] = grade
