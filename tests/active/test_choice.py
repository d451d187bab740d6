"""The choice of questions: pruned equals exhaustive, nothing is asked twice, limits hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from literal_gain import triples

from distrank.active.asked import asked_set
from distrank.active.batch import Batch, BatchSettings, Beliefs, choose_batch, even_limit
from distrank.active.search import find_best
from distrank.active.trees import crowd_of, item_tree
from distrank.errors import UsageError
from distrank.kernels.gain import asked_annotator, asked_items, expected_gain, pair_odds, score_gain
from distrank.kernels.random import round_key

KAPPA = 1e-4
PATIENT = 10**9
seeds = st.integers(0, 2**32 - 1)
gammas = st.sampled_from([0.0, 1.0, 5.0, 30.0])


def some_beliefs(seed: int, queries: int = 1) -> Beliefs:
    """Few of everything, wide and narrow, tied and distinct."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 5, queries) if queries > 1 else rng.integers(2, 8, 1)
    count, people = int(sizes.sum()), int(rng.integers(1, 7))
    items = np.column_stack(
        [rng.normal(0.0, rng.choice([0.1, 1.0, 4.0]), count), rng.choice([0.1, 1.0, 5.0]) * rng.gamma(3.0, 0.3, count)]
    )
    crowd = rng.gamma(2.0, rng.choice([0.5, 5.0]), (people, 2)) + 0.1
    if rng.random() < 0.3:
        items = np.round(items) + np.array([0.0, 0.5])
    if rng.random() < 0.3:
        crowd[:] = [10.0, 1.0]
    return Beliefs(items, np.concatenate([[0], np.cumsum(sizes)]), crowd)


def gain_of(items: np.ndarray, crowd: np.ndarray, i: int, j: int, k: int, gamma: float) -> float:
    return float(expected_gain(*items[i], *items[j], *crowd[k], gamma, KAPPA))


@given(seeds, gammas)
def test_the_pruned_search_finds_what_the_exhaustive_one_finds(seed: int, gamma: float) -> None:
    beliefs = some_beliefs(seed)
    rng = np.random.default_rng(seed)
    items, crowd = beliefs.items, beliefs.annotators
    everything = list(triples(beliefs.queries, range(len(crowd))))
    asked = [everything[n] for n in rng.permutation(len(everything))[: rng.integers(0, len(everything))]]
    left = {triple: gain_of(items, crowd, *triple, gamma) for triple in set(everything) - set(asked)}
    columns = np.array(asked, np.int64).reshape(-1, 3).T
    tree = item_tree(items, rng.permutation(len(items)), beliefs.queries)
    boxes = crowd_of(crowd.copy(), rng.permutation(len(crowd)), lessons=gamma > 0.0)
    gain, i, j, k, tolerance, _ = find_best(
        tree, items, 0, boxes, gamma, KAPPA, asked_set(tuple(columns), 1), PATIENT, round_key(seed, 0, 0, 0, "t"), 0
    )
    assert tolerance <= 1e-9
    assert gain == pytest.approx(max(left.values()), rel=2e-9)
    assert gain == left[i, j, k]


@given(seeds, gammas, st.integers(1, 12))
def test_every_question_of_a_batch_is_the_best_one_left(seed: int, gamma: float, budget: int) -> None:
    """Replayed: after every question, under the beliefs to expect, no triple that may be asked gains more."""
    beliefs = some_beliefs(seed, queries=1 + seed % 3)
    limit = 1 + seed % 4
    batch = choose_batch(beliefs, budget, BatchSettings(gamma=gamma, per_annotator=limit, patience=PATIENT, seed=seed))
    items, crowd = beliefs.items.copy(), beliefs.annotators.copy()
    left = set(triples(beliefs.queries, range(len(crowd))))
    used = np.zeros(len(crowd), int)
    for row in range(budget):
        allowed = {t: gain_of(items, crowd, *t, gamma) for t in left if used[t[2]] < limit}
        if not allowed:
            assert len(batch) == row
            return
        i, j = sorted((int(batch.first[row]), int(batch.second[row])))
        k = int(batch.annotator[row])
        assert batch.gain[row] == pytest.approx(max(allowed.values()), rel=2e-9)
        assert allowed[i, j, k] == pytest.approx(batch.gain[row], rel=1e-12)
        odds = pair_odds(items[i, 0], items[j, 0])
        _, c1, c2 = score_gain(odds, items[i, 1], items[j, 1], *crowd[k], KAPPA)
        expected = asked_items(odds, items[i, 1], items[j, 1], *crowd[k], KAPPA)
        crowd[k] = asked_annotator(*crowd[k], c1, c2)
        items[i, 1], items[j, 1] = expected
        left.remove((i, j, k))
        used[k] += 1
    assert len(batch) == budget


def triples_of(batch: Batch) -> set[tuple[int, int, int]]:
    rows = zip(batch.first.tolist(), batch.second.tolist(), batch.annotator.tolist(), strict=True)
    return {(min(i, j), max(i, j), k) for i, j, k in rows}


@given(seeds, st.floats(0.0, 1.0))
@settings(max_examples=40)
def test_nothing_is_asked_twice_and_pairs_stay_within_their_query(seed: int, epsilon: float) -> None:
    beliefs = some_beliefs(seed, queries=3)
    first = choose_batch(beliefs, 5, BatchSettings(gamma=1.0, epsilon=epsilon, seed=seed))
    columns = first.first, first.second, first.annotator
    second = choose_batch(beliefs, 100_000, BatchSettings(gamma=1.0, seed=seed + 1), asked=columns)
    assert len(triples_of(first)) == len(first)
    assert not triples_of(first) & triples_of(second)
    everything = set(triples(beliefs.queries, range(len(beliefs.annotators))))
    assert triples_of(first) | triples_of(second) == everything


def fresh(items: int, annotators: int) -> Beliefs:
    return Beliefs(np.tile([0.0, 1.0], (items, 1)), np.array([0, items]), np.tile([10.0, 1.0], (annotators, 1)))


def test_a_batch_does_not_ask_for_the_same_thing() -> None:
    """Where nothing is known, every item is asked about once before any is asked about again."""
    batch = choose_batch(fresh(40, 30), 20)
    assert len(np.unique(np.concatenate([batch.first, batch.second]))) == 40
    assert len(np.unique(batch.annotator)) > 8  # ties go by chance, not to the first


def test_ties_go_by_chance() -> None:
    """First questions under many seeds: every item and every annotator comes up about as often as any other."""
    first = [choose_batch(fresh(6, 5), 1, BatchSettings(seed=seed)) for seed in range(600)]
    items = np.bincount(np.concatenate([(*b.first, *b.second) for b in first]), minlength=6)
    people = np.bincount([int(b.annotator[0]) for b in first], minlength=5)
    assert (np.abs(items - 200) < 60).all()
    assert (np.abs(people - 120) < 50).all()


def test_same_seed_same_questions() -> None:
    beliefs = some_beliefs(7)
    one, two = (choose_batch(beliefs, 9, BatchSettings(gamma=2.0, epsilon=0.3, seed=4)) for _ in range(2))
    for name in ("first", "second", "annotator", "gain"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_gamma_is_halved_after_every_quarter() -> None:
    batch = choose_batch(fresh(30, 10), 8, BatchSettings(gamma=8.0, gamma_decay=True))
    assert batch.gamma.tolist() == [8.0, 8.0, 4.0, 4.0, 2.0, 2.0, 1.0, 1.0]


def test_only_available_annotators_are_asked_up_to_their_limit() -> None:
    beliefs = fresh(30, 10)
    few = Beliefs(beliefs.items, beliefs.queries, beliefs.annotators, np.array([3, 7]))
    batch = choose_batch(few, 50, BatchSettings(per_annotator=4))
    assert np.bincount(batch.annotator, minlength=10).tolist() == [0, 0, 0, 4, 0, 0, 0, 4, 0, 0]
    assert even_limit(50, 10) == 20
    assert even_limit(1, 10) == 1


def test_the_tolerance_of_an_impatient_search_is_certified() -> None:
    rng = np.random.default_rng(3)
    items = np.column_stack([rng.normal(0.0, 1.0, 60), 0.2 + 0.3 * rng.random(60)])
    beliefs = Beliefs(items, np.array([0, 60]), rng.gamma(3.0, 3.0, (40, 2)) + 0.5)
    best = choose_batch(beliefs, 1, BatchSettings(gamma=5.0, patience=PATIENT))
    hasty = choose_batch(beliefs, 1, BatchSettings(gamma=5.0, patience=20))
    assert hasty.tolerance[0] > 1e-4
    assert best.gain[0] <= hasty.gain[0] * (1.0 + hasty.tolerance[0])


def test_beliefs_that_cannot_be_are_refused() -> None:
    with pytest.raises(UsageError, match="variances above 0"):
        choose_batch(Beliefs(np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([0, 2]), np.ones((1, 2))), 1)
    with pytest.raises(UsageError, match="at least one"):
        choose_batch(fresh(3, 3), 0)
