"""Majority vote: the grade that most annotators gave; grades with equally many votes share the soft label."""

from __future__ import annotations

from distrank.models._votes import VoteModel


class Majority(VoteModel):
    """The most frequent grade."""

    name = "majority"
    title = "Majority vote: the grade that most gave"
    estimates = "grades, agreement with the majority of the others"
    majority = True
