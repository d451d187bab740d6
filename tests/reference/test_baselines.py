"""Every aggregation baseline against its literal definition."""

from __future__ import annotations

import itertools
import statistics
from pathlib import Path
from typing import Any

import literal_orders as literal
import numpy as np
import pandas as pd
import pytest
from crowds import crowd, rows
from harness import Outcome, run_model

from distrank.engine.base import Engine
from distrank.kernels import mallows_consensus as mallows_kernels
from distrank.kernels import mpm as mpm_kernels

PAIRWISE = crowd(31, queries=2, items=7, annotators=8, rows=160)


def parts(frame: pd.DataFrame) -> dict[Any, tuple[list[Any], list[Any]]]:
    """Rows and sorted items of every query."""
    return {
        query: (list(part.itertuples(index=False, name=None)), sorted({*part.winner, *part.loser}))
        for query, part in frame.groupby("query")
    }


def order(outcome: Outcome, query: Any) -> list[Any]:
    ranking = outcome.rankings[outcome.rankings["query"] == query].sort_values("rank")
    return list(ranking["item"])


def full_rankings(seed: int, *, items: int = 6, annotators: int = 7, noise: float = 1.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=items)
    table = []
    for a in range(annotators):
        seen = np.argsort(-(truth + noise * rng.normal(size=items)))
        table += [("q", f"a{a}", f"i{item}", rank + 1) for rank, item in enumerate(seen)]
    return pd.DataFrame(table, columns=["query", "annotator", "item", "rank"])


def test_median_rank_sorts_full_rankings_by_their_median_rank() -> None:
    frame = full_rankings(1)
    scores = run_model("median-rank", frame).scores()
    for item, part in frame.groupby("item"):
        assert scores["q", item] == pytest.approx((6 - statistics.median(part["rank"])) / 5)


def test_median_rank_of_preferences_is_the_median_share_of_contests_won() -> None:
    frame = rows("q a x y", "q a x z", "q b y x", "q b x z", "q c x y", "q d u v")
    scores = run_model("median-rank", frame).scores()
    assert scores["q", "x"] == statistics.median([1.0, 0.5, 1.0])
    assert scores["q", "y"] == statistics.median([0.0, 1.0, 0.0])


def test_greedy_order_takes_the_highest_potential() -> None:
    outcome = run_model("greedy-order", PAIRWISE)
    for query, (own, items) in parts(PAIRWISE).items():
        assert order(outcome, query) == [items[k] for k in literal.greedy(literal.leads(own, items))]


def test_condorcet_is_a_merge_sort_by_majorities() -> None:
    outcome = run_model("condorcet", PAIRWISE)
    for query, (own, items) in parts(PAIRWISE).items():
        lead = literal.leads(own, items)
        expected = literal.merge_sort(list(range(len(items))), lambda a, b, lead=lead: lead[a, b] > 0)
        found = order(outcome, query)
        assert found == [items[k] for k in expected]
        for before, after in itertools.pairwise(found):  # a Hamiltonian path of the Condorcet graph
            assert lead[items.index(before), items.index(after)] >= 0


def test_a_condorcet_winner_comes_first() -> None:
    frame = rows("q a y x", "q b z w", "q a c x", "q a c y", "q a c z", "q a c w", "q b x y", "q b w z", "q c x z")
    assert order(run_model("condorcet", frame), "q")[0] == "c"


@pytest.mark.parametrize("seed", range(4))
def test_svp_completes_the_matrix_like_a_dense_one(seed: int) -> None:
    frame = crowd(seed, queries=1, items=7, annotators=6, rows=60)
    outcome = run_model("svp", frame, settings={"tolerance": 1e-13, "max_iterations": 3_000})
    own, items = parts(frame)["q0"]
    lead = literal.leads(own, items)
    total = np.zeros_like(lead)
    for _, _, winner, loser in own:
        total[items.index(winner), items.index(loser)] += 1
        total[items.index(loser), items.index(winner)] += 1
    mean = np.divide(lead, total, out=np.zeros_like(lead), where=total > 0)
    expected = literal.svp(mean, total > 0, 1_500)
    found = np.array([outcome.scores()["q0", item] for item in items])
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_svp_recovers_scores_from_differences() -> None:
    """A complete matrix of rank 2 is its own completion: here with two grades, so that the mean is the sign."""
    frame = rows(*(f"q a {x} {y}" for x in "ab" for y in "cde"))
    scores = run_model("svp", frame, settings={"tolerance": 1e-12}).scores()
    assert scores["q", "a"] == pytest.approx(scores["q", "b"])
    assert scores["q", "c"] == pytest.approx(scores["q", "e"])
    assert scores["q", "a"] > scores["q", "c"]


def test_em_elo_settles_pairs_and_plays_matches() -> None:
    outcome = run_model("em-elo", PAIRWISE)
    own = list(PAIRWISE.itertuples(index=False, name=None))
    posterior, eta = literal.settle(own, outcome.fit.iterations)
    results = []
    for q, a, w, x in own:
        first = posterior[q, min(w, x), max(w, x)]
        results.append((first if w < x else 1 - first) if eta[a] > 0.5 else None)
    assert any(result is None for result in results)
    assert outcome.scores() == pytest.approx(literal.elo(own, results), abs=1e-6)


def test_em_elo_with_equal_quality_is_elo() -> None:
    outcome = run_model("em-elo", PAIRWISE, settings={"annotator_quality": "equal"})
    own = list(PAIRWISE.itertuples(index=False, name=None))
    assert outcome.scores() == pytest.approx(literal.elo(own, [1.0] * len(own)), abs=1e-9)


def test_mpm_is_at_a_maximum_of_its_objective() -> None:
    settings = {"tolerance": 1e-12, "max_iterations": 2_000}
    outcome = run_model("mpm", PAIRWISE, settings=settings)
    own = list(PAIRWISE.itertuples(index=False, name=None))
    theta = dict(zip(outcome.annotators["annotator"], outcome.annotators["adherence"], strict=True))
    best = literal.mpm_objective(own, outcome.scores(), theta, 0.1, 1.0)
    assert float(outcome.fit.theta["objective"]) == pytest.approx(best, rel=1e-10)
    assert theta["a00"] < min(value for name, value in theta.items() if name != "a00")  # the one who lies
    step = 1e-4
    for kind in (outcome.scores(), theta):
        for name in list(kind)[:8]:
            values = []
            for side in (step, -step):
                moved = {**kind, name: kind[name] + side}
                given = (moved, theta) if kind is not theta else (outcome.scores(), moved)
                values.append(literal.mpm_objective(own, *given, 0.1, 1.0))
            assert abs(values[0] - values[1]) / (2 * step) < 1e-3, name
            assert max(values) <= best + 1e-9


def test_mpm_derivatives_are_those_of_the_likelihood() -> None:
    rng = np.random.default_rng(5)
    entries, item = np.array([0, 3, 5]), np.array([0, 1, 3, 2, 3])
    net, weight, v, theta = (
        np.array([2.0, -1, -1, 1, -1]),
        np.array([4.0, 1.0]),
        rng.normal(size=4),
        np.array([0.7, -1.2]),
    )

    def value(theta: Any, v: Any) -> tuple[float, Any]:
        objective, steepest, score = np.zeros(1), np.zeros(1), v.copy()
        units = np.array([0, 4]), np.array([0, 2])
        mpm_kernels.climb(*units, entries, item, net, weight, theta, 0.3, 0.0, 0, score, objective, steepest)
        return objective[0], steepest[0]

    found, h = np.zeros((2, 3)), 1e-5
    mpm_kernels.adherence(entries, item, net, weight, theta, v, found)
    for g in range(2):
        up, down = theta.copy(), theta.copy()
        up[g] += h
        down[g] -= h
        middle = value(theta, v)[0]
        assert found[g, 0] == pytest.approx((value(up, v)[0] - value(down, v)[0]) / (2 * h), abs=1e-7)
        assert -found[g, 1] == pytest.approx((value(up, v)[0] - 2 * middle + value(down, v)[0]) / h**2, abs=1e-4)
    slopes = [(value(theta, v + h * e)[0] - value(theta, v - h * e)[0]) / (2 * h) for e in np.eye(4)]
    assert value(theta, v)[1] == pytest.approx(np.abs(slopes).max(), abs=1e-7)


@pytest.mark.parametrize("sizes", [(1, 1), (1, 1, 1, 1), (2, 1, 2), (3, 2), (1, 4)])
@pytest.mark.parametrize("phi", [-1.3, -1e-7, 0.0, 0.4, 2.5])
def test_normalisers_of_lists_with_ties_by_enumeration(sizes: tuple[int, ...], phi: float) -> None:
    brackets = [(1.0, sum(sizes)), *((-1.0, size) for size in sizes)]
    found = sum(sign * mallows_kernels.log_bracket(phi, length) for sign, m in brackets for length in range(2, m + 1))
    assert found == pytest.approx(np.log(literal.mallows_normaliser(sizes, phi)), rel=1e-9, abs=1e-9)
    mean = sum(sign * mallows_kernels.mean_distance(phi, x) for sign, m in brackets for x in range(2, m + 1))
    h = 1e-5
    slope = [np.log(literal.mallows_normaliser(sizes, phi + side)) for side in (h, -h)]
    assert mean == pytest.approx(-(slope[0] - slope[1]) / (2 * h), abs=1e-6)


@pytest.mark.parametrize("exact", [10, 1], ids=["exact", "sampled"])
@pytest.mark.parametrize("seed", range(5))
def test_mallows_finds_the_weighted_kemeny_order(exact: int, seed: int) -> None:
    frame = full_rankings(seed, items=7, annotators=5, noise=2.0)
    outcome = run_model("mallows", frame, settings={"exact_items": exact})
    dispersion = dict(zip(outcome.annotators["annotator"], outcome.annotators["dispersion"], strict=True))
    items = sorted(set(frame["item"]))
    weight = np.zeros((7, 7))
    for annotator, part in frame.groupby("annotator"):
        ranked = list(part.sort_values("rank")["item"])
        for better, worse in itertools.combinations(ranked, 2):
            weight[items.index(better), items.index(worse)] += dispersion[annotator]
    found = [items.index(item) for item in order(outcome, "q")]
    cost = sum(weight[found[b], found[a]] for a in range(7) for b in range(a + 1, 7))
    assert cost == pytest.approx(literal.kemeny(weight), abs=1e-6)


def test_mallows_recovers_the_dispersion_of_annotators() -> None:
    """Lists drawn from the law by insertion. Enough annotators that no consensus is one's own list; some lie."""
    rng = np.random.default_rng(3)
    truth = {f"a{k:02d}": phi for k, phi in enumerate([1.0, 0.5, 0.2, 0.7, -0.5] * 4)}
    table: list[Any] = []
    for query, (annotator, phi) in itertools.product(range(40), truth.items()):
        ranked: list[int] = []
        for item in range(8):  # in the order of the consensus: j places before the end cost j
            chance = np.exp(-phi * np.arange(item + 1))
            ranked.insert(item - rng.choice(item + 1, p=chance / chance.sum()), item)
        table += [(f"q{query}", annotator, f"i{item}", rank + 1) for rank, item in enumerate(ranked)]
    outcome = run_model("mallows", pd.DataFrame(table, columns=["query", "annotator", "item", "rank"]))
    found = dict(zip(outcome.annotators["annotator"], outcome.annotators["dispersion"], strict=True))
    for annotator, phi in truth.items():
        assert found[annotator] == pytest.approx(phi, abs=0.15)


def test_plackett_luce_equals_choix_on_rankings() -> None:
    choix = pytest.importorskip("choix")
    frame = full_rankings(8, items=6, annotators=9)
    frame = frame[frame["rank"] <= frame["annotator"].str[1:].astype(int) % 4 + 3]  # lists of 3 to 6
    found = run_model("plackett-luce", frame, settings={"regularization": 0.2, "tolerance": 1e-12}).scores()
    lists = [[int(i[1:]) for i in part.sort_values("rank")["item"]] for _, part in frame.groupby("annotator")]
    expected = choix.mm_rankings(6, lists, alpha=0.2, max_iter=100_000, tol=1e-12)
    ours = np.array([found["q", f"i{k}"] for k in range(6)])
    np.testing.assert_allclose(ours - ours.mean(), expected - expected.mean(), atol=1e-6)


def test_plackett_luce_on_preferences_equals_choix_on_pairs() -> None:
    choix = pytest.importorskip("choix")
    own, items = parts(PAIRWISE)["q0"]
    frame = PAIRWISE[PAIRWISE["query"] == "q0"]
    found = run_model("plackett-luce", frame, settings={"regularization": 0.3, "tolerance": 1e-12}).scores()
    data = [(items.index(w), items.index(x)) for _, _, w, x in own]
    expected = choix.mm_pairwise(len(items), data, alpha=0.3, max_iter=100_000, tol=1e-12)
    ours = np.array([found["q0", item] for item in items])
    np.testing.assert_allclose(ours - ours.mean(), expected - expected.mean(), atol=1e-6)


@pytest.mark.parametrize("unlisted", ["ignored", "below"])
def test_plackett_luce_maximises_the_likelihood_of_top_k_lists(unlisted: str) -> None:
    frame = full_rankings(9, items=6, annotators=8)
    top = frame[frame["rank"] <= 3]
    alpha = 0.4
    found = run_model(
        "plackett-luce", top, settings={"regularization": alpha, "unlisted": unlisted, "tolerance": 1e-12}
    )
    items = sorted(set(top["item"]))

    def objective(score: dict[Any, float]) -> float:
        strength = {item: np.exp(score["q", item]) for item in items}
        total = alpha * sum(np.log(w) - w for w in strength.values())
        for _, part in top.groupby("annotator"):
            ranked = list(part.sort_values("rank")["item"])
            for place, chosen in enumerate(ranked):
                rest = ranked[place:] if unlisted == "ignored" else [i for i in items if i not in ranked[:place]]
                total += np.log(strength[chosen] / sum(strength[i] for i in rest))
        return total

    best = found.scores()
    assert float(found.fit.theta["objective"]) == pytest.approx(objective(best), rel=1e-10)
    for name in best:
        sides = [objective({**best, name: best[name] + side}) for side in (1e-4, -1e-4)]
        assert max(sides) < objective(best)
        assert abs(sides[0] - sides[1]) / 2e-4 < 1e-6


@pytest.mark.parametrize("name", ["median-rank", "condorcet", "greedy-order", "svp", "mpm", "plackett-luce", "mallows"])
def test_rankings_and_ratings_of_the_same_order_give_the_same_result(name: str) -> None:
    ranked = full_rankings(12, annotators=9)
    rated = ranked.assign(rating=10 - ranked["rank"]).drop(columns="rank")
    as_ranked, as_rated = run_model(name, ranked), run_model(name, rated)
    assert as_ranked.scores() == as_rated.scores()
    assert as_ranked.qualities() == as_rated.qualities()


@pytest.mark.ray
@pytest.mark.parametrize("name", ["median-rank", "plackett-luce", "mallows"])
def test_lists_give_the_same_bytes_on_both_engines(name: str, ray_engine: Engine, tmp_path: Path) -> None:
    frame = pd.concat([full_rankings(seed, items=12).assign(query=f"q{seed}") for seed in range(5)])
    local = run_model(name, frame, rows_per_shard=90)
    on_ray = run_model(name, frame, rows_per_shard=90, engine=ray_engine, work=tmp_path / "work")
    assert on_ray.bytes() == local.bytes()
