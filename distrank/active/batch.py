"""A batch of questions: N triples of largest expected gain that do not ask N times for the same thing.

Answers come in only after the whole batch was asked, so the beliefs cannot follow them. Instead every question that is
chosen changes the beliefs by what is expected of its answer (`kernels.gain`): no mean moves, and of the variances of
its two items and of its annotator's quality there is left what is expected to be left. The next question is the best
one under those beliefs. A pair, an item or an annotator that was just asked about has less to tell, and others come
first; the reported gain is that of the question on top of those before it.

Queries share nothing but annotators. The best triple of a query stays the best while neither the query nor that
annotator was asked anything more, because questions to others only lower gains; so queries wait in a heap by the gain
they had when they were last searched, and only those that come to its top are searched again.

[Chen13] Chen, Bennett, Collins-Thompson, Horvitz: Pairwise ranking aggregation in a crowdsourced setting. WSDM 2013.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distrank.active.asked import add_asked, asked_set, is_asked, triple_word
from distrank.active.search import PATIENCE, find_best
from distrank.active.trees import Crowd, Tree, crowd_of, item_tree, learn_annotator, place_member, remove_annotator
from distrank.errors import UsageError
from distrank.kernels import kernel
from distrank.kernels.gain import asked_annotator, asked_items, expected_gain, pair_odds
from distrank.kernels.gain_bounds import LEAST_COUNT
from distrank.kernels.online import order_chances
from distrank.kernels.random import round_key, uniform
from distrank.records import Array
from distrank.settings import setting

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
Report = Callable[[dict[str, Any]], None]

CHUNK = 100  # tasks between two lines of progress
SPREAD = 4.0  # the best annotators get at most this many times an even share of a batch
RANDOM_SHARE = 0.2  # of a batch by default: finds out who was trusted by mistake (scripts/reproduce/active.py)
TRIES = 1_000  # random triples that may turn out to be asked already, before there are taken to be none left


@dataclass(frozen=True)
class BatchSettings:
    """How questions are chosen."""

    gamma: float = setting(
        0.0, "weight of what is learned about annotators beside what is learned about items", low=0.0, high=1e6
    )
    gamma_decay: bool = setting(False, "halve gamma after every quarter of the budget")
    epsilon: float = setting(0.0, "share of the questions that are drawn at random", low=0.0, high=1.0)
    per_annotator: int | None = setting(None, "most questions to one annotator; none: no limit", low=1)
    variance_floor: float = setting(
        1e-4, "least factor kappa by which one judgment shrinks a variance", above=0.0, high=1.0
    )
    patience: int = setting(PATIENCE, "boxes a search looks at before a triple near the best will do", low=1)
    seed: int = setting(0, "breaks ties, draws random questions")


@dataclass(frozen=True)
class Beliefs:
    """What is believed of items and annotators, as codes. Items of a query stand together."""

    items: Array  # (items, 2): mean and variance of the score, in log-odds
    queries: Array  # offsets: items queries[q]..queries[q + 1] - 1 belong to query q
    annotators: Array  # (annotators, 2): alpha and beta
    available: Array | None = None  # codes of the annotators who can be asked; None: all of them


@dataclass(frozen=True)
class Batch:
    """Questions in the order in which they were chosen."""

    query: Array
    first: Array  # items
    second: Array
    annotator: Array
    gain: Array  # expected, on top of the questions before it
    gamma: Array  # that it was chosen with
    drawn: Array  # True where chance chose it
    tolerance: Array  # how far, in relation to its gain, the best question could be above it

    def __len__(self) -> int:
        return len(self.query)


class _State(NamedTuple):
    """What choosing goes on from: beliefs, trees and, by query, the best triple at the last search."""

    items: Array
    query_of: Array
    queries: Array
    pairs: Array  # cumulative pairs of queries
    tree: Tree
    crowd: Crowd
    available: Array
    asked: Array
    used: Array  # questions of every annotator in this batch
    heap: Array  # queries, the largest key first
    key: Array
    found: Array  # (queries, 3): items and annotator
    tolerance: Array
    searched: Array  # when: the number of questions chosen before
    query_changed: Array
    annotator_changed: Array


class _Tasks(NamedTuple):
    """Where chosen questions are written."""

    query: Array
    first: Array
    second: Array
    annotator: Array
    gain: Array
    drawn: Array
    tolerance: Array


def even_limit(budget: int, annotators: int) -> int:
    """The most questions to one annotator that a batch has by default: SPREAD times an even share."""
    return max(math.ceil(SPREAD * budget / max(annotators, 1)), 1)


def choose_batch(
    beliefs: Beliefs,
    budget: int,
    settings: BatchSettings | None = None,
    *,
    asked: tuple[Array, Array, Array] | None = None,
    report: Report | None = None,
) -> Batch:
    """Up to `budget` questions, none of which is in `asked` (items, items, annotators): fewer if there are no more."""
    settings = settings or BatchSettings()
    if budget < 1:
        raise UsageError(f"budget {budget}: at least one question")
    state = _fresh_state(beliefs, budget, settings, asked)
    query, first, second, annotator = (np.empty(budget, np.int64) for _ in range(4))
    tasks = _Tasks(query, first, second, annotator, np.empty(budget), np.empty(budget, np.bool_), np.empty(budget))
    gammas = np.full(budget, settings.gamma)
    if settings.gamma_decay:
        gammas = settings.gamma * 0.5 ** (4 * np.arange(budget) // budget)
    key = round_key(settings.seed, 0, 0, 0, "choose_batch")
    done = 0
    while done < budget:
        gamma = float(gammas[done])
        end = min(done + CHUNK, budget, int(np.searchsorted(-gammas, -gamma, side="right")))
        limit = settings.per_annotator or budget
        chosen = _choose(state, tasks, done, end, gamma, settings.variance_floor, settings.epsilon, limit,
                         settings.patience, key)  # fmt: skip
        if chosen < end:
            done = chosen
            break
        done = end
        if report is not None:
            report({"stage": "choose", "questions": done, "of": budget})
        if done < budget and gammas[done] != gamma:
            state.searched[:] = -1
    return Batch(**{name: array[:done] for name, array in tasks._asdict().items()}, gamma=gammas[:done])


def _fresh_state(
    beliefs: Beliefs, budget: int, settings: BatchSettings, asked: tuple[Array, Array, Array] | None
) -> _State:
    items = np.array(beliefs.items, np.float64)
    annotators = np.maximum(np.array(beliefs.annotators, np.float64), LEAST_COUNT)
    queries = np.asarray(beliefs.queries, np.int64)
    if not (np.isfinite(items).all() and (items[:, 1] > 0.0).all() and np.isfinite(annotators).all()):
        raise UsageError("beliefs must be finite, with variances above 0")
    available = np.arange(len(annotators)) if beliefs.available is None else np.unique(beliefs.available)
    if not len(available):
        raise UsageError("there is no annotator to ask")
    sizes = np.diff(queries)
    generator = np.random.Generator(np.random.PCG64(settings.seed))
    order = generator.permutation(len(items))
    order = order[np.argsort(np.repeat(np.arange(len(sizes)), sizes)[order], kind="stable")]
    heap = np.flatnonzero(sizes > 1)
    nothing = np.zeros(0, np.int64)
    return _State(
        items=items,
        query_of=np.repeat(np.arange(len(sizes)), sizes),
        queries=queries,
        pairs=np.cumsum(sizes * (sizes - 1) // 2),
        tree=item_tree(items, order, queries),
        crowd=crowd_of(annotators, generator.permutation(available), lessons=settings.gamma > 0.0),
        available=available.astype(np.int64),
        asked=asked_set(asked or (nothing, nothing, nothing), budget),
        used=np.zeros(len(annotators), np.int64),
        heap=generator.permutation(heap),
        key=np.full(len(sizes), np.inf),
        found=np.full((len(sizes), 3), -1, np.int64),
        tolerance=np.zeros(len(sizes)),
        searched=np.full(len(sizes), -1, np.int64),
        query_changed=np.zeros(len(sizes), np.int64),
        annotator_changed=np.zeros(len(annotators), np.int64),
    )


@kernel
def _choose(
    state: _State,
    tasks: _Tasks,
    begin: int,
    end: int,
    gamma: float,
    kappa: float,
    epsilon: float,
    limit: int,
    patience: int,
    key: Words,
) -> int:
    """Questions begin..end - 1; returns where it came to an end."""
    for number in range(begin, end):
        drawn = epsilon > 0.0 and uniform(key[0], key[1], np.uint64(number), np.uint64(0)) < epsilon
        i, j, k, tolerance = -1, -1, -1, 0.0
        if drawn:
            i, j, k = _draw(state, key, number)
        else:
            q = _best_query(state, number, gamma, kappa, patience, key)
            if q >= 0:
                i, j, k, tolerance = state.found[q, 0], state.found[q, 1], state.found[q, 2], state.tolerance[q]
        if k < 0:
            return number
        tasks.query[number], tasks.annotator[number] = state.query_of[i], k
        turned = uniform(key[0], key[1], np.uint64(number), np.uint64(1)) < 0.5  # nobody is to prefer a side
        tasks.first[number], tasks.second[number] = (j, i) if turned else (i, j)
        alpha, beta = state.crowd.belief[k, 0], state.crowd.belief[k, 1]
        mean_i, variance_i, mean_j, variance_j = (
            state.items[i, 0], state.items[i, 1], state.items[j, 0], state.items[j, 1]
        )  # fmt: skip
        tasks.gain[number] = expected_gain(mean_i, variance_i, mean_j, variance_j, alpha, beta, gamma, kappa)
        tasks.drawn[number], tasks.tolerance[number] = drawn, tolerance
        _expect(state, i, j, k, kappa)
        add_asked(state.asked, triple_word(i, j, k))
        state.used[k] += 1
        if state.used[k] >= limit:
            remove_annotator(state.crowd, k)
        state.query_changed[state.query_of[i]] = state.annotator_changed[k] = number + 1
    return end


@kernel
def _expect(state: _State, i: int, j: int, k: int, kappa: float) -> None:
    """Change the beliefs by what is expected of the answer."""
    alpha, beta = state.crowd.belief[k, 0], state.crowd.belief[k, 1]
    odds = pair_odds(state.items[i, 0], state.items[j, 0])
    c1, c2 = order_chances(odds, 1.0 / (1.0 + odds), state.items[i, 1] + state.items[j, 1])
    new_i, new_j = asked_items(odds, state.items[i, 1], state.items[j, 1], alpha, beta, kappa)
    new_alpha, new_beta = asked_annotator(alpha, beta, c1, c2)
    state.items[i, 1], state.items[j, 1] = new_i, new_j
    place_member(state.tree, i, state.items[i, 0], new_i)
    place_member(state.tree, j, state.items[j, 0], new_j)
    learn_annotator(state.crowd, k, new_alpha, new_beta)


@kernel
def _best_query(state: _State, number: int, gamma: float, kappa: float, patience: int, key: Words) -> int:
    """The query whose best triple gains most, -1 if there is none; its triple is then up to date."""
    if len(state.heap) == 0:
        return -1
    while True:
        q = state.heap[0]
        if state.key[q] < 0.0:
            return -1
        k, when = state.found[q, 2], state.searched[q]
        if when >= 0 and state.query_changed[q] <= when and state.annotator_changed[k] <= when:
            return q
        counter = (number + 1) * len(state.key) + q
        gain, i, j, k, tolerance, _ = find_best(
            state.tree, state.items, q, state.crowd, gamma, kappa, state.asked, patience, key, counter
        )
        state.key[q], state.searched[q], state.tolerance[q] = gain, number, tolerance
        state.found[q, 0], state.found[q, 1], state.found[q, 2] = i, j, k
        at = 0
        while 2 * at + 1 < len(state.heap):
            child = 2 * at + 1
            if child + 1 < len(state.heap) and state.key[state.heap[child + 1]] > state.key[state.heap[child]]:
                child += 1
            if state.key[state.heap[child]] <= state.key[q]:
                break
            state.heap[at] = state.heap[child]
            at = child
        state.heap[at] = q


@kernel
def _draw(state: _State, key: Words, number: int) -> tuple[int, int, int]:
    """A triple at random among those that may be asked; -1 if none turns up."""
    total = state.pairs[-1] if len(state.pairs) else 0
    for attempt in range(TRIES if total else 0):
        place = np.uint64(2 + 4 * attempt)
        chance = [uniform(key[0], key[1], np.uint64(number), place + np.uint64(n)) for n in range(4)]
        q = np.searchsorted(state.pairs, int(chance[0] * total), side="right")
        size = state.queries[q + 1] - state.queries[q]
        first, other = int(chance[1] * size), int(chance[2] * (size - 1))
        second = other + 1 if other >= first else other
        i, j = state.queries[q] + min(first, second), state.queries[q] + max(first, second)
        k = state.available[int(chance[3] * len(state.available))]
        if state.crowd.tree.members[state.crowd.tree.leaf[k]] and not is_asked(state.asked, triple_word(i, j, k)):
            return i, j, k
    return -1, -1, -1
