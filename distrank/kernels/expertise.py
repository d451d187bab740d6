"""Passes over preferences whose certainty depends on annotator, query and domain.  [Wang16]

    P(k prefers i to j in query l | domain m) = Phi(c (s_i - s_j)),   c = tau_km / sqrt(2 (1 + tau_km^2 delta_l^2))

is equation 6 of [Wang16] with the perceived scores integrated out pair by pair: a composite likelihood, because the
pairs of one annotator in one query share perceived scores.

    tau        (annotators of the shard, M)         hardness     log delta^2 by unit
    posterior  (units, M): r, P(domain | data)      unit         offsets of units into runs
    run, owner, winner, loser, weight               preferences in runs of one annotator, as in `preferences`

[Wang16] Wang, Wang, Jie, Zhai, Chang: Blind men and the elephant: Thurstonian pairwise preference for ranking in
         crowdsourcing. ICDM 2016.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel
from distrank.kernels.normal import ROOT_HALF
from distrank.kernels.normal_table import information_of, log_cdf_and_slope, log_cdf_of
from distrank.kernels.random import uniform

Floats = NDArray[np.float64]
Codes = NDArray[np.uint32]
Offsets = NDArray[np.int64]

NEGLIGIBLE = 1e-9  # a domain of smaller posterior adds nothing that counts


@kernel
def certainty(tau: float, variance: float) -> tuple[float, float, float]:
    """c, and its derivatives in tau and in log delta^2; `variance` is delta^2."""
    blur = tau * tau * variance
    root = 1.0 / math.sqrt(1.0 + blur)
    c = ROOT_HALF * tau * root
    return c, ROOT_HALF * root * root * root, -0.5 * c * blur * root * root


@kernel
def domain_likelihood(
    unit: Offsets,
    run: Offsets,
    owner: Codes,
    winner: Codes,
    loser: Codes,
    weight: Floats | None,
    score: Floats,
    hardness: Floats,
    tau: Floats,
    table: Floats,
    total: Floats,
) -> None:
    """The log-likelihood of every unit in every domain."""
    domains = tau.shape[1]
    longest = 0
    for k in range(len(owner)):
        longest = max(longest, run[k + 1] - run[k])
    differences = np.empty(longest)
    for l in range(len(unit) - 1):  # noqa: E741 (the paper's letter)
        variance = math.exp(hardness[l])
        for k in range(unit[l], unit[l + 1]):
            begin, count = run[k], run[k + 1] - run[k]
            for r in range(count):
                differences[r] = score[winner[begin + r]] - score[loser[begin + r]]
            for m in range(domains):
                c = certainty(tau[owner[k], m], variance)[0]
                value = 0.0
                for r in range(count):
                    part = log_cdf_of(table, c * differences[r])
                    value += part if weight is None else weight[begin + r] * part
                total[l, m] += value


@kernel
def posterior_of(likelihood: Floats, log_share: Floats, heat: float, posterior: Floats) -> float:
    """P(domain | data) of every unit, and log P(data) of all; heat T > 1 flattens it: r ~ (theta_m L_m)^(1/T)."""
    total = 0.0
    domains = likelihood.shape[1]
    for l in range(len(likelihood)):  # noqa: E741
        top = -math.inf
        for m in range(domains):
            top = max(top, likelihood[l, m] + log_share[m])
        plain, tempered = 0.0, 0.0
        for m in range(domains):
            below = likelihood[l, m] + log_share[m] - top
            plain += math.exp(below)
            posterior[l, m] = math.exp(below / heat)
            tempered += posterior[l, m]
        for m in range(domains):
            posterior[l, m] /= tempered
        total += top + math.log(plain)
    return total


@kernel
def expected_likelihood(
    unit: Offsets,
    run: Offsets,
    owner: Codes,
    winner: Codes,
    loser: Codes,
    weight: Floats | None,
    score: Floats,
    hardness: Floats,
    tau: Floats,
    posterior: Floats,
    table: Floats,
    score_slope: Floats,
    hardness_slope: Floats,
    tau_slope: Floats,
) -> float:
    """sum_l sum_m r_lm log P(preferences of l | m), and its gradient; what EM climbs between two looks at r."""
    total = 0.0
    domains = tau.shape[1]
    for l in range(len(unit) - 1):  # noqa: E741
        variance = math.exp(hardness[l])
        for m in range(domains):
            share = posterior[l, m]
            if share < NEGLIGIBLE:
                continue
            for k in range(unit[l], unit[l + 1]):
                c, by_tau, by_hardness = certainty(tau[owner[k], m], variance)
                value, along = 0.0, 0.0
                force = share * c
                for r in range(run[k], run[k + 1]):
                    i, j = winner[r], loser[r]
                    difference = score[i] - score[j]
                    part, slope = log_cdf_and_slope(table, c * difference)
                    if weight is not None:
                        part *= weight[r]
                        slope *= weight[r]
                    value += part
                    along += slope * difference
                    score_slope[i] += force * slope
                    score_slope[j] -= force * slope
                total += share * value
                hardness_slope[l] += share * along * by_hardness
                tau_slope[owner[k], m] += share * along * by_tau
    return total


@kernel
def expected_information(
    unit: Offsets,
    run: Offsets,
    owner: Codes,
    winner: Codes,
    loser: Codes,
    weight: Floats | None,
    score: Floats,
    hardness: Floats,
    tau: Floats,
    posterior: Floats,
    table: Floats,
    score_curvature: Floats,
    hardness_curvature: Floats,
    tau_curvature: Floats,
) -> None:
    """The diagonal of the Fisher information of `expected_likelihood`: how far a step may go, never negative."""
    domains = tau.shape[1]
    for l in range(len(unit) - 1):  # noqa: E741
        variance = math.exp(hardness[l])
        for m in range(domains):
            share = posterior[l, m]
            if share < NEGLIGIBLE:
                continue
            for k in range(unit[l], unit[l + 1]):
                c, by_tau, by_hardness = certainty(tau[owner[k], m], variance)
                bend = 0.0
                for r in range(run[k], run[k + 1]):
                    i, j = winner[r], loser[r]
                    difference = score[i] - score[j]
                    value = information_of(table, c * difference)
                    if weight is not None:
                        value *= weight[r]
                    bend += value * difference * difference
                    score_curvature[i] += share * c * c * value
                    score_curvature[j] += share * c * c * value
                hardness_curvature[l] += share * bend * by_hardness * by_hardness
                tau_curvature[owner[k], m] += share * bend * by_tau * by_tau


@kernel
def dispersion(
    unit: Offsets,
    run: Offsets,
    owner: Codes,
    winner: Codes,
    loser: Codes,
    weight: Floats | None,
    score: Floats,
    hardness: Floats,
    tau: Floats,
    posterior: Floats,
    floor: float,
    table: Floats,
    excess: Floats,
) -> None:
    """By domain: how much more the annotators' behaviour varies between its queries than one tau each allows.

    The derivative of a query's log-likelihood in tau_km has its information as variance if k has one tau_km in all
    queries of the domain. The sum of (derivative^2 / information - 1) is large where one domain covers two.
    """
    domains = tau.shape[1]
    for l in range(len(unit) - 1):  # noqa: E741
        variance = math.exp(hardness[l])
        for m in range(domains):
            if posterior[l, m] < 0.5:
                continue
            for k in range(unit[l], unit[l + 1]):
                c, by_tau, _ = certainty(tau[owner[k], m], variance)
                along, bend = 0.0, 0.0
                for r in range(run[k], run[k + 1]):
                    difference = score[winner[r]] - score[loser[r]]
                    counted = 1.0 if weight is None else weight[r]
                    along += counted * log_cdf_and_slope(table, c * difference)[1] * difference
                    bend += counted * information_of(table, c * difference) * difference * difference
                slope, spread = along * by_tau, bend * by_tau * by_tau
                excess[m] += (slope * slope - spread) / (spread + floor)


@kernel
def random_domains(hashes: NDArray[np.uint64], key: NDArray[np.uint64], posterior: Floats) -> None:
    """All of every unit's posterior on one domain, drawn uniformly by the hash of the unit's id."""
    domains = posterior.shape[1]
    for unit in range(len(hashes)):
        posterior[unit, int(uniform(key[0], key[1], hashes[unit], np.uint64(0)) * domains)] = 1.0
