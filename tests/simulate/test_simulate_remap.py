"""Simulated noisy labels: tables that fit together, and labels that follow the laws of the experiments."""

from __future__ import annotations

import numpy as np
import pytest

from distrank.simulate import simulate


@pytest.mark.parametrize("preset", ["crowd", "exp1", "exp2"])
def test_tables_fit_together(preset: str) -> None:
    tables = simulate("remap", {"preset": preset, "queries": 30, "target_queries": 20})
    frames = {name: table.to_pandas() for name, table in tables.tables.items()}
    described = set(zip(frames["features"]["query"], frames["features"]["item"], strict=True))
    assert set(zip(frames["gold"]["query"], frames["gold"]["item"], strict=True)) <= described
    judged = frames["ratings"]
    if "honeypots" in frames:
        judged = judged[~judged["item"].isin(frames["honeypots"]["item"])]
    assert set(zip(judged["query"], judged["item"], strict=True)) <= described
    assert set(frames["ratings"]["annotator"]) <= set(frames["annotators"]["annotator"])
    assert not frames["ratings"].duplicated(["query", "item", "annotator"]).any()
    assert judged["query"].nunique() == 30
    assert frames["gold"]["query"].nunique() == 20


def test_the_same_seed_gives_the_same_tables() -> None:
    one, two = (simulate("remap", {"queries": 10, "seed": 3}) for _ in range(2))
    assert all(one[name].equals(two[name]) for name in one.tables)
    assert not one["features"].equals(simulate("remap", {"queries": 10, "seed": 4})["features"])


def test_rigorous_annotators_say_1_less_often() -> None:
    tables = simulate("remap", {"preset": "exp1"})
    ratings = tables["ratings"].to_pandas().merge(tables["annotators"].to_pandas(), on="annotator")
    shares = ratings.groupby("truth")["rating"].mean()
    expected = 1.0 - np.cumsum([0.4, 0.3, 0.18, 0.09])
    np.testing.assert_allclose(shares, expected, atol=0.04)
    shown = tables["label_features"].to_pandas()
    assert (shown.filter(like="rigor").sum(axis=1) == tables["ratings"].to_pandas()["rating"]).all()


def test_annotators_of_quality_0_are_never_right() -> None:
    """Any other grade alike: the shares of the grades that they give follow from those of the true ones."""
    tables = simulate("remap", {"preset": "exp2"})
    ratings = tables["ratings"].to_pandas().merge(tables["annotators"].to_pandas(), on="annotator")
    shares = ratings[ratings["truth"] == 1.0]["rating"].value_counts(normalize=True).sort_index()
    np.testing.assert_allclose(shares, [0.4, 0.3, 0.18, 0.09, 0.03], atol=0.05)
    wrong = ratings[ratings["truth"] == 0.0]["rating"].value_counts(normalize=True).sort_index()
    np.testing.assert_allclose(wrong, [0.15, 0.175, 0.205, 0.2275, 0.2425], atol=0.05)


def test_honeypots_can_be_left_out() -> None:
    assert "honeypots" not in simulate("remap", {"queries": 5, "honeypots": 0}).tables
