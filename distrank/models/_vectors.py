"""L-BFGS over parameters that lie in several places: blocks of vectors that move by the same coefficients.

A *block* holds the parameters of one place, as one vector each:

    point, slope            the point last evaluated, and the gradient there: the accepted one, between iterations
    base, base_slope        the point before, from which it was reached
    point.i, slope.i        points before that, oldest first
    inverse                 H: inverse of the expected curvature

A round moves all blocks, evaluates, and adds up inner products (`kernels.lbfgs`); the next coefficients follow.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from distrank.kernels import lbfgs
from distrank.records import Array, Record, frozen, scalar

POINTS = (*(f"point.{i}" for i in range(lbfgs.PAIRS - 1)), "base", "point")
SLOPES = (*(f"slope.{i}" for i in range(lbfgs.PAIRS - 1)), "base_slope", "slope")
BLOCK = (*POINTS, *SLOPES, "inverse")
FARTHEST = 3.0  # no parameter moves by more in one step
SHRINK = (0.5, 0.25, 0.1, 0.01)  # of a step that does not climb, again and again
SUFFICIENT = 1e-4  # share of the promised rise that a step must bring

Control = Record  # how to move: "accepted", "coefficients", "shrink"


def fresh_block(point: Array) -> Record:
    """A block at a point, without memory of others."""
    nothing = np.zeros(len(point))
    return frozen({**dict.fromkeys(POINTS, point), **dict.fromkeys(SLOPES, nothing), "inverse": nothing})


def onward(products: Array, pairs: int) -> tuple[Control, float]:
    """The next step from the accepted point, and how much it promises to rise, to first order."""
    coefficients, slope = lbfgs.direction(products, pairs)
    return {"accepted": scalar(True), "coefficients": coefficients, "shrink": scalar(1.0)}, float(slope)


def shorter(control: Control, shrink: float) -> Control:
    """From the same base, a part of the step last taken; 0 goes back to the base."""
    return {**control, "accepted": scalar(False), "shrink": scalar(shrink)}


def moved(block: Record, control: Control) -> Record:
    """The block at its next point; its slope is still that of the point before."""
    if bool(control["accepted"]):
        point = lbfgs.moved(_path(block), block["inverse"], control["coefficients"], FARTHEST)
        older = {name: block[newer] for names in (POINTS, SLOPES) for name, newer in pairwise(names)}
        return {**block, **older, "point": point}
    return {**block, "point": block["base"] + control["shrink"] * (block["point"] - block["base"])}


def evaluated(block: Record, slope: Array, curvature: Array | None) -> tuple[Record, Array]:
    """The block with what was found at its point, and its share of the inner products."""
    inverse = block["inverse"] if curvature is None else 1.0 / curvature
    block = frozen({**block, "slope": slope, "inverse": inverse})
    return block, lbfgs.inner_products(_path(block), inverse)


def _path(block: Record) -> lbfgs.Path:
    return tuple(block[name] for name in (*POINTS, *SLOPES))
