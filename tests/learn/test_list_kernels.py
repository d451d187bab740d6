"""The kernels of rankings against enumeration of all rankings."""

from __future__ import annotations

from itertools import permutations
from math import exp, log

import literal_lists as literal
import numpy as np
import pytest

from distrank.kernels import lists, mallows, metropolis, plackett_luce, subsets, top_chain

CLOSE = 1e-9
THETAS = (-15.0, -3.0, -0.5, -1e-2, -1e-7, 0.0, 1e-9, 1e-3, 0.4, 2.5)
KEY = np.array([3, 5], np.uint64)
UNIT = np.uint64(7)


def enumerated(distances: list[float], theta: float) -> tuple[float, float, float]:
    values = np.array(distances)
    exponent = theta * values
    weight = np.exp(exponent - exponent.max())
    share = weight / weight.sum()
    mean = float(share @ values)
    return log(weight.sum()) + exponent.max(), mean, float(share @ (values - mean) ** 2)


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize("items", [1, 2, 3, 6])
def test_whole_lists(items: int, theta: float) -> None:
    true = {item: item for item in range(items)}
    distances = [float(literal.kendall(y, true)) for y in permutations(range(items))]
    assert mallows.moments(items, items, theta) == pytest.approx(enumerated(distances, theta), rel=CLOSE, abs=CLOSE)


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize(("items", "chosen"), [(2, 1), (4, 2), (5, 3), (6, 3), (5, 4), (7, 2)])
def test_lists_that_stop(items: int, chosen: int, theta: float) -> None:
    true = tuple(range(chosen))
    distances = [literal.top_distance(true, other) for other in literal.top_lists(items, chosen)]
    found = mallows.moments(items, chosen, theta)
    assert found == pytest.approx(enumerated(distances, theta), rel=CLOSE, abs=CLOSE)


@pytest.mark.parametrize("theta", THETAS)
def test_ties_are_orders_that_were_forgotten(theta: float) -> None:
    """Six items told apart in groups of 1, 3 and 2: sums over all ways to form the groups."""
    true = {item: item for item in range(6)}
    groupings = set()
    for y in permutations(range(6)):
        groupings.add((y[:1], tuple(sorted(y[1:4])), tuple(sorted(y[4:]))))
    distances = []
    for groups in groupings:
        levels = {item: level for level, group in enumerate(groups) for item in group}
        distances.append(float(literal.kendall(tuple(true), levels)))
    owner, size = np.zeros(3, np.int64), np.array([6, 3, 2])
    found = mallows.log_evidence(owner, size, size, np.array([1.0, -1.0, -1.0]), np.array([theta]))
    assert [float(part[0]) for part in found] == pytest.approx(enumerated(distances, theta), rel=CLOSE, abs=CLOSE)


@pytest.mark.parametrize("theta", [-2.0, -0.3, 0.0, 0.7])
def test_theta_is_found_from_its_own_expectation(theta: float) -> None:
    """(16) for an annotator with lists of 4, 9 and top-3 of 8 items; one without lists keeps the start."""
    kinds, items, chosen = np.array([0, 3, 3]), np.array([4, 9, 8]), np.array([4, 9, 3])
    count = np.array([2.0, 1.0, 5.0])
    owner = np.zeros(3, np.int64)
    _, mean, _ = mallows.log_evidence(owner, items, chosen, count, np.array([theta]))
    found = mallows.fitted_theta(kinds, items, chosen, count, np.array([mean[0], 0.0]), np.array([-1.0, -1.3]))
    assert found == pytest.approx([theta, -1.3], abs=1e-10)


def test_an_annotator_without_mistakes_is_very_good_and_not_infinite() -> None:
    five = np.array([5])
    found = mallows.fitted_theta(np.array([0, 1]), five, five, np.array([3.0]), np.array([0.0]), np.array([-1.0]))
    assert found[0] == pytest.approx(-mallows.STEEPEST)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_top_distances(k: int) -> None:
    scratch = np.empty(k + 1, np.int64)
    every = literal.top_lists(6, k)
    rng = np.random.default_rng(k)
    for one in every[:: max(len(every) // 30, 1)]:
        for other in rng.permutation(every)[:60]:
            place = np.full(6, -1)
            place[other] = np.arange(k)
            expected = literal.top_distance(one, tuple(other))
            assert lists.top_distance(np.array(one), place, k, scratch) == expected
            assert literal.top_distance(tuple(other), one) == expected  # a distance has no direction


def test_top_distance_of_whole_lists_is_kendalls() -> None:
    scratch = np.empty(6, np.int64)
    for y in permutations(range(5)):
        place = np.arange(5)
        expected = literal.kendall(y, {item: item for item in range(5)})
        assert lists.top_distance(np.array(y), place, 5, scratch) == expected


@pytest.mark.parametrize("stages", [1, 3, 6])
@pytest.mark.parametrize("spread", [1.0, 40.0, 2000.0])
def test_plackett_luce_and_its_gradient(stages: int, spread: float) -> None:
    rng = np.random.default_rng(stages)
    score, order = spread * rng.normal(size=6), rng.permutation(6)
    residual = np.zeros(6)
    value = plackett_luce.log_likelihood(order, stages, score, residual, 1.0)
    if spread < 100.0:
        assert value == pytest.approx(literal.plackett_luce(tuple(order), score, stages), rel=CLOSE)
    for item in range(6):
        ends = []
        for sign in (1.0, -1.0):
            moved = score.copy()
            moved[item] += sign * 1e-5
            ends.append(plackett_luce.log_likelihood(order, stages, moved, np.zeros(6), 0.0))
        assert residual[item] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-6 * max(spread, 1.0))
    assert residual.sum() == pytest.approx(0.0, abs=1e-12)  # scores are known up to a shift


def test_top_lists_of_plackett_luce_add_up_to_one() -> None:
    score = np.random.default_rng(1).normal(size=5)
    total = 0.0
    for chosen in literal.top_lists(5, 2):
        rest = [item for item in range(5) if item not in chosen]
        order = np.array([*chosen, *rest])
        total += exp(plackett_luce.log_likelihood(order, 2, score, np.zeros(5), 0.0))
    assert total == pytest.approx(1.0, abs=CLOSE)


class Case:
    """Six items, three lists (one of five items, one with ties), scores, and grades for some."""

    def __init__(self, seed: int, *, sharp: float = 1.0, graded: bool = False, items: int = 6) -> None:
        rng = np.random.default_rng(seed)
        self.score = sharp * rng.normal(size=items)
        self.theta = [-0.8 * sharp, -0.3 * sharp, 0.4 * sharp]
        full, part = rng.permutation(items), rng.permutation(items)[: items - 1]
        self.rows = [
            (full, np.arange(items)),
            (part, np.arange(items - 1)),
            (rng.permutation(items), np.arange(items) // 2),
        ]
        self.levels = [dict(zip(item.tolist(), level.tolist(), strict=True)) for item, level in self.rows]
        self.grade = np.full(items, np.nan)
        if graded:
            self.grade[:4] = [1.0, 3.0, 2.0, 2.0]
        self.weight = np.zeros((items, items))
        for (item, level), theta in zip(self.rows, self.theta, strict=True):
            lists.add_list(self.weight, item, level, theta)
        lists.add_gold(self.weight, self.grade)
        self.literal = literal.Posterior(self.score, self.levels, self.theta, self.grade)

    def exact(self) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        n = len(self.score)
        choice, best, before = np.zeros((1 << n, n)), np.zeros(n, np.int64), np.zeros((n, n))
        total = subsets.posterior(self.weight, self.score, choice, best)
        subsets.pair_probabilities(choice, n, before)
        return total, best, before, choice


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("sharp", [0.1, 1.0, 8.0, 60.0])
def test_the_subset_programme_is_the_sum_over_all_rankings(sharp: float, graded: bool) -> None:
    for seed in range(4):
        case = Case(seed, sharp=sharp, graded=graded)
        total, best, before, choice = case.exact()
        assert total == pytest.approx(case.literal.log_total, rel=CLOSE)
        assert tuple(best) == case.literal.best
        np.testing.assert_allclose(before, case.literal.before(6), atol=CLOSE)
        for (item, level), levels in zip(case.rows, case.levels, strict=True):
            found = lists.list_distance(before, item, level)
            assert found == pytest.approx(case.literal.expected_distance(levels), abs=CLOSE)
        other, residual = 0.7 * case.score + 0.2, np.zeros(6)
        reached = subsets.occupancy(choice, 6)
        value = subsets.expected_likelihood(reached, other, residual)
        assert value == pytest.approx(case.literal.expected_likelihood(other), rel=CLOSE)
        for item in range(6):
            step = np.zeros(6)
            step[item] = 1e-6
            ends = [subsets.expected_likelihood(reached, other + sign * step, np.zeros(6)) for sign in (1.0, -1.0)]
            assert residual[item] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-6 * max(sharp, 1.0))


@pytest.mark.parametrize("graded", [False, True])
def test_the_chain_samples_the_exact_posterior(graded: bool) -> None:
    case = Case(11, graded=graded)
    _, best, before, _ = case.exact()
    order = np.array(case.literal.best)
    peak_order, found, kept = order[::-1].copy(), np.zeros((6, 6)), np.zeros((4, 6), np.int64)
    steps = 400_000
    peak, accepted, effective = metropolis.walk(
        case.weight, case.score, order, peak_order, steps, KEY, UNIT, found, kept
    )
    assert tuple(peak_order) == tuple(best)
    assert peak == pytest.approx(case.literal.log_joint.max(), abs=1e-8)
    assert 0 < accepted < steps
    error = 5.0 * 0.5 / np.sqrt(effective)  # five standard errors of a share
    assert effective > 5_000
    np.testing.assert_allclose(found, before, atol=error)
    assert tuple(kept[-1]) == tuple(order)


def test_the_chain_keeps_its_book_of_pairs() -> None:
    """Shares of pairs add up to one, and a chain of one step is the state after it."""
    case = Case(2)
    order, found = np.arange(6), np.zeros((6, 6))
    for steps in (1, 7, 500):
        metropolis.walk(
            case.weight, case.score, order, order.copy(), steps, KEY, UNIT, found, np.zeros((0, 6), np.int64)
        )
        np.testing.assert_allclose(found + found.T, 1.0 - np.eye(6), atol=1e-12)
    metropolis.walk(case.weight, case.score, order, order.copy(), 1, KEY, UNIT, found, np.zeros((0, 6), np.int64))
    place = np.argsort(order)
    np.testing.assert_array_equal(found, place[:, None] < place[None, :])


@pytest.mark.parametrize("graded", [False, True])
def test_the_top_chain_samples_the_exact_posterior(graded: bool) -> None:
    """Lists of 3 of 7 items; two annotators, one of whom stopped after 2."""
    rng = np.random.default_rng(5)
    score, theta = rng.normal(size=7), np.array([-0.6, -0.3])
    others = [(4, 1, 6), (1, 2)]
    grade = np.full(7, np.nan)
    if graded:
        grade[[0, 1, 4]] = [2.0, 1.0, 1.0]
    higher = np.array([float(np.sum(grade > g)) if not np.isnan(g) else 0.0 for g in grade])
    every = literal.top_lists(7, 3)
    log_joint = np.array([literal.plackett_luce(y, score, 3) for y in every])
    distances = np.array([[literal.top_distance(y[: len(o)], o) for o in others] for y in every])
    log_joint += distances @ theta
    for number, y in enumerate(every):
        wrong = sum(grade[b] > grade[a] and b not in y[:i] for i, a in enumerate(y) for b in range(7))
        log_joint[number] -= 1e6 * wrong
    share = np.exp(log_joint - log_joint.max())
    share /= share.sum()
    place = np.full((2, 7), -1)
    for j, other in enumerate(others):
        place[j, list(other)] = np.arange(len(other))
    chosen, best = np.array([0, 1, 2]), np.array([0, 1, 2])
    expected, kept = np.zeros(2), np.zeros((20_000, 3), np.int64)
    named = np.array([1, 2, 4, 6])
    arrays = (score, grade, higher, place, np.array([3, 2]), theta, named, chosen, best)
    _, accepted, effective = top_chain.walk_top(*arrays, 400_000, KEY, UNIT, expected, kept)
    assert accepted > 1_000
    assert effective > 2_000
    assert tuple(best) == every[int(share.argmax())]
    np.testing.assert_allclose(expected, share @ distances, atol=5.0 * distances.std() / np.sqrt(effective))
    first = np.bincount(kept[:, 0], minlength=7) / len(kept)
    exact_first = np.bincount([y[0] for y in every], share, minlength=7)
    np.testing.assert_allclose(first, exact_first, atol=5.0 * 0.5 / np.sqrt(effective))
