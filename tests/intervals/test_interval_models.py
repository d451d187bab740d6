"""Intervals of whole fits: against the inverse of the information written out, and against the truth."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from literal_information import centred_deviations, joint_information

from distrank.kernels.laws import LOGISTIC, SCALED
from distrank.models import _intervals
from distrank.simulate import simulate_crowd_bt

sys.path.insert(0, str(Path(__file__).parents[1] / "contract"))
from crowds import crowd, rows
from harness import Outcome, run_model


def judged(frame: pd.DataFrame, outcome: Outcome) -> tuple[list[tuple[int, int, int, float]], Any, Any]:
    """Rows by number, and the items and annotators that the numbers stand for."""
    items = sorted(set(frame["winner"]) | set(frame["loser"]))
    annotators = outcome.annotators["annotator"].tolist()
    numbers = [
        (annotators.index(row.annotator), items.index(row.winner), items.index(row.loser), 1.0)
        for row in frame.itertuples()
    ]
    return numbers, items, annotators


@pytest.mark.parametrize("name", ["bradley-terry", "variance-bt"])
def test_deviations_are_those_of_the_inverse_information(name: str) -> None:
    """In one query nothing is approximated: scores and scales are eliminated together."""
    frame = crowd(21, queries=1, rows=150)
    outcome = run_model(name, frame)
    numbers, items, _ = judged(frame, outcome)
    table = outcome.rankings.set_index("item").loc[items]
    score = table["score"].to_numpy()
    scale = outcome.annotators["scale"].to_numpy() if name == "variance-bt" else None
    whole = joint_information(numbers, score, scale, LOGISTIC if scale is None else SCALED)
    odds = np.exp(-np.abs(score))
    prior = 0.5 * 2.0 * odds / (1.0 + odds) ** 2  # two virtual games of strength 1/2
    if scale is not None:
        prior = np.concatenate([prior, 1.0 / scale**2])
    expected = centred_deviations(whole + np.diag(prior), len(items))
    np.testing.assert_allclose(table["score_sd"], expected, rtol=1e-5)
    np.testing.assert_allclose(table["score_high"] - table["score"], 1.6448536 * expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["bradley-terry", "crowd-bt", "thurstone", "variance-bt"])
def test_random_vectors_find_the_deviations_of_the_exact_inverse(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = crowd(22, queries=2, items=30, annotators=15, rows=3000)
    exact = run_model(name, frame)
    monkeypatch.setattr(_intervals, "LARGEST_DENSE", 10)
    for cut, draws in ((250_000, 64), (500, 8)):  # whole queries, and split ones
        other = run_model(name, frame, rows_per_shard=cut)
        both = exact.rankings.merge(other.rankings, on=["query", "item"])
        ratio = (both["score_sd_y"] / both["score_sd_x"]).to_numpy()
        assert ratio.mean() == pytest.approx(1.0, abs=0.08)
        assert ratio.std() < 0.6 / np.sqrt(draws)
        assert (both["rank_low_y"] - both["rank_low_x"]).abs().mean() < 1.5
        qualities = exact.annotators.merge(other.annotators, on="annotator")
        assert (qualities["quality_low_y"] - qualities["quality_low_x"]).abs().max() < 0.1


def test_three_judgments_do_not_prove_a_perfect_annotator() -> None:
    few = rows(*(f"q new x{k} x{k + 1}" for k in range(3)))
    frame = pd.concat([*(rows(*(f"q a{k} x{i} x{i + 1}" for i in range(5))) for k in range(8)), few])
    annotators = run_model("crowd-bt", frame).annotators.set_index("annotator")
    assert annotators.loc["new", "quality"] == 1.0
    assert annotators.loc["new", "quality_high"] == 1.0
    assert annotators.loc["new", "quality_low"] < 0.6


def test_an_estimate_that_was_not_made_has_no_interval() -> None:
    outcome = run_model("crowd-bt", crowd(23), settings={"annotator_quality": "equal"})
    assert not {"quality_low", "quality_high"} & set(outcome.annotators)
    plain = run_model("bradley-terry", crowd(23))
    np.testing.assert_allclose(outcome.rankings["score_sd"], plain.rankings["score_sd"], rtol=1e-9)


@pytest.mark.parametrize("name", ["crowd-bt", "thurstone", "variance-bt"])
def test_a_fit_that_was_stopped_has_intervals_too(name: str) -> None:
    for limit in (0, 1, 5):
        outcome = run_model(name, crowd(24), settings={"max_iterations": limit})
        assert not outcome.fit.converged
        assert np.isfinite(outcome.rankings["score_sd"]).all()
        assert (outcome.annotators["quality_low"] <= outcome.annotators["quality_high"]).all()


DESIGNS: dict[str, dict[str, Any]] = {
    "random pairs": {"items": 100, "annotators": 100, "judgments": 4000},
    "each pair by ten": {"items": 100, "annotators": 100, "pairs": 400, "annotators_per_pair": 10},
    "queries that share annotators": {"queries": 30, "items": 10, "annotators": 30, "judgments": 3000},
}


@pytest.mark.parametrize("law", ["5,1", "2,1"])
@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS.keys())
def test_ninety_percent_intervals_contain_the_truth_nine_times_in_ten(design: dict[str, Any], law: str) -> None:
    """With the prior at the law that qualities come from; scripts/reproduce/coverage.py has more seeds and designs."""
    scores, qualities = [], []
    for seed in range(4):
        simulated = simulate_crowd_bt(law="model", seed=seed, quality=f"beta:{law}", **design)
        outcome = run_model("crowd-bt", simulated["preferences"].to_pandas(), settings={"quality_prior": law})
        items = outcome.rankings.merge(simulated["gold"].to_pandas(), on=["query", "item"])
        means = items.groupby("query")[["relevance", "score"]].transform("mean")
        truth = items["relevance"] - means["relevance"] + means["score"]
        scores += truth.between(items["score_low"], items["score_high"]).tolist()
        known = outcome.annotators.merge(simulated["annotators"].to_pandas(), on="annotator", suffixes=("", "_true"))
        qualities += known["quality_true"].between(known["quality_low"], known["quality_high"]).tolist()
    for covered in (scores, qualities):
        error = np.sqrt(0.9 * 0.1 / len(covered))  # of the share of so few
        assert 0.86 - 2.0 * error <= np.mean(covered) <= 0.94 + 2.0 * error
