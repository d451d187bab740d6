"""The loop of active learning against a simulated crowd: choose, ask, learn, choose again.  [Chen13], algorithm 1

    policy   `random`, or questions of largest expected gain with a weight gamma on what they teach about annotators

The truth is a permutation of the items; annotator k reports the true order of a pair with probability eta_k. No triple
is asked twice. Between two choices `batch` questions are asked; with one, every answer is learned before the next
choice, as in the paper.

[Chen13] Chen, Bennett, Collins-Thompson, Horvitz: Pairwise ranking aggregation in a crowdsourced setting. WSDM 2013.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from distrank.active.asked import add_asked, asked_set, triple_word
from distrank.active.batch import BatchSettings, Beliefs, choose_batch
from distrank.active.beliefs import counted_quality, informed_variance
from distrank.active.refit import refit
from distrank.active.search import find_best
from distrank.active.trees import Crowd, Tree, crowd_of, item_tree, learn_annotator, place_member
from distrank.errors import UsageError
from distrank.kernels import kernel
from distrank.kernels.gain_bounds import LEAST_COUNT
from distrank.kernels.online import crowd_bt_pass
from distrank.kernels.random import round_key, uniform
from distrank.models.crowd_bt import CrowdBTSettings
from distrank.records import Array
from distrank.settings import setting
from distrank.simulate.quality import draw_quality

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

REFIT_PRIOR = (3.0, 2.0)  # measured: scripts/reproduce/active.py
REBUILT = 200  # answers after which trees of boxes are made anew: moving members widens them
_PATIENCE = 500  # a simulation asks very many questions: those within a thousandth of the best will do sooner


@dataclass(frozen=True)
class PlaySettings:
    """A crowd, what is believed of it at the start, and a policy."""

    items: int = setting(100, "items with a true order", low=2)
    annotators: int = setting(100, "annotators", low=1)
    quality: str = setting("beta:2,1", "true quality of annotators: beta:A,B, fixed:Q or mixture:...")
    answers: int = setting(3000, "answers to collect", low=1)
    policy: Literal["active", "random"] = setting("active", "how questions are chosen", choices=("active", "random"))
    gamma: float = setting(0.0, "weight of what is learned about annotators", low=0.0)
    gamma_decay: bool = setting(False, "halve gamma after every quarter of the answers")
    epsilon: float = setting(0.0, "share of questions drawn at random", low=0.0, high=1.0)
    batch: int = setting(1, "questions that are asked at a time", low=1)
    per_annotator: int | None = setting(None, "most questions of a batch to one annotator", low=1)
    quality_prior: tuple[float, float] = setting(
        (10.0, 1.0), "Beta law of every quality at the start, as alpha,beta", low=LEAST_COUNT
    )
    gold_pairs: int = setting(0, "gold pairs that every annotator answers first, in place of the prior", low=0)
    refit_every: int = setting(0, "answers between two batch fits that correct the beliefs; 0: none", low=0)
    refit_prior: tuple[float, float] | None = setting(
        REFIT_PRIOR, "a,b of the Beta prior on quality in batch fits; none: maximum likelihood", low=1.0
    )
    variance_floor: float = setting(1e-4, "least factor by which one answer shrinks a variance", above=0.0, high=1.0)
    seed: int = setting(0, "same seed, same crowd and same answers")


@dataclass(frozen=True)
class Played:
    """Accuracy (share of pairs in the true order; equation 20) after so many answers, and what was answered."""

    after: tuple[int, ...]
    accuracy: tuple[float, ...]  # by the online means
    refitted: tuple[float, ...]  # by a batch fit on the same answers, started from the online quality
    annotator: Array
    winner: Array
    loser: Array
    truth: Array
    quality: Array


class _Game:
    """The truth, the beliefs, and the answers so far."""

    def __init__(self, settings: PlaySettings) -> None:
        self.settings = settings
        generator = np.random.Generator(np.random.PCG64(settings.seed))
        self.truth = generator.permutation(settings.items).astype(np.float64)
        self.quality = draw_quality(settings.quality, settings.annotators, 0.0, generator)
        self.items = np.tile([0.0, 1.0], (settings.items, 1))
        self.crowd = np.tile(np.asarray(settings.quality_prior, np.float64), (settings.annotators, 1))
        if settings.gold_pairs:  # a uniform prior, and the answers on gold
            right = generator.binomial(settings.gold_pairs, self.quality)
            self.crowd = 1.0 + np.column_stack([right, settings.gold_pairs - right])
        self.first, self.second, self.annotator = (np.empty(settings.answers, np.int64) for _ in range(3))
        self.key = round_key(settings.seed, 0, 0, 0, "answers")
        self.done = 0

    def gamma(self) -> float:
        quarter = 4 * self.done // self.settings.answers if self.settings.gamma_decay else 0
        return self.settings.gamma * 0.5**quarter

    def rows(self) -> tuple[Array, Array, Array]:
        """Winners, losers and annotators of the answers so far."""
        return self.first[: self.done], self.second[: self.done], self.annotator[: self.done]

    def advance(self, end: int) -> None:
        """Ask and learn until there are `end` answers."""
        settings = self.settings
        one_by_one = settings.policy == "active" and settings.batch == 1 and settings.epsilon == 0.0
        while self.done < end:
            step = REBUILT if one_by_one or settings.policy == "random" else settings.batch
            before, stop = self.done, min(self.done + step, end, settings.answers)
            if one_by_one:
                self._ask_one_by_one(stop)
            else:
                self._ask_together(stop)
            if settings.refit_every and self.done // settings.refit_every > before // settings.refit_every:
                self._correct()

    def _ask_one_by_one(self, stop: int) -> None:
        settings, gamma = self.settings, self.gamma()
        generator = np.random.Generator(np.random.PCG64([settings.seed, self.done]))
        items, crowd = generator.permutation(settings.items), generator.permutation(settings.annotators)
        np.maximum(self.crowd, LEAST_COUNT, out=self.crowd)
        asked = asked_set(self.rows(), stop)
        self.done = _ask(
            item_tree(self.items, items, np.array([0, settings.items])),
            self.items,
            crowd_of(self.crowd, crowd, lessons=gamma > 0.0),
            gamma,
            settings.variance_floor,
            asked,
            self.key,
            self.truth,
            self.quality,
            self.first,
            self.second,
            self.annotator,
            self.done,
            stop,
        )
        self._check(stop)

    def _ask_together(self, stop: int) -> None:
        settings = self.settings
        chosen = choose_batch(
            Beliefs(self.items, np.array([0, settings.items]), self.crowd),
            stop - self.done,
            BatchSettings(
                gamma=self.gamma(),
                epsilon=1.0 if settings.policy == "random" else settings.epsilon,
                per_annotator=settings.per_annotator if settings.policy == "active" else None,
                variance_floor=settings.variance_floor,
                seed=settings.seed * 1_000_003 + self.done,
            ),
            asked=self.rows(),
        )
        here = slice(self.done, self.done + len(chosen))
        self.first[here], self.second[here], self.annotator[here] = chosen.first, chosen.second, chosen.annotator
        _answer(self.key, self.truth, self.quality, self.first, self.second, self.annotator, here.start, here.stop)
        annotator, winner, loser = (rows[here].astype(np.uint32) for rows in (self.annotator, self.first, self.second))
        crowd_bt_pass(annotator, winner, loser, None, None, settings.variance_floor, self.items, self.crowd)
        self.done = here.stop
        self._check(stop)

    def _check(self, stop: int) -> None:
        if self.done < stop:
            raise UsageError(f"after {self.done:,} answers every triple has been asked: set answers lower")

    def refitted(self) -> tuple[Array, Array]:
        """Scores and quality of a batch fit on the answers so far."""
        alpha, beta = self.crowd.T
        first, second, annotator = self.rows()
        settings = CrowdBTSettings(quality_prior=self.settings.refit_prior)
        return refit(annotator, first, second, self.settings.items, alpha / (alpha + beta), settings)

    def _correct(self) -> None:
        """Beliefs from a batch fit, as `distrank next` has them from a batch run."""
        scores, quality = self.refitted()
        rows = self.rows()
        count = np.bincount(rows[2], minlength=len(quality)).astype(np.float64)
        self.crowd[:] = counted_quality(quality, count, self.settings.quality_prior)
        mean = scores - scores.mean()
        believed = self.crowd[:, 0] / self.crowd.sum(axis=1)
        self.items[:] = np.column_stack([mean, informed_variance(mean, believed, *rows)])


def play(settings: PlaySettings, after: Sequence[int], *, refits: bool = True) -> Played:
    """Play until the last of `after` answers, and measure after each of them; `refits` measures batch fits as well."""
    game = _Game(settings)
    accuracy, refitted = [], []
    for count in sorted(set(after)):
        if count > settings.answers:
            raise UsageError(f"accuracy after {count:,} answers was asked for, but there are {settings.answers:,}")
        game.advance(count)
        accuracy.append(pair_accuracy(game.items[:, 0].copy(), game.truth))
        if refits:
            refitted.append(pair_accuracy(game.refitted()[0], game.truth))
    winner, loser, annotator = game.rows()
    return Played(
        tuple(sorted(set(after))), tuple(accuracy), tuple(refitted), annotator, winner, loser, game.truth, game.quality
    )


@kernel
def pair_accuracy(score: Floats, truth: Floats) -> float:
    """Share of pairs that are strictly in the true order: equation 20, ties are wrong."""
    right, pairs = 0, 0
    for i in range(len(score)):
        for j in range(i):
            if truth[i] != truth[j]:
                pairs += 1
                right += (score[i] > score[j]) == (truth[i] > truth[j]) and score[i] != score[j]
    return right / max(pairs, 1)


@kernel
def _answer(
    key: Words,
    truth: Floats,
    quality: Floats,
    first: Integers,
    second: Integers,
    annotator: Integers,
    begin: int,
    end: int,
) -> None:
    """Turn questions into answers: the first of the two items is the winner."""
    for row in range(begin, end):
        right = uniform(key[0], key[1], np.uint64(row), np.uint64(0)) < quality[annotator[row]]
        if (truth[first[row]] > truth[second[row]]) != right:
            first[row], second[row] = second[row], first[row]


@kernel
def _ask(
    tree: Tree,
    items: Floats,
    crowd: Crowd,
    gamma: float,
    kappa: float,
    asked: Words,
    key: Words,
    truth: Floats,
    quality: Floats,
    first: Integers,
    second: Integers,
    annotator: Integers,
    begin: int,
    end: int,
) -> int:
    """Ask one question after the other, and learn every answer; returns where it came to an end."""
    row = np.zeros((3, 1), np.uint32)
    for number in range(begin, end):
        _, i, j, k, _, _ = find_best(tree, items, 0, crowd, gamma, kappa, asked, _PATIENCE, key, number)
        if k < 0:
            return number
        first[number], second[number], annotator[number] = i, j, k
        add_asked(asked, triple_word(i, j, k))
        _answer(key, truth, quality, first, second, annotator, number, number + 1)
        row[0, 0], row[1, 0], row[2, 0] = k, first[number], second[number]
        crowd_bt_pass(row[0], row[1], row[2], None, None, kappa, items, crowd.belief)
        place_member(tree, i, items[i, 0], items[i, 1])
        place_member(tree, j, items[j, 0], items[j, 1])
        learn_annotator(crowd, k, crowd.belief[k, 0], crowd.belief[k, 1])
    return end


def learning_area(after: Sequence[int], accuracy: Sequence[float]) -> float:
    """The mean height of the learning curve, from one half (no answers) on: its normalised area."""
    x, y = np.array([0, *after], float), np.array([0.5, *accuracy])
    area = float(np.sum(0.5 * (y[1:] + y[:-1]) * np.diff(x)) / x[-1])
    if not math.isfinite(area):
        raise FloatingPointError("the learning curve is not finite")
    return area
