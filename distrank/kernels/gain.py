"""What a question is worth before it is asked: the expected information gain.  [Chen13], equation 10

    s_i     score of item i              N(mu_i, v_i)
    eta_k   quality of annotator k       Beta(alpha_k, beta_k)

Asking annotator k for the order of items i and j has two outcomes. Each moves the beliefs as the online update does
(`kernels.online`, equations 12-19); the gain is the expectation, over the outcome, of

    KL(new s_i || old s_i) + KL(new s_j || old s_j) + gamma KL(new eta_k || old eta_k)

It splits into what is learned about the items, which depends on the annotator through the quality alpha / (alpha +
beta) alone, and what is learned about the annotator, which depends on the pair through C1 of equation 19 alone.

`asked_items` and `asked_annotator` are the beliefs to expect after a question whose answer is not yet known: the
expected outcome moves no mean, and leaves of every variance what is expected to be left.

[Chen13] Chen, Bennett, Collins-Thompson, Horvitz: Pairwise ranking aggregation in a crowdsourced setting. WSDM 2013.
"""

from __future__ import annotations

import math

from distrank.kernels import kernel
from distrank.kernels.online import WIDEST_PAIR, crowd_bt_change, order_chances, quality_change

_STIRLING = 10.0  # from here on, what Stirling's series leaves out after x^-7 is below 1e-12


@kernel
def shrinkage_divergence(factor: float) -> float:
    """2 KL(N(m, f v) || N(m, v)): what a variance that shrinks (or grows) by a factor says."""
    change = factor - 1.0
    return change - math.log1p(change)


@kernel
def log_gamma_bregman(x: float, y: float) -> float:
    """log Gamma(x) - log Gamma(y) - (x - y) digamma(y) >= 0, without the cancellation of its terms where x is near y.

    Both are shifted up to where Stirling's series holds; then every term of the series has a divergence of its own.
    """
    difference = x - y
    ratio, slope = 1.0, 0.0
    while min(x, y) < _STIRLING:
        ratio *= x / y
        slope += difference / y
        x += 1.0
        y += 1.0
    total = slope - math.log(ratio) if slope != 0.0 else 0.0
    change = difference / y
    log_ratio = math.log1p(change)
    total += y * ((1.0 + change) * log_ratio - change) - 0.5 * (log_ratio - change)
    # of 1/12 x^-1 - 1/360 x^-3 + 1/1260 x^-5 - 1/1680 x^-7: x^-1 has exactly (x - y)^2 / (x y^2)
    square = difference * difference
    inverse, root = 1.0 / x, 1.0 / y
    total += square * inverse * root * root / 12.0
    total -= (inverse**3 - root**3 + 3.0 * difference * root**4) / 360.0
    total += (inverse**5 - root**5 + 5.0 * difference * root**6) / 1260.0
    return total - (inverse**7 - root**7 + 7.0 * difference * root**8) / 1680.0


@kernel
def beta_divergence(new_alpha: float, new_beta: float, alpha: float, beta: float) -> float:
    """KL(Beta(new) || Beta(old))."""
    apart = log_gamma_bregman(alpha, new_alpha) + log_gamma_bregman(beta, new_beta)
    return max(apart - log_gamma_bregman(alpha + beta, new_alpha + new_beta), 0.0)


@kernel
def pair_odds(mean_i: float, mean_j: float) -> float:
    """e^(mu_j - mu_i)."""
    return math.exp(min(max(mean_j - mean_i, -WIDEST_PAIR), WIDEST_PAIR))


@kernel
def quality_gain(alpha: float, beta: float, c1: float, c2: float) -> float:
    """The expected KL of an annotator's Beta law, for a pair whose order is known to be i > j with probability C1."""
    chance = (c1 * alpha + c2 * beta) / (alpha + beta)  # (16)
    agreeing, doubting = quality_change(c1, c2, alpha, beta), quality_change(c2, c1, alpha, beta)
    gain = chance * beta_divergence(agreeing[0], agreeing[1], alpha, beta)
    return gain + (1.0 - chance) * beta_divergence(doubting[0], doubting[1], alpha, beta)


@kernel
def score_gain(
    odds: float, variance_i: float, variance_j: float, alpha: float, beta: float, kappa: float
) -> tuple[float, float, float]:
    """The expected KL of the two scores, and C1 and C2 of the pair."""
    spread = variance_i + variance_j
    c1, c2 = order_chances(odds, 1.0 / (1.0 + odds), spread)
    chance = (c1 * alpha + c2 * beta) / (alpha + beta)
    gain = 0.0
    for outcome in range(2):
        weight = chance if outcome == 0 else 1.0 - chance
        force, bend, _, _ = crowd_bt_change(odds if outcome == 0 else 1.0 / odds, alpha, beta, spread)
        bits = spread * force * force
        bits += shrinkage_divergence(max(1.0 + variance_i * bend, kappa))
        bits += shrinkage_divergence(max(1.0 + variance_j * bend, kappa))
        gain += 0.5 * weight * bits
    return gain, c1, c2


@kernel
def expected_gain(
    mean_i: float,
    variance_i: float,
    mean_j: float,
    variance_j: float,
    alpha: float,
    beta: float,
    gamma: float,
    kappa: float,
) -> float:
    """Equation 10."""
    of_scores, c1, c2 = score_gain(pair_odds(mean_i, mean_j), variance_i, variance_j, alpha, beta, kappa)
    return of_scores + gamma * quality_gain(alpha, beta, c1, c2) if gamma > 0.0 else of_scores


@kernel
def asked_items(
    odds: float, variance_i: float, variance_j: float, alpha: float, beta: float, kappa: float
) -> tuple[float, float]:
    """The variances to expect after the answer; where the expansion of C1 would have them grow, they stay."""
    spread = variance_i + variance_j
    c1, c2 = order_chances(odds, 1.0 / (1.0 + odds), spread)
    chance = (c1 * alpha + c2 * beta) / (alpha + beta)
    _, bend, _, _ = crowd_bt_change(odds, alpha, beta, spread)
    _, bend_back, _, _ = crowd_bt_change(1.0 / odds, alpha, beta, spread)
    of_i = chance * max(1.0 + variance_i * bend, kappa) + (1.0 - chance) * max(1.0 + variance_i * bend_back, kappa)
    of_j = chance * max(1.0 + variance_j * bend, kappa) + (1.0 - chance) * max(1.0 + variance_j * bend_back, kappa)
    return variance_i * min(of_i, 1.0), variance_j * min(of_j, 1.0)


@kernel
def asked_annotator(alpha: float, beta: float, c1: float, c2: float) -> tuple[float, float]:
    """The Beta law with the same mean and the expected variance after the answer."""
    total = alpha + beta
    chance = (c1 * alpha + c2 * beta) / total
    left = 0.0
    for outcome in range(2):
        a, b = quality_change(c1, c2, alpha, beta) if outcome == 0 else quality_change(c2, c1, alpha, beta)
        left += (chance if outcome == 0 else 1.0 - chance) * a * b / ((a + b) * (a + b) * (a + b + 1.0))
    growth = max((alpha * beta / (total * total * left) - 1.0) / total, 1.0)  # 1 where an even pair tells nothing
    return alpha * growth, beta * growth
