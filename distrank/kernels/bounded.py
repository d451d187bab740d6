"""Laws of numbers between 0 and 1: of an annotator's quality, and of a share.

Densities are summed over narrow cells, so that a law inside the bounds, one cut off by them, and one that is highest
at a bound are one case.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel

Floats = NDArray[np.float64]

CELLS = 256
REACH = 8.0  # deviations to either side of an estimate that are looked at


@kernel
def quality_means(x: Floats, slope: Floats, curvature: Floats, mean: Floats) -> None:
    """The mean of the law with the density exp(slope t - curvature t^2 / 2) of the distance t from x, within [0, 1].

    It lies inside the bounds, also where the likelihood is highest at one of them; without a likelihood it is 1/2.
    """
    for k in range(len(x)):
        mode = x[k]
        if curvature[k] > 0.0:  # off the maximum (a fit that was stopped), the law is that of where it is heading
            mode = min(max(x[k] + slope[k] / curvature[k], 0.0), 1.0)
        rest = slope[k] - curvature[k] * (mode - x[k])
        scale = 1.0 / max(math.sqrt(max(curvature[k], 0.0)), abs(rest), 1e-300)
        begin, end = max(mode - REACH * scale, 0.0), min(mode + REACH * scale, 1.0)
        total, moment = 0.0, 0.0
        for c in range(CELLS):
            t = begin + (c + 0.5) / CELLS * (end - begin) - mode
            density = math.exp(min(rest * t, 0.0) - 0.5 * curvature[k] * t * t)
            total += density
            moment += density * (c + 0.5)
        mean[k] = begin + moment / total / CELLS * (end - begin)


@kernel
def _place_of(mass: float, cumulative: Floats) -> float:
    """Where the sum of the density reaches a mass, in cells."""
    c = min(max(int(np.searchsorted(cumulative, mass, side="right")) - 1, 0), len(cumulative) - 2)
    inside = cumulative[c + 1] - cumulative[c]
    return c + (min(max((mass - cumulative[c]) / inside, 0.0), 1.0) if inside > 0.0 else 0.0)


@kernel
def _height(place: float, density: Floats) -> float:
    """The density at a place, from the middles of the cells beside it."""
    between = min(max(place - 0.5, 0.0), len(density) - 1.0)
    c = min(int(between), len(density) - 2)
    return density[c] + (between - c) * (density[c + 1] - density[c])


@kernel
def _shortest(density: Floats, cumulative: Floats, level: float) -> tuple[float, float]:
    """The ends, in cells, of the shortest interval with `level` of the mass of a density with one peak.

    Its ends are equally high, or one of them is where the cells end.
    """
    total = cumulative[-1]
    low, high = 0.0, (1.0 - level) * total  # mass to the left of the interval
    if _height(0.0, density) >= _height(_place_of(level * total, cumulative), density):
        high = 0.0
    elif _height(_place_of(high, cumulative), density) <= _height(float(len(density)), density):
        low = high
    while high - low > 1e-12 * total:
        middle = 0.5 * (low + high)
        begin, end = _place_of(middle, cumulative), _place_of(middle + level * total, cumulative)
        if _height(begin, density) < _height(end, density):
            low = middle
        else:
            high = middle
    return _place_of(low, cumulative), _place_of(low + level * total, cumulative)


@kernel
def quality_laws(
    answers: Floats, window: Floats, prior: Floats, level: float, mean: Floats, low: Floats, high: Floats
) -> None:
    """Mean and shortest interval of the laws whose log-likelihood is known at points of a window (`leave_out`).

    `prior` are the strengths of log x and log (1 - x) in the logarithm of the density.
    """
    last_node = answers.shape[1] - 1
    density, cumulative = np.empty(CELLS), np.zeros(CELLS + 1)
    for k in range(len(window)):
        begin, width = window[k, 0], (window[k, 1] - window[k, 0]) / CELLS
        highest = 0
        for c in range(CELLS):
            place = (c + 0.5) / CELLS * last_node
            node = min(int(place), last_node - 1)
            value = answers[k, node] + (place - node) * (answers[k, node + 1] - answers[k, node])
            x = begin + (c + 0.5) * width
            if prior[0] > 0.0:
                value += prior[0] * math.log(x)
            if prior[1] > 0.0:
                value += prior[1] * math.log(1.0 - x)
            density[c] = value
            if value > density[highest]:
                highest = c
        top, total, moment = density[highest], 0.0, 0.0
        for c in range(CELLS):
            density[c] = math.exp(density[c] - top)
            total += density[c]
            moment += density[c] * (c + 0.5)
            cumulative[c + 1] = total
        mean[k] = begin + width * moment / total
        first, last = _shortest(density, cumulative, level)
        low[k], high[k] = begin + first * width, begin + last * width


@kernel
def beta_intervals(alpha: Floats, beta: Floats, level: float, low: Floats, high: Floats) -> None:
    """Equal-tailed intervals of Beta laws, from cells in the logit of x, where the density falls off on both sides."""
    density = np.empty(4 * CELLS)
    for k in range(len(alpha)):
        a, b = alpha[k], beta[k]
        middle = math.log(a / b)  # the density of the logit, x^a (1 - x)^b, is highest here
        deviation = math.sqrt(1.0 / a + 1.0 / b)
        begin, end = middle - (REACH + REACH / a) * deviation, middle + (REACH + REACH / b) * deviation
        width = (end - begin) / len(density)
        top = -a * math.log1p(b / a) - b * math.log1p(a / b)
        total = 0.0
        for c in range(len(density)):
            t = begin + (c + 0.5) * width
            density[c] = math.exp(-a * _softplus(-t) - b * _softplus(t) - top)
            total += density[c]
        tail, mass, c = 0.5 * (1.0 - level) * total, 0.0, 0
        while mass + density[c] < tail:
            mass += density[c]
            c += 1
        low[k] = 1.0 / (1.0 + math.exp(-(begin + (c + (tail - mass) / density[c]) * width)))
        mass, c = 0.0, len(density) - 1
        while mass + density[c] < tail:
            mass += density[c]
            c -= 1
        high[k] = 1.0 / (1.0 + math.exp(-(begin + (c + 1.0 - (tail - mass) / density[c]) * width)))


@kernel
def _softplus(t: float) -> float:
    return max(t, 0.0) + math.log1p(math.exp(-abs(t)))


@kernel
def wilson_intervals(share: Floats, count: Floats, z: float, low: Floats, high: Floats) -> None:
    """Intervals of shares out of `count` judgments, by inverting the test of a share; [0, 1] without judgments."""
    for k in range(len(share)):
        n = count[k]
        if n <= 0.0:
            low[k], high[k] = 0.0, 1.0
            continue
        middle = (share[k] + z * z / (2.0 * n)) / (1.0 + z * z / n)
        half = z / (1.0 + z * z / n) * math.sqrt(share[k] * (1.0 - share[k]) / n + z * z / (4.0 * n * n))
        low[k] = min(max(middle - half, 0.0), share[k])
        high[k] = max(min(middle + half, 1.0), share[k])
