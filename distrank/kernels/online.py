"""One judgment after the other: the online updates of Crowd-BT [Chen13] and of TrueSkill [Herbrich06].

The state of an item is the pair (mean, variance) of its score, the state of an annotator the pair (alpha, beta) of a
Beta law of its quality: rows of one array each, so that a judgment touches one cache line per item and one per
annotator. Passes change the state that is handed in, and depend on nothing else: a pass over A and then over B is the
pass over A followed by B.

`tie` and `size` are None where there are none: numba compiles those cases apart. An update of size h (0 < h <= 1) moves
every parameter by h times what the whole update would (a variance: in the factor it is multiplied by). A tie is half an
update each way, both of them computed from the state before it, so that it does not matter who is called the winner.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel

Floats = NDArray[np.float64]
Codes = NDArray[np.uint32]
Flags = NDArray[np.bool_]

WIDEST_PAIR = 230.0  # beyond this difference of means, sigma is below 1e-99
SUREST = 1e-6  # C1 is kept this far from 0 and 1: its expansion can leave [0, 1] where variances are large
_TAIL = -4.0  # below this, the ratio of a normal density to its distribution is a continued fraction
_TAIL_TERMS = 60
_ROOT_HALF = math.sqrt(0.5)
_DENSITY = math.sqrt(2.0 / math.pi)


@kernel
def crowd_bt_change(odds: float, alpha: float, beta: float, spread: float) -> tuple[float, float, float, float]:
    """What a preference for i over j by an annotator of this alpha and beta says.

    `odds` is e^(mu_j - mu_i), `spread` the sum of the two variances. Returns d log f / d s_i, its derivative, and the
    new alpha and beta. All are equations 12-19 brought over common denominators, so that two divisions are enough and
    nothing cancels:

        sigma = 1 / (1 + odds)      f = (alpha + beta odds) sigma / (alpha + beta)
    """
    both = 1.0 / ((alpha + beta * odds) * (1.0 + odds))
    skill = alpha - beta
    force = skill * odds * both  # bracket of (12), (13)
    bend = force * (beta * odds * odds - alpha) * both  # bracket of (14), (15)
    c1, c2 = order_chances(odds, (alpha + beta * odds) * both, spread)
    new_alpha, new_beta = quality_change(c1, c2, alpha, beta)
    return force, bend, new_alpha, new_beta


@kernel
def order_chances(odds: float, sigma: float, spread: float) -> tuple[float, float]:
    """C1, the expectation of sigma = 1 / (1 + odds) over the two scores to second order, and C2 = 1 - C1."""
    # Deviation: (19) prints s^mu where e^mu is meant, and its expansion is cut where it is no probability any more.
    shift = 0.5 * spread * (odds * sigma * sigma) * ((odds - 1.0) * sigma)
    c1 = min(max(sigma + shift, SUREST), 1.0 - SUREST)  # (19)
    c2 = min(max(odds * sigma - shift, SUREST), 1.0 - SUREST)  # not 1 - C1: that loses a small C2
    return c1, c2


@kernel
def quality_change(c1: float, c2: float, alpha: float, beta: float) -> tuple[float, float]:
    """The new alpha and beta after a report that is the true order with probability C1."""
    d = c1 * alpha + c2 * beta  # (16): C (alpha + beta)
    # (17), (18): E(eta) = alpha (d + C1) / (d (alpha + beta + 1)); alpha' + beta' follows from the variance
    scale = (d + 1.0) / (d * (d + 1.0) + c1 * c2 * (alpha + beta + 2.0))
    return alpha * (d + c1) * scale, beta * (d + c2) * scale


@kernel
def crowd_bt_pass(
    annotator: Codes,
    winner: Codes,
    loser: Codes,
    tie: Flags | None,
    size: Floats | None,
    kappa: float,
    items: Floats,
    annotators: Floats,
) -> None:
    """Equations 12-19 for every row in turn."""
    for r in range(len(winner)):
        i, j, k = winner[r], loser[r], annotator[r]
        mean_i, variance_i, mean_j, variance_j = items[i, 0], items[i, 1], items[j, 0], items[j, 1]
        alpha, beta = annotators[k, 0], annotators[k, 1]
        odds = math.exp(min(max(mean_j - mean_i, -WIDEST_PAIR), WIDEST_PAIR))
        force, bend, new_alpha, new_beta = crowd_bt_change(odds, alpha, beta, variance_i + variance_j)
        if tie is not None and tie[r]:
            back, bend_back, alpha_back, beta_back = crowd_bt_change(1.0 / odds, alpha, beta, variance_i + variance_j)
            force, bend = 0.5 * (force - back), 0.5 * (bend + bend_back)
            new_alpha, new_beta = 0.5 * (new_alpha + alpha_back), 0.5 * (new_beta + beta_back)
        if size is not None:
            force, bend = size[r] * force, size[r] * bend
            new_alpha, new_beta = alpha + size[r] * (new_alpha - alpha), beta + size[r] * (new_beta - beta)
        items[i, 0] = mean_i + variance_i * force  # (12)
        items[j, 0] = mean_j - variance_j * force  # (13)
        items[i, 1] = variance_i * max(1.0 + variance_i * bend, kappa)  # (14)
        items[j, 1] = variance_j * max(1.0 + variance_j * bend, kappa)  # (15)
        annotators[k, 0] = new_alpha
        annotators[k, 1] = new_beta


@kernel
def truncated_normal(t: float) -> tuple[float, float]:
    """v(t) = density / distribution of the standard normal law at t, and w(t) = v (v + t): how a win by a margin moves
    the mean and shrinks the variance.

    Far below 0 both parts of v vanish, and v + t is a small difference of large numbers. There Laplace's continued
    fraction gives it: v + t = 1 / (x + 2 / (x + 3 / (x + ...))), x = -t.
    """
    if t < _TAIL:
        rest = -t
        for n in range(_TAIL_TERMS, 1, -1):
            rest = -t + n / rest
        excess = 1.0 / rest
        return excess - t, (excess - t) * excess
    v = _DENSITY * math.exp(-0.5 * t * t) / math.erfc(-t * _ROOT_HALF)
    return v, v * (v + t)


@kernel
def trueskill_pass(
    winner: Codes,
    loser: Codes,
    tie: Flags | None,
    size: Floats | None,
    noise: float,
    drift: float,
    items: Floats,
) -> None:
    """Two players, one wins: the closed form of [Herbrich06] without a draw margin.

    `noise` is 2 beta^2, `drift` tau^2: every update begins with the variances of both items grown by it.
    """
    for r in range(len(winner)):
        i, j = winner[r], loser[r]
        variance_i, variance_j = items[i, 1] + drift, items[j, 1] + drift
        inverse = 1.0 / (noise + variance_i + variance_j)  # 1 / c^2
        scale = math.sqrt(inverse)
        margin = (items[i, 0] - items[j, 0]) * scale
        v, w = truncated_normal(margin)
        if tie is not None and tie[r]:
            v_back, w_back = truncated_normal(-margin)
            v, w = 0.5 * (v - v_back), 0.5 * (w + w_back)
        if size is not None:
            v, w = size[r] * v, size[r] * w
        items[i, 0] += variance_i * scale * v
        items[j, 0] -= variance_j * scale * v
        items[i, 1] = variance_i * (1.0 - variance_i * inverse * w)
        items[j, 1] = variance_j * (1.0 - variance_j * inverse * w)


@kernel
def row_agreement(
    unit: Codes,
    annotator: Codes,
    winner: Codes,
    loser: Codes,
    tie: Flags | None,
    size: Floats | None,
    items: Floats,
    of_annotator: Floats,
    of_unit: Floats,
) -> None:
    """Size that agrees with the order of the means (half of it for ties and equal means) and total, in two columns."""
    for r in range(len(winner)):
        difference = items[winner[r], 0] - items[loser[r], 0]
        share = 1.0 if difference > 0.0 else (0.5 if difference == 0.0 else 0.0)
        if tie is not None and tie[r]:
            share = 0.5
        counted = 1.0 if size is None else size[r]
        of_annotator[annotator[r], 0] += counted * share
        of_annotator[annotator[r], 1] += counted
        of_unit[unit[r], 0] += counted * share
        of_unit[unit[r], 1] += counted
