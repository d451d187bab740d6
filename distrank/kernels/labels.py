"""Passes over labels: votes, and the expectation step of Dawid and Skene.  [Dawid79]

    rows     offsets of every item into its labels
    cell     annotator * K + label, one number per label: the row of a table by annotator and label
    known    the grade of every item where gold gives it, -1 elsewhere
    post     P(true grade | labels), one row per item

`weight` is None where every label counts once: numba compiles that case apart. Results are added to the arrays handed
in, but for posteriors, which are written.

[Dawid79] Dawid, Skene: Maximum likelihood estimation of observer error-rates using the EM algorithm. Applied Statistics
28, 1979.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from distrank.kernels import kernel

Floats = NDArray[np.float64]
Codes = NDArray[np.uint32]
Offsets = NDArray[np.int64]
Grades = NDArray[np.int16]

_SMALL, _LARGE = 1e-100, 1e100  # products outside are turned into a logarithm before they leave the range of floats
_LEAST = 1e-300


@kernel
def vote_shares(rows: Offsets, cell: Codes, weight: Floats | None, post: Floats) -> None:
    """The share of every grade among the labels of an item; equal shares for an item without labels."""
    grades = post.shape[1]
    for i in range(len(rows) - 1):
        post[i, :] = 0.0
        total = 0.0
        for r in range(rows[i], rows[i + 1]):
            counted = 1.0 if weight is None else weight[r]
            post[i, cell[r] % grades] += counted
            total += counted
        for c in range(grades):
            post[i, c] = post[i, c] / total if total > 0.0 else 1.0 / grades


@kernel
def most_voted(post: Floats) -> None:
    """In place: all of the probability on the grade with the largest share, in equal parts where several have it."""
    for i in range(len(post)):
        best = post[i].max()
        count = 0
        for c in range(post.shape[1]):
            count += post[i, c] == best
        for c in range(post.shape[1]):
            post[i, c] = 1.0 / count if post[i, c] == best else 0.0


@kernel
def votes_of_others(
    rows: Offsets, cell: Codes, weight: Floats | None, known: Grades, majority: bool, counts: Floats
) -> None:
    """By cell and grade: what the others said of the items that an annotator gave a label (or gold, where known).

    The annotator's own label is left out, or everybody would agree with a consensus of which they are a third. The
    others count by their shares, or by their majority alone.
    """
    grades = counts.shape[1]
    votes, others = np.empty(grades), np.empty((1, grades))
    for i in range(len(rows) - 1):
        votes[:] = 0.0
        for r in range(rows[i], rows[i + 1]):
            votes[cell[r] % grades] += 1.0 if weight is None else weight[r]
        total = votes.sum()
        for r in range(rows[i], rows[i + 1]):
            counted = 1.0 if weight is None else weight[r]
            if known[i] >= 0:
                counts[cell[r], known[i]] += counted
                continue
            own = cell[r] % grades
            rest = total - 1.0 if weight is None else total - min(weight[r], 1.0)  # weight 2 is two annotators alike
            if rest <= 1e-9 * total:
                continue
            for c in range(grades):
                others[0, c] = votes[c] / rest
            others[0, own] -= (total - rest) / rest
            if majority:
                most_voted(others)
            for c in range(grades):
                counts[cell[r], c] += counted * others[0, c]


@kernel
def add_by_cell(rows: Offsets, cell: Codes, weight: Floats | None, post: Floats, sums: Floats) -> None:
    """The posteriors of items, summed by the cells of their labels."""
    for i in range(len(rows) - 1):
        for r in range(rows[i], rows[i + 1]):
            for c in range(post.shape[1]):
                sums[cell[r], c] += post[i, c] if weight is None else weight[r] * post[i, c]


@kernel
def two_grades(
    rows: Offsets, cell: Codes, known: Grades, odds: float, ratio: Floats, sums: Floats, post: Floats | None
) -> tuple[float, float]:
    """Two grades, every label once: the sum of log(1 + odds) over items, and the sum of P(upper grade).

    `ratio` is P(label | upper) / P(label | lower) by cell. `sums` gets P(upper grade) by cell. The log-likelihood is
    what is returned, and what all labels have under the lower grade, which needs no pass.
    """
    total, product, upper = 0.0, 1.0, 0.0
    for i in range(len(rows) - 1):
        o, shift = odds, 0.0
        for r in range(rows[i], rows[i + 1]):
            o *= ratio[cell[r]]
            if not _SMALL < o < _LARGE:
                shift += math.log(max(o, _LEAST))
                o = 1.0
        if known[i] >= 0:
            p = float(known[i])
            if known[i] == 1:
                total += shift + math.log(o)
        elif shift == 0.0:
            p = o / (1.0 + o)
            product *= 1.0 + o
            if product > _LARGE:
                total += math.log(product)
                product = 1.0
        else:
            exponent = shift + math.log(o)
            tail = math.exp(-abs(exponent))
            p = 1.0 / (1.0 + tail) if exponent > 0.0 else tail / (1.0 + tail)
            total += max(exponent, 0.0) + math.log1p(tail)
        upper += p
        for r in range(rows[i], rows[i + 1]):
            sums[cell[r]] += p
        if post is not None:
            post[i, 0], post[i, 1] = 1.0 - p, p
    return total + math.log(product), upper


@kernel
def many_grades(
    rows: Offsets,
    cell: Codes,
    weight: Floats | None,
    known: Grades,
    log_prior: Floats,
    log_table: Floats,
    sums: Floats,
    classes: Floats,
    post: Floats | None,
) -> float:
    """Any number of grades: the log-likelihood; `sums` gets P(grade) by cell, `classes` the sum over items.

    `log_table` is log P(label | grade), by cell and grade.
    """
    grades = len(log_prior)
    like = np.empty(grades)
    total = 0.0
    for i in range(len(rows) - 1):
        like[:] = log_prior
        for r in range(rows[i], rows[i + 1]):
            for c in range(grades):
                like[c] += log_table[cell[r], c] if weight is None else weight[r] * log_table[cell[r], c]
        total += _normalise(like, known[i])
        for c in range(grades):
            classes[c] += like[c]
        for r in range(rows[i], rows[i + 1]):
            for c in range(grades):
                sums[cell[r], c] += like[c] if weight is None else weight[r] * like[c]
        if post is not None:
            post[i] = like
    return total


@kernel
def _normalise(like: Floats, known: int) -> float:
    """In place: log-likelihoods by grade to a posterior; the log of their sum, or that of the known grade."""
    if known >= 0:
        value = like[known]
        like[:] = 0.0
        like[known] = 1.0
        return value
    top = like.max()
    total = 0.0
    for c in range(len(like)):
        like[c] = math.exp(like[c] - top)
        total += like[c]
    like /= total
    return top + math.log(total)


@kernel
def expected_agreement(
    rows: Offsets, cell: Codes, weight: Floats | None, post: Floats, agreed: Floats, items: Floats
) -> None:
    """By annotator: the expected number of labels that are the true grade, and of labels; by item: their share."""
    grades = post.shape[1]
    for i in range(len(rows) - 1):
        right, total = 0.0, 0.0
        for r in range(rows[i], rows[i + 1]):
            counted = 1.0 if weight is None else weight[r]
            chance = counted * post[i, cell[r] % grades]
            agreed[cell[r] // grades, 0] += chance
            agreed[cell[r] // grades, 1] += counted
            right += chance
            total += counted
        items[i] = right / total if total > 0.0 else 1.0 / grades


@kernel
def honeypot_answers(rows: Offsets, cell: Codes, known: Grades, grades: int, answers: Floats) -> None:
    """By annotator: right answers and answers on items whose grade is known."""
    for i in range(len(rows) - 1):
        if known[i] >= 0:
            for r in range(rows[i], rows[i + 1]):
                answers[cell[r] // grades, 0] += cell[r] % grades == known[i]
                answers[cell[r] // grades, 1] += 1.0


@kernel
def weighted_logs(values: Floats, weight: Floats) -> float:
    """The sum of weight * log(value) over tables of the shape of `weight`; 0 where the weight is."""
    total = 0.0
    for k in range(len(values)):
        for c in range(weight.shape[0]):
            for label in range(weight.shape[1]):
                if weight[c, label] > 0.0:
                    total += weight[c, label] * math.log(values[k, c, label])
    return total


@kernel
def dot(first: Floats, second: Floats) -> float:
    """The sum of products, in order: the same bytes on every machine."""
    total = 0.0
    for i in range(len(first)):
        total += first[i] * second[i]
    return total


@kernel
def logarithms(values: Floats) -> Floats:
    """The logarithm of every entry, the same bytes on every machine."""
    result = np.empty(len(values))
    for i in range(len(values)):
        result[i] = math.log(values[i])
    return result
