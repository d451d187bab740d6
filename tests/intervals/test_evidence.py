"""Evidence from the front doors: what weighs against whom, in every form of judgments, in files and on a terminal."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from distrank import BradleyTerry
from distrank.cli import main

ITEMS = [f"i{k}" for k in range(6)]


def honest_and_a_liar() -> pd.DataFrame:
    """Eight who order all pairs truly, and one who turns them around."""
    pairs = [(x, y) for place, x in enumerate(ITEMS) for y in ITEMS[place + 1 :]]
    said = [("q", f"a{k}", x, y) for k in range(8) for x, y in pairs] + [("q", "liar", y, x) for x, y in pairs]
    return pd.DataFrame(said, columns=["query", "annotator", "winner", "loser"])


def test_the_heaviest_judgment_turns_the_farthest_pair_around() -> None:
    result = BradleyTerry().fit(honest_and_a_liar())
    annotators = result.annotators.set_index("annotator")
    evidence = annotators.loc["liar", "evidence"]
    assert len(evidence) == 5
    assert (evidence[0]["query"], evidence[0]["winner"], evidence[0]["loser"]) == ("q", "i5", "i0")
    score = result.rankings.set_index("item")["score"]
    expected = math.log(0.5 * (1.0 + math.exp(score["i0"] - score["i5"])))
    assert evidence[0]["weight"] == pytest.approx(expected)
    assert all(len(annotators.loc[f"a{k}", "evidence"]) == 0 for k in range(8))


@pytest.mark.parametrize("form", ["rating", "rank"])
def test_evidence_from_ratings_and_rankings(form: str) -> None:
    high_first = form == "rating"
    entries = []
    for annotator in [*(f"a{k}" for k in range(8)), "liar"]:
        for place, item in enumerate(ITEMS):
            truth = len(ITEMS) - place if high_first else place + 1
            value = len(ITEMS) + 1 - truth if annotator == "liar" else truth
            entries.append(("q", annotator, item, value))
    frame = pd.DataFrame(entries, columns=["query", "annotator", "item", form])
    evidence = BradleyTerry().fit(frame).annotators.set_index("annotator").loc["liar", "evidence"]
    assert (evidence[0]["winner"], evidence[0]["loser"]) == ("i5", "i0")


def test_evidence_in_files_and_on_the_terminal(tmp_path: Path, capsys: Any) -> None:
    source = tmp_path / "judgments.csv"
    honest_and_a_liar().to_csv(source, index=False)
    out = str(tmp_path / "out")
    assert main(["aggregate", str(source), "--method", "bradley-terry", "--out", out, "--csv", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["show", out]) == 0
    text = capsys.readouterr().out
    assert "liar: malicious, quality 0.00" in text
    assert "15 judgments, 0% of them with the consensus" in text
    cells = pd.read_csv(tmp_path / "out" / "latest" / "annotators.csv").set_index("annotator")["evidence"]
    assert json.loads(cells["liar"])[0]["winner"] == "i5"
    assert json.loads(cells["a0"]) == []
