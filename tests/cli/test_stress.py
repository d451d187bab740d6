"""Stress: who is added, what they say, and what the command reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest

from distrank.cli import main
from distrank.errors import UsageError
from distrank.plot import line_charts
from distrank.simulate import simulate_crowd_agg
from distrank.stress import _relevance, parse_ratios, with_annotators
from distrank.tables.gold import gold_from_frame
from distrank.tables.read import judgments_from_frame


def added(frame: pd.DataFrame, gold: pd.DataFrame, kind: str, ratio: float) -> tuple[Any, Any, Any]:
    judgments = judgments_from_frame(frame)
    relevance = _relevance(judgments, gold_from_frame(gold))
    return judgments, with_annotators(judgments, relevance, kind, ratio), relevance


@pytest.mark.parametrize("kind", ["spammers", "malicious"])
@pytest.mark.parametrize("ratio", [0.0, 0.5, 2.0])
def test_every_query_gets_its_share_and_nothing_else_changes(kind: str, ratio: float) -> None:
    data = simulate_crowd_agg(queries=4, items=8, annotators=6, judgments=10)
    before, after, _ = added(data["preferences"].to_pandas(), data["gold"].to_pandas(), kind, ratio)
    assert len(after.annotators) == len(before.annotators) + 4 * round(6 * ratio)
    assert len(after) == len(before) + 4 * round(6 * ratio) * 10
    for name in ("query", "annotator", "winner", "loser"):
        assert (getattr(after, name)[: len(before)] == getattr(before, name)).all()


def test_malicious_annotators_say_the_opposite_of_gold() -> None:
    data = simulate_crowd_agg(queries=3, items=10, annotators=5, judgments=30)
    gold = data["gold"].to_pandas()
    before, after, _ = added(data["preferences"].to_pandas(), gold, "malicious", 1.0)
    relevance = dict(zip(gold["item"], gold["relevance"], strict=True))
    items = after.items.to_pylist()
    for winner, loser in zip(after.winner[len(before) :], after.loser[len(before) :], strict=True):
        assert relevance[items[winner]] < relevance[items[loser]]


def test_malicious_ratings_turn_the_scale_round_and_rankings_the_list() -> None:
    gold = pd.DataFrame({"query": "q", "item": ["x", "y", "z"], "relevance": [0, 1, 2]})
    frame = pd.DataFrame({"query": "q", "annotator": "a", "item": ["x", "y", "z", "u"], "rating": [1, 3, 5, 3]})
    _, after, _ = added(frame, gold, "malicious", 1.0)
    said = {after.items[int(i)].as_py(): r for i, r in zip(after.item[4:], after.rating[4:], strict=True)}
    assert (said["x"], said["y"], said["z"]) == (5.0, 3.0, 1.0)
    ranked = pd.DataFrame({"query": "q", "annotator": "a", "item": ["z", "y", "x"], "rank": [1, 2, 3]})
    _, after, _ = added(ranked, gold, "malicious", 1.0)
    said = {after.items[int(i)].as_py(): r for i, r in zip(after.item[3:], after.rank[3:], strict=True)}
    assert said == {"x": 1.0, "y": 2.0, "z": 3.0}


def test_spammers_guess() -> None:
    data = simulate_crowd_agg(queries=10, items=20, annotators=10, judgments=40)
    before, after, relevance = added(data["preferences"].to_pandas(), data["gold"].to_pandas(), "spammers", 1.0)
    same = (after.winner[len(before) :] < after.loser[len(before) :]).mean()
    assert same == pytest.approx(0.5, abs=0.05)
    assert relevance.shape == (2, len(before))


def test_ratios() -> None:
    assert parse_ratios("0:1:0.25") == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert parse_ratios("0,2") == [0.0, 2.0]
    for wrong in ("", "a:b:c", "0:1:0", "-1,2", "0:1"):
        with pytest.raises(UsageError, match="FROM:TO:STEP"):
            parse_ratios(wrong)


def test_the_command_reports_curves_variation_and_charts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    simulate_crowd_agg(queries=6, malicious=0.0).write(tmp_path, "csv")
    arguments = [
        "stress",
        str(tmp_path / "preferences.csv"),
        "--gold",
        str(tmp_path / "gold.csv"),
        "--malicious",
        "0,0.5",
    ]
    methods = ["--methods", "crowd-agg,crowd-agg:pair_model=step,borda", "--out", str(tmp_path / "out"), "--json"]
    assert main([*arguments, *methods]) == 0
    found = json.loads(capsys.readouterr().out)
    curves = {(row["method"], row["ratio"]): row["ndcg@10"] for row in found["curves"]}
    assert curves["crowd-agg", 0.5] > curves["crowd-agg", 0.0] - 0.1
    assert curves["borda", 0.5] < curves["borda", 0.0] - 0.2
    variation = {row["method"]: row["ndcg@10"] for row in found["variation"]}
    both = np.array([curves["borda", 0.0], curves["borda", 0.5]])
    assert variation["borda"] == pytest.approx(both.std() / both.mean())
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "curves.csv", "variation.csv", "ndcg_at_10.svg", "p_at_10.svg", "map.svg", "rbp.svg",
    }  # fmt: skip
    assert main([*arguments, "--methods", "crowd-agg:pair_model"]) == 2
    assert main([*arguments[:4], "--methods", "borda"]) == 2


def test_charts_are_well_formed_and_ids_are_escaped() -> None:
    picture = line_charts({"<b>": {"a&b": [(0.0, 1.0), (1.0, float("nan"))]}}, x_label="x", y_label='"y"')
    root = ET.fromstring(picture)  # noqa: S314 (our own text)
    assert root.tag.endswith("svg")
    assert "a&amp;b" in picture
