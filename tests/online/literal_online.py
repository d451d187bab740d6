"""Equations 12-19 of [Chen13] and the two-player update of TrueSkill, as printed, row by row, in 60 digits."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, localcontext

from scipy.stats import norm

Row = tuple[int, int, int]  # annotator, winner, loser
Pair = tuple[float, float]


def c1_of(mu_i: Decimal, mu_j: Decimal, var_i: Decimal, var_j: Decimal) -> Decimal:
    """Equation 19, s^mu read as e^mu."""
    a, b = mu_i.exp(), mu_j.exp()
    return a / (a + b) + (var_i + var_j) / 2 * a * b * (b - a) / (a + b) ** 3


def brackets(mu_i: Decimal, mu_j: Decimal, alpha: Decimal, beta: Decimal) -> tuple[Decimal, Decimal]:
    """What stands in the brackets of equations 12 and 14."""
    a, b = mu_i.exp(), mu_j.exp()
    force = alpha * a / (alpha * a + beta * b) - a / (a + b)
    bend = alpha * a * beta * b / (alpha * a + beta * b) ** 2 - a * b / (a + b) ** 2
    return force, bend


def crowd_bt_update(items: list[Pair], annotators: list[Pair], row: Row, kappa: float = 1e-4) -> None:
    """One preference changes two items (mean, variance) and an annotator (alpha, beta)."""
    k, i, j = row
    with localcontext() as context:
        context.prec = 60
        mu_i, var_i, mu_j, var_j = (Decimal(x) for x in (*items[i], *items[j]))
        alpha, beta = (Decimal(x) for x in annotators[k])
        force, bend = brackets(mu_i, mu_j, alpha, beta)
        items[i] = (float(mu_i + var_i * force), float(var_i * max(1 + var_i * bend, Decimal(kappa))))  # 12, 14
        items[j] = (float(mu_j - var_j * force), float(var_j * max(1 + var_j * bend, Decimal(kappa))))  # 13, 15
        c1 = c1_of(mu_i, mu_j, var_i, var_j)
        c1 = min(max(c1, Decimal("1e-6")), Decimal("0.999999"))
        c2 = 1 - c1
        total = alpha + beta
        c = (c1 * alpha + c2 * beta) / total  # 16
        first = (c1 * (alpha + 1) * alpha + c2 * alpha * beta) / (c * (total + 1) * total)
        second = (c1 * (alpha + 2) * (alpha + 1) * alpha + c2 * (alpha + 1) * alpha * beta) / (
            c * (total + 2) * (total + 1) * total
        )
        size = (first - second) / (second - first * first)
        annotators[k] = (float(size * first), float(size * (1 - first)))  # 17, 18


def crowd_bt_pass(items: list[Pair], annotators: list[Pair], rows: Iterable[Row], kappa: float = 1e-4) -> None:
    for row in rows:
        crowd_bt_update(items, annotators, row, kappa)


def trueskill_update(items: list[Pair], winner: int, loser: int, beta: float, tau: float) -> None:
    """One win; items are (mean, standard deviation)."""
    (mu_w, sigma_w), (mu_l, sigma_l) = items[winner], items[loser]
    var_w, var_l = sigma_w**2 + tau**2, sigma_l**2 + tau**2
    c = (2 * beta**2 + var_w + var_l) ** 0.5
    t = (mu_w - mu_l) / c
    v = norm.pdf(t) / norm.cdf(t)
    w = v * (v + t)
    items[winner] = (mu_w + var_w / c * v, (var_w * (1 - var_w / c**2 * w)) ** 0.5)
    items[loser] = (mu_l - var_l / c * v, (var_l * (1 - var_l / c**2 * w)) ** 0.5)
