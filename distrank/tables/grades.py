"""Ratings as grades, for models of labels: the few values that people chose from, or five grades cut from many values.

Grades are numbered in ascending order of their values. Gold of the same items is graded by the same rule, so that an
item whose relevance is one of the values people could choose is a honeypot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrank.errors import UsageError
from distrank.kernels.grades import distinct_up_to, grade_codes
from distrank.records import Array
from distrank.tables.judgments import Judgments

MOST_VALUES = 15  # distinct ratings that are taken as they are
CUT_GRADES = 5
UNKNOWN = -1  # the grade of an item that is no honeypot


@dataclass(frozen=True)
class Grading:
    """What every grade is worth, and how a rating becomes one."""

    values: Array  # of the grades, ascending
    edges: Array  # the lowest rating of every grade but the first
    cut: bool  # whether the grades were cut from many values

    def codes(self, ratings: Array) -> Array:
        """The grade of every rating."""
        codes = np.empty(len(ratings), np.uint8)
        grade_codes(ratings, self.edges, codes)
        return codes

    def known(self, relevance: Array) -> Array:
        """The grade of items with gold, UNKNOWN where the relevance is missing or none that a rating can have."""
        codes = self.codes(np.where(np.isnan(relevance), 0.0, relevance)).astype(np.int16)
        usable = ~np.isnan(relevance) if self.cut else self.values[codes] == relevance
        return np.where(usable, codes, UNKNOWN).astype(np.int16)

    def warnings(self, judgments: Judgments) -> list[str]:
        """What to say about ratings that were cut."""
        if not self.cut or judgments.rating is None:
            return []
        means = ", ".join(f"{value:.4g}" for value in self.values)
        what = f"the ratings have more than {MOST_VALUES} distinct values and were cut at their quantiles into"
        worth = f"{len(self.values)} grades, worth the mean rating of each: {means}"
        return [f"{what} {worth}. Use average for the ratings as they are"]


def find_grades(judgments: Judgments) -> Grading:
    """The distinct ratings as grades; more than MOST_VALUES are cut at their quantiles."""
    if judgments.rating is None:
        raise UsageError(f"a model of labels takes ratings (item, annotator, rating), not {judgments.form}")
    values = np.sort(distinct_up_to(judgments.rating, MOST_VALUES))
    if len(values) <= MOST_VALUES:
        return Grading(values, values[1:], cut=False)
    ordered = np.sort(judgments.rating)  # sums over sorted values do not depend on the order of the rows
    count = len(ordered)
    edges = np.unique(ordered[[count * grade // CUT_GRADES for grade in range(1, CUT_GRADES)]])
    edges = edges[edges > ordered[0]]
    starts = np.concatenate([[0], np.searchsorted(ordered, edges)])
    sizes = np.diff(np.append(starts, count))
    return Grading(np.add.reduceat(ordered, starts) / sizes, edges, cut=True)


def unused_gold(unmatched: int, grading: Grading) -> list[str]:
    """What to say about gold items whose relevance nobody could have chosen."""
    if not unmatched:
        return []
    values = ", ".join(f"{value:g}" for value in grading.values)
    what = f"{unmatched:,} gold items have a relevance that is no rating ({values}) and are not used as honeypots"
    return [f"{what}: give honeypots the grade that a right answer has"]
