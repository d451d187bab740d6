"""The expertise of annotators given expected distances, with side information about it.  [Wu16], sections 3.3 and 4

    theta_j   dispersion of annotator j (lower is better)         d_j   expected distances of j's lists, summed
    ln Z_j    sum of the log normalisers of j's lists             eta   confidence of a statement

The M-step maximises  sum over j of theta_j d_j - ln Z_j(theta_j)  +  sum over statements of ln f:

    known        theta_j = v, or with a confidence the limit of a range around v
    range        f = sigma(eta (theta_j - low)) - sigma(eta (theta_j - high))                                  (35)
    better_than  f = sigma(eta (theta_other - theta_j))                                                        (44)

Everything is concave, so Newton's method with step halving finds the maximum; annotators without statements are solved
one by one. Deviation: equations 39 and 49 have the derivative of ln f with the wrong sign and without 1/N, which pushes
theta to the far end of its range; the objective is maximised as it stands (epsilon = 0).

A range with low < high has ln f = ln sigma(eta (theta - low)) + ln sigma(eta (high - theta)) and a constant, so that
the limit low = high is a known value in a range of its own.
"""

from __future__ import annotations

import numpy as np

from distrank.kernels import mallows
from distrank.models._lists import Kinds
from distrank.records import Array, Record

_ROUNDS = 200
_PRECISION = 1e-11
SIDE = (
    "side.fixed", "side.fixed_value",
    "side.within", "side.low", "side.high", "side.within_confidence",
    "side.better", "side.worse", "side.relation_confidence",
)  # fmt: skip


def no_side_information() -> Record:
    """Nothing is known about anybody."""
    codes = ("side.fixed", "side.within", "side.better", "side.worse")
    return {name: np.empty(0, np.int64 if name in codes else np.float64) for name in SIDE}


def fitted_expertise(kinds: Kinds, distance: Array, start: Array, side: Record) -> Array:
    """The theta of every annotator that maximises the M-step."""
    theta = mallows.fitted_theta(*kinds, distance, start)
    theta[side["side.fixed"]] = side["side.fixed_value"]
    told = np.unique(np.concatenate([side["side.within"], side["side.better"], side["side.worse"]]))
    free = np.setdiff1d(told, side["side.fixed"])
    return _climb(kinds, distance, theta, side, free) if len(free) else theta


def side_objective(theta: Array, side: Record) -> float:
    """The sum of ln f."""
    inside = theta[side["side.within"]]
    eta = side["side.within_confidence"]
    value = (
        _log_sigmoid(eta * (inside - side["side.low"])).sum() + _log_sigmoid(eta * (side["side.high"] - inside)).sum()
    )
    gap = theta[side["side.worse"]] - theta[side["side.better"]]
    return float(value + _log_sigmoid(side["side.relation_confidence"] * gap).sum())


def annotator_objective(kinds: Kinds, theta: Array) -> Array:
    """-ln Z of every annotator."""
    return -mallows.log_evidence(kinds.owner, kinds.items, kinds.chosen, kinds.times, theta)[0]


def spread_of(kinds: Kinds, theta: Array) -> tuple[Array, Array]:
    """Mean and variance of the summed distances of every annotator."""
    _, mean, variance = mallows.log_evidence(kinds.owner, kinds.items, kinds.chosen, kinds.times, theta)
    return mean, variance


def pair_accuracy(kinds: Kinds, theta: Array) -> Array:
    """The expected share of pairs that every annotator puts in their true order, over the lists that they gave.

    A list that stops counts with the pairs inside it. Who never put two items in an order gets the accuracy on
    neighbours, 1 / (1 + e^theta), and who gave no list one half.
    """
    whole = kinds._replace(items=kinds.chosen)
    wrong, _ = spread_of(whole, theta)
    pairs = np.bincount(kinds.owner, kinds.times * kinds.chosen * (kinds.chosen - 1) / 2.0, minlength=len(theta))
    given = np.diff(kinds.offsets) > 0
    without = np.where(given, _sigmoid(-theta), 0.5)
    return np.where(pairs > 0.0, 1.0 - wrong / np.where(pairs > 0.0, pairs, 1.0), without)


def _climb(kinds: Kinds, distance: Array, theta: Array, side: Record, free: Array) -> Array:
    """Newton on the annotators with statements."""
    place = np.full(len(theta), -1)
    place[free] = np.arange(len(free))
    theta = theta.copy()
    theta[free] = np.clip(theta[free], -0.9 * mallows.STEEPEST, 0.9 * mallows.STEEPEST)

    def value(at: Array) -> float:
        return float(
            (at[free] * distance[free] + annotator_objective(kinds, at)[free]).sum() + side_objective(at, side)
        )

    now = value(theta)
    for _ in range(_ROUNDS):
        gradient, curvature = _derivatives(kinds, distance, theta, side, place, free)
        step = np.linalg.solve(curvature + 1e-10 * np.eye(len(free)), gradient)
        scale = 1.0
        while scale > 1e-12:
            moved = theta.copy()
            moved[free] = np.clip(theta[free] + scale * step, -mallows.STEEPEST, mallows.STEEPEST)
            found = value(moved)
            if found >= now:
                break
            scale *= 0.5
        else:
            break
        change = np.abs(moved - theta).max()
        theta, now = moved, found
        if change <= _PRECISION:
            break
    return theta


def _derivatives(
    kinds: Kinds, distance: Array, theta: Array, side: Record, place: Array, free: Array
) -> tuple[Array, Array]:
    """The gradient of the objective and minus its second derivatives, over the free annotators."""
    mean, variance = spread_of(kinds, theta)
    gradient, curvature = distance[free] - mean[free], np.diag(variance[free])
    eta, inside = side["side.within_confidence"], theta[side["side.within"]]
    at = place[side["side.within"]]
    for sign, edge in ((1.0, side["side.low"]), (-1.0, side["side.high"])):
        pull = _sigmoid(-sign * eta * (inside - edge))
        _add(gradient, at, sign * eta * pull)
        _add_square(curvature, at, at, eta * eta * pull * (1.0 - pull))
    better, worse = side["side.better"], side["side.worse"]
    eta = side["side.relation_confidence"]
    pull = _sigmoid(-eta * (theta[worse] - theta[better]))
    bend = eta * eta * pull * (1.0 - pull)
    first, second = place[better], place[worse]
    _add(gradient, first, -eta * pull)
    _add(gradient, second, eta * pull)
    _add_square(curvature, first, first, bend)
    _add_square(curvature, second, second, bend)
    _add_square(curvature, first, second, -bend)
    _add_square(curvature, second, first, -bend)
    return gradient, curvature


def _add(total: Array, at: Array, values: Array) -> None:
    np.add.at(total, at[at >= 0], values[at >= 0])


def _add_square(total: Array, row: Array, column: Array, values: Array) -> None:
    inside = (row >= 0) & (column >= 0)
    np.add.at(total, (row[inside], column[inside]), values[inside])


def _sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0.0, -x))


def _log_sigmoid(x: Array) -> Array:
    return -np.logaddexp(0.0, -x)
