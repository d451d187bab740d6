"""Passes over labels: the fast path against the general one, and derivatives against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from distrank.kernels import easiness, labels


def random_labels(seed: int, items: int, annotators: int, grades: int, most: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    rows = np.concatenate([[0], np.cumsum(rng.integers(0, most, items))]).astype(np.int64)
    cell = rng.integers(annotators * grades, size=int(rows[-1])).astype(np.uint32)
    known = np.where(rng.random(items) < 0.2, rng.integers(grades, size=items), -1).astype(np.int16)
    return rows, cell, known


@pytest.mark.parametrize("most", [4, 400, 20_000])
def test_two_grades_are_the_general_case(most: int) -> None:
    """Also where the odds of an item leave the range of floats."""
    rows, cell, known = random_labels(1, 30, 7, 2, most)
    rng = np.random.default_rng(2)
    prior = np.array([0.3, 0.7])
    right = rng.uniform(0.02, 0.98, (7, 2))
    confusion = np.stack([np.stack([right[:, 0], 1 - right[:, 0]], 1), np.stack([1 - right[:, 1], right[:, 1]], 1)], 1)
    table = np.swapaxes(confusion, 1, 2).reshape(-1, 2)
    upper, post = np.zeros(14), np.empty((30, 2))
    value, items = labels.two_grades(rows, cell, known, prior[1] / prior[0], table[:, 1] / table[:, 0], upper, post)
    count = np.bincount(cell, minlength=14)
    value += 30 * np.log(prior[0]) + count @ np.log(table[:, 0])
    sums, classes, expected = np.zeros((14, 2)), np.zeros(2), np.empty((30, 2))
    logs = np.log(table)
    general = labels.many_grades(rows, cell, None, known, np.log(prior), logs, sums, classes, expected)
    assert value == pytest.approx(general, rel=1e-12)
    np.testing.assert_allclose(post, expected, atol=1e-12)
    np.testing.assert_allclose(upper, sums[:, 1], rtol=1e-9, atol=1e-9)
    assert items == pytest.approx(classes[1], abs=1e-9)


def test_a_weight_is_an_exponent() -> None:
    rows, cell, known = random_labels(3, 20, 5, 3, 6)
    weight = np.full(len(cell), 2.0)
    logs = np.log(np.random.default_rng(4).dirichlet(np.ones(3), 15))
    prior = np.log([0.2, 0.3, 0.5])
    twice = np.repeat(cell, 2)
    sums, other, classes = np.zeros((15, 3)), np.zeros((15, 3)), np.zeros(3)
    weighted = labels.many_grades(rows, cell, weight, known, prior, logs, sums, classes.copy(), None)
    repeated = labels.many_grades(2 * rows, twice, None, known, prior, logs, other, classes.copy(), None)
    assert weighted == pytest.approx(repeated, rel=1e-12)
    np.testing.assert_allclose(sums, other, rtol=1e-12)


def ability_pass(ability: np.ndarray, data: tuple[np.ndarray, ...], grades: int) -> tuple[float, dict[str, np.ndarray]]:
    rows, cell, known = data
    out = {name: np.zeros(len(ability)) for name in ("slope", "bound", "chance")}
    out["easiness"], out["classes"] = np.empty(len(rows) - 1), np.zeros(grades)
    prior = np.log(np.arange(1.0, grades + 1.0) / np.arange(1.0, grades + 1.0).sum())
    value = easiness.ability_pass(
        rows, cell // np.uint32(grades), (cell % grades).astype(np.uint8), None, known, ability, prior,
        np.zeros(len(rows) - 1), out["easiness"], out["slope"], out["bound"], out["chance"], out["classes"], None,
    )  # fmt: skip
    return value, out


@pytest.mark.parametrize("grades", [2, 4])
def test_the_slope_of_glad_is_the_derivative_of_the_profile(grades: int) -> None:
    """Easiness is at its maximum, so it does not matter for the derivative that it moves along."""
    data = random_labels(5, 60, 6, grades, 8)
    ability = np.random.default_rng(6).normal(1.0, 1.0, 6)
    _, out = ability_pass(ability, data, grades)
    for w in range(6):
        step = 1e-4 * np.eye(6)[w]
        ahead, behind = ability_pass(ability + step, data, grades)[0], ability_pass(ability - step, data, grades)[0]
        assert out["slope"][w] == pytest.approx((ahead - behind) / 2e-4, abs=2e-4)


def test_the_closed_step_of_glad_never_goes_down() -> None:
    """The parabola lies below the expected log-likelihood everywhere: also from far away the step gains."""
    for seed in range(20):
        data = random_labels(seed, 40, 5, 3, 7)
        ability = np.random.default_rng(seed).normal(0.0, 4.0, 5)
        value, out = ability_pass(ability, data, 3)
        away = ability - 1.0
        new = ability + (out["slope"] - away) / (out["bound"] + 1.0)
        rows, cell, known = data
        settled = np.empty(len(rows) - 1)
        after = easiness.ability_pass(
            rows, cell // np.uint32(3), (cell % 3).astype(np.uint8), None, known, new,
            np.log(np.array([1.0, 2.0, 3.0]) / 6.0), out["easiness"], settled, np.zeros(5), np.zeros(5), np.zeros(5),
            np.zeros(3), None,
        )  # fmt: skip
        assert after - 0.5 * ((new - 1.0) ** 2).sum() >= value - 0.5 * (away**2).sum() - 1e-9
