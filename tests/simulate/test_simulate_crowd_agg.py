"""The simulated crowd with spammers and liars: its laws, and the robustness that CrowdAgg shows on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import run_model

from distrank.evaluate import evaluate
from distrank.simulate import simulate, simulate_crowd_agg


def test_pairs_are_of_different_grade_and_reported_with_the_accuracy_of_the_annotator() -> None:
    data = simulate_crowd_agg(queries=20, judgments=400, malicious=0.2, spammers=0.2, seed=3)
    frame, gold = data["preferences"].to_pandas(), data["gold"].to_pandas().set_index("item")["relevance"]
    better = gold[frame.winner.astype(str)].to_numpy() - gold[frame.loser.astype(str)].to_numpy()
    assert (better != 0).all()
    right = (better > 0).astype(float)
    truth = data["annotators"].to_pandas().set_index("annotator")["quality"]
    share = frame.assign(right=right, annotator=frame.annotator.astype(str)).groupby("annotator")["right"].mean()
    assert (share[truth.index][truth == 0.0] == 0.0).all()
    assert np.abs(share[truth.index] - truth).max() < 0.13  # five standard deviations of 400 coins
    assert (truth == 0.5).sum() == 20 * 3


def test_honest_annotators_say_the_same_whoever_is_added() -> None:
    alone, joined = simulate_crowd_agg(seed=1), simulate_crowd_agg(seed=1, malicious=0.5)
    rows = alone["preferences"].num_rows
    assert joined["preferences"].num_rows == rows * 23 // 15  # round(7.5) is 8 more annotators
    for column in ("winner", "loser"):
        before, after = alone["preferences"][column].to_pylist(), joined["preferences"][column].to_pylist()
        assert after[:rows] == before


def test_the_default_is_the_design_of_the_study() -> None:
    data = simulate("crowd-agg", {})
    assert data["preferences"].num_rows == 30 * 15 * 40
    assert data["gold"].num_rows == 30 * 30
    shares = np.bincount(simulate_crowd_agg(queries=2_000)["gold"]["relevance"].to_numpy()) / 60_000
    np.testing.assert_allclose(shares, [0.4, 0.25, 0.15, 0.12, 0.08], atol=0.01)
    ratings = simulate("crowd-agg", {"form": "ratings"})
    assert ratings["ratings"].num_rows == 30 * 30 * 10
    assert ratings["gold"]["relevance"].to_numpy().mean() == pytest.approx(0.35, abs=0.05)


def ndcg(method: str, settings: dict[str, Any], **crowd: Any) -> float:
    data = simulate_crowd_agg(seed=0, **crowd)
    form = crowd.get("form", "preferences")
    outcome = run_model(method, data[form].to_pandas(), settings=settings)
    return evaluate(outcome.rankings, data["gold"], ["ndcg@10"]).means["ndcg@10"]


@pytest.mark.parametrize("form", ["preferences", "ratings"])
@pytest.mark.parametrize("scope", ["all", "query"])
def test_crowd_agg_withstands_malicious_annotators(form: str, scope: str) -> None:
    """With half as many liars again NDCG@10 stays within 0.05 of the clean value; Bradley-Terry falls below 0.5."""
    clean = ndcg("crowd-agg", {"quality_scope": scope}, form=form)
    attacked = ndcg("crowd-agg", {"quality_scope": scope}, form=form, malicious=0.5)
    assert attacked > clean - 0.05
    assert ndcg("bradley-terry", {}, form=form) > 0.85
    assert ndcg("bradley-terry", {}, form=form, malicious=0.5) < 0.5


def test_estimated_quality_is_what_withstands_them() -> None:
    with_quality = ndcg("crowd-agg", {}, malicious=0.5)
    without = ndcg("crowd-agg", {"annotator_quality": "equal"}, malicious=0.5)
    assert without < with_quality - 0.1
