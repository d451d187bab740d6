"""Simulated crowds of rankings: the laws of the labels, and what the tables promise."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from distrank.errors import UsageError
from distrank.kernels.mallows import moments
from distrank.simulate import simulate_ltrma
from distrank.simulate.ltrma import _distance
from distrank.simulate.permutations import distance_shares, exact_insertions, insert, mallows_insertions


def inversions(order: np.ndarray) -> int:
    return int((order[:, None] > order[None, :])[np.triu_indices(len(order), 1)].sum())


def test_shares_of_distances_are_counted_right() -> None:
    counts = Counter(inversions(np.array(y)) for y in permutations(range(5)))
    np.testing.assert_allclose(distance_shares(5)[5], [counts[v] / 120 for v in range(11)], rtol=1e-12)


def test_every_permutation_at_a_distance_is_as_likely() -> None:
    rng, shares = np.random.default_rng(0), distance_shares(5)
    inserted, found = np.zeros(5, np.int64), Counter()
    for _ in range(9_000):
        exact_insertions(shares, 4, rng.random(5), inserted)
        order = insert(np.arange(5), inserted)
        assert inversions(order) == 4
        found[tuple(order)] += 1
    expected = [y for y in permutations(range(5)) if inversions(np.array(y)) == 4]
    assert set(found) == set(expected)
    share = 9_000 / len(expected)
    assert max(abs(count - share) for count in found.values()) < 5.0 * np.sqrt(share)


@pytest.mark.parametrize("theta", [-2.0, -0.3, 0.0, 0.5])
def test_mallows_labels_have_the_mean_distance_of_their_law(theta: float) -> None:
    rng, inserted = np.random.default_rng(1), np.zeros(7, np.int64)
    distances = []
    for _ in range(4_000):
        mallows_insertions(theta, rng.random(7), inserted)
        distances.append(inversions(insert(np.arange(7), inserted)))
    _, mean, variance = moments(7, 7, theta)
    assert np.mean(distances) == pytest.approx(mean, abs=5.0 * np.sqrt(variance / 4_000) + 1e-9)


def test_equation_56_is_not_mallows_law() -> None:
    """Distances of at least 1, mean 2.54 at theta = -0.5, where Mallows' law has 17.5 (15 items)."""
    chances = (np.arange(20_000) + 0.5) / 20_000
    drawn = [_distance(-0.5, 15, chance) for chance in chances]
    assert min(drawn) == 1
    assert np.mean(drawn) == pytest.approx(2.54, abs=0.01)
    assert moments(15, 15, -0.5)[1] == pytest.approx(17.5, abs=0.1)


def test_tables_fit_together() -> None:
    crowd = simulate_ltrma(case="hard", queries=12, items=6, annotators=4, known=0.25, test=5, seed=1)
    rankings = crowd["rankings"].to_pandas()
    assert len(rankings) == 12 * 6 * 4
    assert (rankings.groupby(["query", "annotator"])["rank"].apply(sorted).apply(tuple) == tuple(range(1, 7))).all()
    gold = crowd["gold"].to_pandas()
    features = crowd["features"].to_pandas()
    both = gold.merge(features, on=["query", "item"])
    score = both["x1"] + 10.0 * both["x2"]
    rank = score.groupby(both["query"]).rank()
    assert (rank == both["relevance"]).mean() > 0.95  # but for the noise
    assert crowd["known"].to_pandas()["query"].nunique() == 3
    known = crowd["known"].to_pandas().merge(gold, on=["query", "item"], suffixes=("", "_true"))
    assert (known["relevance"] == known["relevance_true"]).all()
    assert crowd["test_features"].num_rows == 30
    theta = crowd["annotators"]["theta"].to_numpy()
    assert theta[0] == -0.6
    assert ((theta >= -0.6) & (theta <= -0.05)).all()


def test_the_same_seed_gives_the_same_tables_and_another_does_not() -> None:
    one, same, other = (simulate_ltrma(queries=3, test=2, seed=seed) for seed in (4, 4, 5))
    for name in one.tables:
        assert one[name].equals(same[name])
    assert not one["rankings"].equals(other["rankings"])
    more = simulate_ltrma(queries=3, annotators=12, test=2, seed=4)
    assert more["features"].equals(one["features"])  # who judges does not change what is judged


def write_file(path: Path, queries: int = 10, items: int = 9) -> Path:
    rng = np.random.default_rng(2)
    lines = []
    for query in range(queries):
        for _ in range(items):
            x = rng.random(4)
            grade = int(np.clip(4 * x[0] + rng.normal(0, 0.3), 0, 4))
            lines.append(f"{grade} qid:{query} " + " ".join(f"{f + 1}:{v:.4f}" for f, v in enumerate(x)))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_crowds_over_the_features_of_a_file(tmp_path: Path) -> None:
    path = write_file(tmp_path / "letor.svm")
    crowd = simulate_ltrma(case="hard", features=str(path), items=6, annotators=3, held_out=0.2, seed=3)
    rankings, gold = crowd["rankings"].to_pandas(), crowd["gold"].to_pandas()
    assert rankings["query"].nunique() == 8
    assert crowd["test_gold"].to_pandas()["query"].nunique() == 2
    assert rankings.groupby(["query", "annotator"]).size().eq(6).all()
    perfect = simulate_ltrma(features=str(path), items=6, annotators=1, best=-15.0, seed=3)
    ordered = perfect["rankings"].to_pandas().merge(gold, on=["query", "item"]).sort_values(["query", "rank"])
    assert all(group["relevance"].is_monotonic_decreasing for _, group in ordered.groupby("query"))


def test_rankers_on_shares_of_the_features_are_annotators(tmp_path: Path) -> None:
    path = write_file(tmp_path / "letor.svm", queries=20, items=20)
    crowd = simulate_ltrma(features=str(path), law="rankers", annotators=4, top_k=3, held_out=0.0, seed=1)
    rankings, gold = crowd["rankings"].to_pandas(), crowd["gold"].to_pandas()
    assert rankings.groupby(["query", "annotator"]).size().eq(3).all()
    assert len(gold) == 20 * 10  # the halves that were not learned from
    grade = rankings.merge(gold, on=["query", "item"]).groupby("annotator")["relevance"].mean()
    assert grade["a3"] > gold["relevance"].mean() + 0.5  # the one with all features knows


def test_a_file_without_grades_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "features.csv"
    path.write_text("query,item,x\nq,a,1\nq,b,2\n")
    with pytest.raises(UsageError, match="relevance"):
        simulate_ltrma(features=str(path))
