"""Ratings, preferences and rankings given together: nothing is lost, and all of it counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from harness import run_model

from distrank.api import Borda
from distrank.errors import UsageError
from distrank.tables.read import judgments_from_frame, read_judgments
from distrank.tables.shards import build_shards

PREFERENCES = pd.DataFrame(
    [("q", "a", "x", "y"), ("q", "b", "y", "z"), ("q", "b", "y", "y")],  # the last one is rejected
    columns=["query", "annotator", "winner", "loser"],
)
RATINGS = pd.DataFrame(
    [
        ("q", "a", "y", 3.0),
        ("q", "a", "z", 1.0),
        ("q", "a", "w", 1.0),
        ("r", "c", "lonely", 2.0),
        ("q", "c", "x", None),
    ],
    columns=["query", "annotator", "item", "rating"],
)
RANKINGS = pd.DataFrame(
    [("q", "d", "x", 1), ("q", "d", "z", 2)], columns=["query", "annotator", "item", "rank"]
)  # a top-2 list says nothing of y and w
TABLES = {"preferences": PREFERENCES, "ratings": RATINGS, "rankings": RANKINGS}
EXPECTED = {("a", "x", "y"), ("b", "y", "z"), ("a", "y", "z"), ("a", "y", "w"), ("d", "x", "z")}


def pairs(judgments: Any) -> set[tuple[str, str, str]]:
    names = [
        [ids[int(code)].as_py() for code in column]
        for ids, column in (
            (judgments.annotators, judgments.annotator),
            (judgments.items, judgments.winner),
            (judgments.items, judgments.loser),
        )
    ]
    return set(zip(*names, strict=True))


def test_all_of_it_becomes_preferences_and_every_row_is_accounted_for() -> None:
    found = judgments_from_frame(list(TABLES.values()))
    assert found.form == "preferences"
    assert pairs(found) == EXPECTED
    counts = found.counts
    assert (counts.read, counts.accepted, counts.rejected) == (10, 8, 2)
    assert len(found.rejected) == 2
    assert any("given together" in text for text in found.warnings)
    assert any("1 items are in no preference" in text for text in found.warnings)


def test_files_of_a_folder_may_have_several_forms(tmp_path: Path) -> None:
    for name, table in TABLES.items():
        (tmp_path / name).mkdir()
        table.to_csv(tmp_path / name / "part.csv", index=False)
    whole = read_judgments(tmp_path)
    apart = read_judgments([tmp_path / name for name in reversed(TABLES)])
    assert pairs(whole) == pairs(apart) == EXPECTED
    assert whole.content == apart.content  # the order of the files does not matter
    assert whole.counts.read == whole.counts.accepted + whole.counts.rejected == 10


def test_fitting_together_is_fitting_on_the_preferences_that_they_imply() -> None:
    implied = pd.DataFrame(
        [("q", *pair) for pair in sorted(EXPECTED)], columns=["query", "annotator", "winner", "loser"]
    )
    together = Borda().fit(list(TABLES.values()), max_rejected=0.5)
    expected = run_model("borda", implied)
    assert list(together.rankings["item"]) == list(expected.rankings["item"])
    assert list(together.rankings["score"]) == list(expected.rankings["score"])


def test_duplicates_are_found_within_a_form() -> None:
    twice = [PREFERENCES, pd.concat([RATINGS, RATINGS.iloc[:1]])]
    found = judgments_from_frame(twice, duplicates="drop")
    assert found.counts.duplicates == 1
    assert found.counts.read == found.counts.accepted + found.counts.rejected == 9


def test_methods_in_time_order_refuse_what_has_no_time() -> None:
    found = judgments_from_frame(list(TABLES.values()))
    with pytest.raises(UsageError, match="no time of their own"):
        build_shards(found, form="preferences", split="ordered")
