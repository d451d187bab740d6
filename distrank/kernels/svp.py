"""Singular value projection of a skew-symmetric matrix of which some entries are known.  [Gleich11]

    Y     skew-symmetric: mean preference of i over j, known on the pairs that were judged
    X     a (q r' - r q') with orthonormal q, r: the rank-2 skew-symmetric matrix at hand

One iteration moves X towards Y on the known pairs, by a step, and projects the sum on the rank-2 matrices: the plane
that belongs to its two largest singular values, found by powers of the matrix on the plane at hand. Neither Y nor X is
ever written out: an iteration costs the judged pairs and the items.

[Gleich11] Gleich, Lim: Rank aggregation via nuclear norm minimization. KDD 2011.
"""

from __future__ import annotations

import numpy as np

from distrank.kernels import kernel
from distrank.kernels.lbfgs import dot
from distrank.records import Array

POWERS = 30  # of a projection, at most
STILL = 1e-12  # a plane that turns by less is taken as found


@kernel
def apply(
    offsets: Array, other: Array, change: Array, a: float, q: Array, r: Array, x: Array, first: int, result: Array
) -> None:
    """(X + sparse) x, with the sparse entries `change` of the rows of a unit whose items begin at `first`."""
    along_r, along_q = a * dot(r, x), a * dot(q, x)
    for i in range(len(x)):
        total = q[i] * along_r - r[i] * along_q
        for e in range(offsets[first + i], offsets[first + i + 1]):
            total += change[e] * x[other[e] - first]
        result[i] = total


@kernel
def _normalise(x: Array) -> float:
    size = np.sqrt(dot(x, x))
    if size > 0.0:
        x /= size
    return size


@kernel
def project(
    offsets: Array, other: Array, change: Array, a: float, q: Array, r: Array, first: int
) -> tuple[float, Array]:
    """The rank-2 projection of X + sparse: its factor and its plane, as the rows q and r."""
    n = len(q)
    plane = np.empty((2, n))
    plane[0], plane[1] = q, r
    image = np.empty((2, n))
    for _ in range(POWERS):
        apply(offsets, other, change, a, q, r, plane[0], first, image[0])
        apply(offsets, other, change, a, q, r, plane[1], first, image[1])
        # A maps the plane to its image, nearly the same plane: orthonormalise, in the order that keeps q and r
        new = np.empty((2, n))
        new[0] = -image[1]
        if _normalise(new[0]) == 0.0:
            new[0] = plane[0]
        new[1] = image[0] - dot(image[0], new[0]) * new[0]
        if _normalise(new[1]) == 0.0:
            new[1] = plane[1]
        turned = 0.0
        for k in range(2):
            rest = new[k] - dot(new[k], plane[0]) * plane[0] - dot(new[k], plane[1]) * plane[1]
            turned += dot(rest, rest)
        plane = new
        if turned < STILL * STILL:
            break
    apply(offsets, other, change, a, q, r, plane[1], first, image[1])
    return dot(plane[0], image[1]), plane


@kernel
def residual(
    offsets: Array, other: Array, known: Array, a: float, q: Array, r: Array, first: int, change: Array, step: float
) -> float:
    """Half the squared error of X on the known pairs (each counted once); `change` gets step (Y - X) on them."""
    total = 0.0
    for i in range(len(q)):
        for e in range(offsets[first + i], offsets[first + i + 1]):
            j = other[e] - first
            error = known[e] - a * (q[i] * r[j] - r[i] * q[j])
            change[e] = step * error
            total += 0.25 * error * error
    return total


@kernel
def start_plane(offsets: Array, other: Array, known: Array, first: int, q: Array, r: Array) -> bool:
    """Span of Y e and Y Y e: where a first power iteration ends up, and the same whatever the items are called.

    False where Y e = 0: nobody won more than they lost, and the scores stay 0.
    """
    n = len(q)
    for i in range(n):
        q[i] = 0.0
        for e in range(offsets[first + i], offsets[first + i + 1]):
            q[i] += known[e]
    if _normalise(q) == 0.0:
        return False
    for i in range(n):
        r[i] = 0.0
        for e in range(offsets[first + i], offsets[first + i + 1]):
            r[i] += known[e] * q[other[e] - first]
    r -= dot(q, r) * q
    return _normalise(r) > 0.0


@kernel
def iterate_units(
    unit_nodes: Array,
    offsets: Array,
    other: Array,
    known: Array,
    factor: Array,
    q: Array,
    r: Array,
    step: Array,
    error: Array,
    done: Array,
    tolerance: float,
) -> None:
    """One iteration of every unit that is not done: a step that does not lower the error is halved."""
    change = np.zeros(len(other))
    for u in range(len(unit_nodes) - 1):
        if done[u]:
            continue
        first, last = unit_nodes[u], unit_nodes[u + 1]
        while True:
            residual(offsets, other, known, factor[u], q[first:last], r[first:last], first, change, step[u])
            a, plane = project(offsets, other, change, factor[u], q[first:last], r[first:last], first)
            found = residual(offsets, other, known, a, plane[0], plane[1], first, change, 0.0)
            if found <= error[u]:
                break
            step[u] *= 0.5
            if step[u] < 1e-6:
                done[u] = True
                break
        if not done[u]:
            gained = error[u] - found
            factor[u], q[first:last], r[first:last], error[u] = a, plane[0], plane[1], found
            done[u] = gained <= tolerance * (found + tolerance)
