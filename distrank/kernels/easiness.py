"""The pass of GLAD: easiness of every item, and derivatives in the abilities.  [Whitehill09]

    a_w      ability of annotator w            d_i = exp(b_i)   easiness of item i
    P(label is right) = sigma(a_w d_i); a wrong label is any of the K - 1 other grades alike.

The log-likelihood of grade c for an item with n labels is

    log p_c + d S_c - (n - n_c) log(K - 1) - sum_w softplus(a_w d)

where n_c annotators said c and S_c is the sum of their abilities: sigma(x) = exp(x) / (1 + exp(x)), so that grades
differ by what needs no sigmoid. The derivative of the item's log-likelihood in b is
d (E[S_c] - sum_w a_w sigma(a_w d)), the expectation being over the posterior of the grade, and - b from the prior.

[Whitehill09] Whitehill, Wu, Bergsma, Movellan, Ruvolo: Whose vote should count more. NIPS 2009.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel
from distrank.kernels.labels import Codes, Floats, Grades, Offsets

Labels = NDArray[np.uint8]

_LARGE = 1e100
_TOLERANCE = 1e-5  # of b: the item's log-likelihood is then within 1e-9 of its maximum
_WIDEST = 4.0  # largest size of b; the prior makes it improbable to be beyond
_LONGEST = 1.0  # largest change of b in one step
_MOST_STEPS = 25


@kernel
def _look(
    begin: int, end: int, owner: Codes, weight: Floats | None, ability: Floats, support: Floats, extra: Floats,
    known: int, b: float, post: Floats,
) -> tuple[float, float, float]:  # fmt: skip
    """The log-likelihood of an item at b, its derivative, and minus its second derivative (made positive if it is not).

    `support` is S_c, `extra` log p_c - (n - n_c) log(K - 1); the posterior is left in `post`.
    """
    d = math.exp(b)
    wrong, product, pull, bend = 0.0, 1.0, 0.0, 0.0
    for r in range(begin, end):
        a = ability[owner[r]]
        x = a * d
        tail = math.exp(-abs(x))
        s = 1.0 / (1.0 + tail) if x >= 0.0 else tail / (1.0 + tail)
        if weight is None:
            wrong += max(x, 0.0)
            product *= 1.0 + tail
            if product > _LARGE:
                wrong += math.log(product)
                product = 1.0
            pull += a * s
            bend += a * a * s * (1.0 - s)
        else:
            wrong += weight[r] * (max(x, 0.0) + math.log1p(tail))
            pull += weight[r] * a * s
            bend += weight[r] * a * a * s * (1.0 - s)
    wrong += math.log(product)
    if known >= 0:
        post[:] = 0.0
        post[known] = 1.0
        value, mean, spread = extra[known] + d * support[known], support[known], 0.0
    else:
        top = -np.inf
        for c in range(len(post)):
            post[c] = extra[c] + d * support[c]
            top = max(top, post[c])
        total = 0.0
        for c in range(len(post)):
            post[c] = math.exp(post[c] - top)
            total += post[c]
        value = top + math.log(total)
        mean, square = 0.0, 0.0
        for c in range(len(post)):
            post[c] /= total
            mean += post[c] * support[c]
            square += post[c] * support[c] * support[c]
        spread = max(square - mean * mean, 0.0)
    slope = d * (mean - pull)
    curvature = d * d * bend + 1.0  # of the labels if the grade were known: always positive
    newton = curvature - d * d * spread - slope
    return value - wrong - 0.5 * b * b, slope - b, newton if newton > 0.25 * curvature else curvature


@kernel
def _settle(
    begin: int, end: int, owner: Codes, weight: Floats | None, ability: Floats, support: Floats, extra: Floats,
    known: int, b: float, post: Floats,
) -> tuple[float, float]:  # fmt: skip
    """b at a maximum of the item's log-likelihood that climbing from the given one leads to, and its value there.

    `post` is the posterior at that b.
    """
    value, slope, curvature = _look(begin, end, owner, weight, ability, support, extra, known, b, post)
    looked_at = b
    for _ in range(_MOST_STEPS):
        step = min(max(slope / curvature, -_LONGEST), _LONGEST)
        goal = min(max(b + step, -_WIDEST), _WIDEST)
        if abs(goal - b) < _TOLERANCE:
            break
        new, new_slope, new_curvature = _look(begin, end, owner, weight, ability, support, extra, known, goal, post)
        looked_at = goal
        if new < value:  # too far: a shorter step
            curvature *= 4.0
            continue
        b, value, slope, curvature = goal, new, new_slope, new_curvature
    if looked_at != b:
        _look(begin, end, owner, weight, ability, support, extra, known, b, post)
    return b, value


@kernel
def ability_pass(
    rows: Offsets,
    owner: Codes,
    label: Labels,
    weight: Floats | None,
    known: Grades,
    ability: Floats,
    log_prior: Floats,
    before: Floats,
    easiness: Floats,
    slope: Floats,
    bound: Floats,
    chance: Floats,
    classes: Floats,
    posterior: Floats | None,
) -> float:
    """Settle every item's b from `before` into `easiness`; the log-likelihood, with the normal prior of b.

    By annotator: the derivative in the ability, a bound of minus the second derivative of the complete log-likelihood
    that holds at every ability (so that the step slope / bound never goes down), and the sum of sigma(a d).
    """
    grades = len(log_prior)
    support, extra, post = np.empty(grades), np.empty(grades), np.empty(grades)
    others = math.log(max(grades - 1, 1))
    total = 0.0
    for i in range(len(rows) - 1):
        begin, end = rows[i], rows[i + 1]
        support[:] = 0.0
        extra[:] = log_prior
        for r in range(begin, end):
            counted = 1.0 if weight is None else weight[r]
            support[label[r]] += counted * ability[owner[r]]
            for c in range(grades):
                if c != label[r]:
                    extra[c] -= counted * others
        b, value = _settle(begin, end, owner, weight, ability, support, extra, known[i], before[i], post)
        easiness[i] = b
        total += value
        d = math.exp(b)
        for c in range(grades):
            classes[c] += post[c]
        for r in range(begin, end):
            x = ability[owner[r]] * d
            tail = math.exp(-abs(x))
            s = 1.0 / (1.0 + tail) if x >= 0.0 else tail / (1.0 + tail)
            size = abs(x)
            curve = 0.25 if size < 1e-4 else (1.0 - tail) / (1.0 + tail) / (2.0 * size)  # tanh(x / 2) / (2 x)
            counted = 1.0 if weight is None else weight[r]
            slope[owner[r]] += counted * d * (post[label[r]] - s)
            bound[owner[r]] += counted * d * d * curve
            chance[owner[r]] += counted * s
        if posterior is not None:
            posterior[i] = post
    return total


@kernel
def exponentials(values: Floats) -> Floats:
    """exp of every entry, the same bytes on every machine."""
    result = np.empty(len(values))
    for i in range(len(values)):
        result[i] = math.exp(values[i])
    return result
