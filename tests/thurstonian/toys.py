"""Toys as the kernels take them."""

from __future__ import annotations

import numpy as np
from literal_tpp import Toy

from distrank.records import Array, Record


def laid_out(toy: Toy) -> Record:
    """`unit` offsets into runs, runs of one annotator in one unit, and columns in that order."""
    order = sorted(range(len(toy.rows)), key=lambda row: toy.rows[row][:2])
    rows = [toy.rows[row] for row in order]
    run, owner, unit = [], [], [0]
    for place, (query, k, _, _) in enumerate(rows):
        while len(unit) <= query:
            unit.append(len(run))
        if place == 0 or rows[place - 1][:2] != (query, k):
            run.append(place)
            owner.append(k)
    unit += [len(run)] * (toy.units + 1 - len(unit))
    return {
        "unit": np.array(unit, np.int64),
        "run": np.array([*run, len(rows)], np.int64),
        "owner": np.array(owner, np.uint32),
        "winner": np.array([row[2] for row in rows], np.uint32),
        "loser": np.array([row[3] for row in rows], np.uint32),
        "weight": np.array([toy.weight[row] for row in order]),
    }


def columns(layout: Record) -> tuple[Array, ...]:
    return tuple(layout[name] for name in ("unit", "run", "owner", "winner", "loser", "weight"))
