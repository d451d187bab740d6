"""The simulated crowds of TPP: what the names of the paper mean, and that the draws follow the model."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from distrank.cli import main
from distrank.errors import UsageError
from distrank.simulate import TPPSimulation, simulate_tpp, tpp_codes
from distrank.simulate.tpp import CROWDS, DATASETS, KINDS

SIZES = {  # items, annotators, pairs of every annotator and query, crowd
    "DOC5SR1.0DEMO1": (5, 10, 10, "demo1"),
    "DOC5SR0.5DEMO1": (5, 10, 5, "demo1"),
    "DOC5SR0.5DEMO2": (5, 10, 5, "demo2"),
    "DOC5SR0.5DEMO3": (5, 10, 5, "demo3"),
    "DOC30SR0.1DEMO1": (30, 10, 43, "demo1"),
    "DOC30SR0.05DEMO1": (30, 10, 21, "demo1"),
    "DOC30SR0.05DEMO2": (30, 10, 21, "demo2"),
    "DOC30SR0.05DEMO3": (30, 10, 21, "demo3"),
    "ANNO100SR0.01": (30, 100, 4, "demo1"),
    "ANNO100SR0.02": (30, 100, 8, "demo1"),
    "ANNO200SR0.01": (30, 200, 4, "demo1"),
    "ANNO200SR0.02": (30, 200, 8, "demo1"),
}


def test_the_data_sets_are_those_of_tables_2_and_3() -> None:
    assert set(DATASETS) == set(SIZES)


@pytest.mark.parametrize("name", DATASETS)
def test_a_name_fixes_the_sizes(name: str) -> None:
    items, annotators, pairs, crowd = SIZES[name]
    codes = tpp_codes(TPPSimulation(dataset=name, queries=20))
    assert len(codes.query) == 20 * annotators * pairs
    assert len(codes.score) == 20 * items
    assert codes.tau.shape == (annotators, 10)
    asked = np.stack(
        [codes.query, codes.annotator, np.minimum(codes.winner, codes.loser), np.maximum(codes.winner, codes.loser)]
    )
    assert len(np.unique(asked, axis=1).T) == len(codes.query)  # nobody is asked twice
    shares = np.bincount(tpp_codes(TPPSimulation(dataset=name, annotators=4000, queries=1)).kind.ravel()) / 40_000
    np.testing.assert_allclose(shares, CROWDS[crowd], atol=0.01)


def test_the_two_versions_differ_in_scores_and_spammers() -> None:
    released, text = (
        tpp_codes(TPPSimulation(dataset="DOC30SR0.05DEMO2", version=version)) for version in ("released", "text")
    )
    assert text.score.max() < 1.0
    assert released.score.reshape(100, 30).max(axis=1).mean() == pytest.approx(15.0, abs=1.0)  # 30 gaps of 1/2
    spammer = KINDS.index("spammer")
    assert set(released.tau[released.kind == spammer]) == {0.1}
    assert set(text.tau[text.kind == spammer]) == {1.0}
    assert (released.difficulty < 0.1).all()


def test_answers_follow_the_model() -> None:
    """The share of answers for the better item, given expertise and distance, is the integral over all noise."""
    codes = tpp_codes(TPPSimulation(dataset="DOC5SR1.0DEMO1", queries=600, annotators=30, domains=3, seed=4))
    tau = codes.tau[codes.annotator, codes.domain[codes.query]]
    gap = np.abs(codes.score[codes.winner] - codes.score[codes.loser])
    right = codes.score[codes.winner] > codes.score[codes.loser]
    expected = norm.cdf(tau * gap / np.sqrt(2.0 * (1.0 + tau**2 * codes.difficulty[codes.query])))
    for kind in np.unique(tau):
        for low, high in ((0.0, 0.2), (0.2, 0.6), (0.6, 9.0)):
            here = (tau == kind) & (gap >= low) & (gap < high)
            error = 3.0 * math.sqrt(0.25 / here.sum()) * 2.0  # answers of one annotator depend on each other
            assert right[here].mean() == pytest.approx(expected[here].mean(), abs=error)


def test_other_settings_change_what_the_name_says() -> None:
    codes = tpp_codes(TPPSimulation(dataset="DOC5SR0.5DEMO1", items=7, sparsity=1.0, annotators=3, queries=4))
    assert len(codes.query) == 4 * 3 * 21
    even = tpp_codes(TPPSimulation(domains=2, domain_law="even"))
    assert np.bincount(even.domain).tolist() == [50, 50]
    with pytest.raises(UsageError, match="less than one"):
        tpp_codes(TPPSimulation(items=2, sparsity=0.1))
    with pytest.raises(UsageError, match="above"):
        tpp_codes(TPPSimulation(items=1000, sparsity=1.0, queries=1000))
    with pytest.raises(UsageError, match="dataset"):
        simulate_tpp(dataset="DOC7")


def test_a_seed_is_a_data_set() -> None:
    one, same, other = (tpp_codes(TPPSimulation(seed=seed)) for seed in (3, 3, 4))
    assert (one.winner == same.winner).all()
    assert (one.score == same.score).all()
    assert not (one.score == other.score).all()


def test_the_command_writes_all_tables(tmp_path: Path) -> None:
    assert main(["simulate", "tpp", "--dataset", "DOC5SR0.5DEMO1", "--queries", "6", "--out", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "expertise.csv", "gold.csv", "preferences.parquet", "queries.csv",
    ]  # fmt: skip
    assert (tmp_path / "expertise.csv").read_text().splitlines()[0].replace('"', "") == "annotator,domain,tau,kind"
