"""LTRMA and its relatives against literal references, and what they must recover."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from literal_ltrma import Crowd

from distrank import LTRMA, ListMLE, LRegMA, LTRMADirect
from distrank.errors import UsageError
from distrank.simulate import simulate_ltrma
from distrank.simulate.permutations import insert, mallows_insertions

RIDGE = 0.05


def small(seed: int, queries: int = 8, items: int = 4, annotators: int = 3) -> tuple[pd.DataFrame, pd.DataFrame, Crowd]:
    """Lists of different items and lengths; not everybody ranks every query."""
    rng = np.random.default_rng(seed)
    features = [rng.normal(size=(items, 2)) for _ in range(queries)]
    lists: list[dict[int, dict[int, int]]] = []
    rows = []
    for query, x in enumerate(features):
        truth = x @ np.array([1.0, -0.5])
        given = {}
        for annotator in range(annotators):
            if annotator == 0 or rng.random() < 0.8:
                noisy = truth + rng.normal(size=items) * (0.9 + 0.5 * annotator)
                order = np.argsort(-noisy)[: items - int(rng.random() < 0.3)]
                given[annotator] = {int(item): place for place, item in enumerate(order)}
                rows += [(f"q{query}", f"a{annotator}", f"i{item}", place + 1) for place, item in enumerate(order)]
        lists.append(given)
    table = [(f"q{q}", f"i{i}", *x[i]) for q, x in enumerate(features) for i in range(items)]
    frame = pd.DataFrame(rows, columns=["query", "annotator", "item", "rank"])
    return frame, pd.DataFrame(table, columns=["query", "item", "f", "g"]), Crowd(features, lists, RIDGE)


def fitted(method: type[Any], *arguments: Any, settings: dict[str, Any] | None = None, **tables: Any) -> Any:
    return method(**(settings or {})).fit(*arguments, **tables)


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_the_fixed_point_is_that_of_the_paper(seed: int) -> None:
    frame, features, literal = small(seed)
    result = LTRMA(ridge=RIDGE, tolerance=1e-7).fit(frame, features)
    assert result.converged
    theta = result.annotators["theta"].to_numpy()
    w = result.ranker.coefficients * np.concatenate([features[["f", "g"]]]).std(axis=0)
    np.testing.assert_allclose(literal.next_theta(w, theta), theta, atol=1e-5)
    np.testing.assert_allclose(literal.next_w(w, theta), w, atol=1e-3)
    assert result.trace[-1]["objective"] == pytest.approx(literal.log_likelihood(w, theta), abs=1e-7)
    for query in range(8):
        best = literal.posterior(query, w, theta).best
        found = result.rankings[result.rankings["query"] == f"q{query}"]["item"]
        assert list(found) == [f"i{item}" for item in best]


@pytest.mark.parametrize("seed", [3, 4])
def test_with_expectation_the_likelihood_rises_to_a_maximum(seed: int) -> None:
    frame, features, literal = small(seed)
    settings = {"w_step": "expectation", "ridge": RIDGE, "tolerance": 1e-6, "max_iterations": 400}
    result = LTRMA(**settings).fit(frame, features)
    assert result.converged
    trace = [entry["objective"] for entry in result.trace]
    assert all(after >= before - 1e-9 * abs(before) for before, after in pairwise(trace))
    theta = result.annotators["theta"].to_numpy()
    w = result.ranker.coefficients * np.concatenate([features[["f", "g"]]]).std(axis=0)
    top = literal.log_likelihood(w, theta)
    assert trace[-1] == pytest.approx(top, abs=1e-7)
    rng = np.random.default_rng(0)
    for _ in range(6):  # no direction leads up
        step = 1e-3 * rng.normal(size=2 + len(theta))
        assert literal.log_likelihood(w + step[:2], theta + step[2:]) < top + 1e-7


def test_sampled_lists_tell_what_summed_ones_tell() -> None:
    crowd = simulate_ltrma(case="hard", queries=60, items=8, annotators=4, test=0, seed=3)
    tables = crowd["rankings"], crowd["features"]
    exact = LTRMA(ridge=0.1).fit(*tables)
    sampled = LTRMA(ridge=0.1, exact_items=2, samples=4000, max_iterations=30).fit(*tables)
    np.testing.assert_allclose(sampled.annotators["theta"], exact.annotators["theta"], atol=0.05)
    assert sampled.diagnosis["sampled_queries"] == 60
    assert exact.diagnosis["exact_queries"] == 60
    assert 0.0 < sampled.trace[-1]["acceptance"] < 1.0
    assert sampled.trace[-1]["effective_samples"] > 50
    few = LTRMA(exact_items=2, samples=20, max_iterations=2).fit(*tables)
    assert any("effective samples" in warning for warning in few.warnings)


def test_expertise_and_ranker_are_recovered() -> None:
    crowd = simulate_ltrma(case="hard", queries=150, annotators=6, seed=5)
    result = LTRMA().fit(crowd["rankings"], crowd["features"])
    truth = crowd["annotators"].to_pandas()["theta"].to_numpy()
    error = result.annotators["theta_error"].to_numpy()
    assert (np.abs(result.annotators["theta"] - truth) < 4.0 * error).all()
    scores = result.score(crowd["test_features"])
    gold = crowd["test_gold"].to_pandas()
    both = scores.merge(gold, on=["query", "item"])
    first = both[both["rank"] == 1]
    assert (first["relevance"] == 10).mean() > 0.95
    assert result.annotators["quality"].between(0.5, 0.9).all()


def test_a_malicious_annotator_has_a_theta_above_zero() -> None:
    crowd = simulate_ltrma(case="hard", queries=60, annotators=5, test=0, seed=6)
    frame = crowd["rankings"].to_pandas()
    liar = frame["annotator"] == "a4"
    frame.loc[liar, "rank"] = 11 - frame.loc[liar, "rank"]
    people = LTRMA().fit(frame, crowd["features"]).annotators.set_index("annotator")
    assert people.loc["a4", "theta"] > 0.02
    assert people.loc["a4", "quality"] < 0.5


def test_ties_and_partial_lists_are_used_as_they_are() -> None:
    crowd = simulate_ltrma(case="hard", queries=80, annotators=5, test=0, seed=7)
    frame = crowd["rankings"].to_pandas()
    tied = frame.assign(rank=np.where(frame["annotator"] < "a2", (frame["rank"] + 1) // 2, frame["rank"]))
    truth = crowd["annotators"].to_pandas()["theta"]
    rng, rows = np.random.default_rng(0), []
    for query, gold in crowd["gold"].to_pandas().groupby("query"):  # a3 is shown seven of the ten items
        shown = gold.sort_values("relevance", ascending=False)["item"].to_numpy()[np.sort(rng.permutation(10)[:7])]
        inserted = np.zeros(7, np.int64)
        mallows_insertions(truth[3], rng.random(7), inserted)
        given = shown[insert(np.arange(7), inserted)]
        rows += [(query, "a3", item, place + 1) for place, item in enumerate(given)]
    part = pd.concat(
        [tied[tied["annotator"] != "a3"], pd.DataFrame(rows, columns=["query", "annotator", "item", "rank"])]
    )
    result = LTRMA().fit(part, crowd["features"])
    error = result.annotators["theta_error"].to_numpy()
    assert (np.abs(result.annotators["theta"] - truth) < 4.0 * error).all()


def test_partial_gold_is_never_contradicted_and_helps() -> None:
    """S1: true rankings of a quarter of the queries."""
    crowd = simulate_ltrma(case="hard", annotators=3, known=0.25, test=0, seed=8)
    known = crowd["known"].to_pandas()
    result = LTRMA().fit(crowd["rankings"], crowd["features"], gold=known)
    both = result.rankings.merge(known, on=["query", "item"]).sort_values(["query", "rank"])
    for _, group in both.groupby("query"):
        assert group["relevance"].is_monotonic_decreasing
    assert both["query"].nunique() == round(0.25 * 30)
    some = known.groupby("query").head(4)  # four items of every such query
    partial = LTRMA(exact_items=2).fit(crowd["rankings"], crowd["features"], gold=some)
    both = partial.rankings.merge(some, on=["query", "item"]).sort_values(["query", "rank"])
    assert all(group["relevance"].is_monotonic_decreasing for _, group in both.groupby("query"))


def test_listmle_is_the_maximum_of_its_likelihood() -> None:
    frame, features, literal = small(9)
    gold = features[["query", "item"]].assign(relevance=features["f"] - 0.5 * features["g"])
    result = ListMLE(ridge=RIDGE).fit(frame, features, gold=gold)
    assert result.converged
    orders = [
        tuple(np.argsort(-group["relevance"].to_numpy()).tolist()) for _, group in gold.groupby("query", sort=True)
    ]
    w = result.ranker.coefficients * np.concatenate([features[["f", "g"]]]).std(axis=0)
    import literal_lists
    from scipy.optimize import approx_fprime

    def objective(v: np.ndarray) -> float:
        fit = sum(literal_lists.plackett_luce(y, x @ v) for y, x in zip(orders, literal.features, strict=True))
        return fit - 0.5 * RIDGE * len(orders) * float(v @ v)

    np.testing.assert_allclose(approx_fprime(w, objective, 1e-6), 0.0, atol=1e-3)
    assert result.trace[-1]["objective"] == pytest.approx(objective(w), abs=1e-8)


def test_listmle_without_gold_says_what_it_needs() -> None:
    frame, features, _ = small(9)
    with pytest.raises(UsageError, match="give gold"):
        ListMLE().fit(frame, features)


def test_the_direct_way_is_aggregation_and_then_listmle() -> None:
    """The ranker of ltrma-d is the one that ListMLE learns from its rankings taken for gold."""
    frame, features, _ = small(10, queries=8)
    direct = LTRMADirect(ridge=RIDGE).fit(frame, features)
    assert direct.converged
    truth = direct.rankings[["query", "item"]].assign(relevance=-direct.rankings["rank"].astype(float))
    learned = ListMLE(ridge=RIDGE).fit(frame, features, gold=truth)
    np.testing.assert_allclose(direct.ranker.coefficients, learned.ranker.coefficients, rtol=1e-3, atol=1e-4)


def test_lregma_is_the_fixed_point_of_its_two_steps() -> None:
    frame, features, _ = small(11, queries=10)
    result = LRegMA(ridge=RIDGE, tolerance=1e-13, max_iterations=500).fit(frame, features)
    joined = frame.merge(features, on=["query", "item"])
    length = joined.groupby(["query", "annotator"])["item"].transform("size")
    target = (length - joined["rank"]).to_numpy()
    every = features[["f", "g"]].to_numpy()
    x = (joined[["f", "g"]].to_numpy() - every.mean(axis=0)) / every.std(axis=0)
    design = np.column_stack([x, np.ones(len(x))])
    precision = result.annotators.set_index("annotator")["precision"]
    weight = joined["annotator"].map(precision).to_numpy()
    penalty = np.diag([RIDGE * 10, RIDGE * 10, 0.0])
    solution = np.linalg.solve(design.T @ (design * weight[:, None]) + penalty, design.T @ (weight * target))
    np.testing.assert_allclose(result.ranker.coefficients * every.std(axis=0), solution[:2], atol=1e-5)
    error = pd.Series((target - design @ solution) ** 2).groupby(joined["annotator"]).mean()
    np.testing.assert_allclose(1.0 / precision, error, rtol=1e-4)


def test_ltrma_beats_the_direct_way_and_regression_on_noisy_crowds() -> None:
    """Kendall distance of the estimated true rankings, on the same five crowds."""
    distances: dict[str, list[float]] = {"ltrma": [], "direct": []}
    for seed in range(5):
        crowd = simulate_ltrma(case="hard", annotators=3, test=0, seed=seed)
        gold = crowd["gold"].to_pandas()
        for name, method in (("ltrma", LTRMA()), ("direct", LTRMADirect())):
            rankings = method.fit(crowd["rankings"], crowd["features"]).rankings.merge(gold, on=["query", "item"])
            distances[name].append(float(np.mean([_kendall(group) for _, group in rankings.groupby("query")])))
    assert np.mean(distances["ltrma"]) < 1.0
    assert all(one < 0.3 * other for one, other in zip(*distances.values(), strict=True))


def _kendall(group: pd.DataFrame) -> int:
    relevance = group.sort_values("rank")["relevance"].to_numpy()
    return int((relevance[:, None] < relevance[None, :])[np.triu_indices(len(relevance), 1)].sum())


def test_top_k_learns_from_lists_that_stop() -> None:
    """Ten of two hundred items: the ranker is found, and who knows more has the lower theta."""
    rng = np.random.default_rng(12)
    rows, table = [], []
    for query in range(40):
        x = rng.normal(size=(200, 3))
        score = 2.0 * x[:, 0] - x[:, 1]
        table += [(f"q{query:02d}", f"i{i:03d}", *x[i]) for i in range(200)]
        for annotator, noise in enumerate((0.1, 0.4, 1.5)):
            first = np.argsort(-(score + noise * rng.normal(size=200)))[: 10 if annotator else 7]
            rows += [(f"q{query:02d}", f"a{annotator}", f"i{i:03d}", r + 1) for r, i in enumerate(first)]
    frame = pd.DataFrame(rows, columns=["query", "annotator", "item", "rank"])
    features = pd.DataFrame(table, columns=["query", "item", "x", "y", "z"])
    for step in ("map", "expectation"):
        result = LTRMA(top_k=10, w_step=step, max_iterations=20).fit(frame, features)
        w = result.ranker.coefficients
        assert w[0] > 0.0
        np.testing.assert_allclose(w / w[0], [1.0, -0.5, 0.0], atol=0.1)
        theta = result.annotators["theta"].to_numpy()
        assert theta[0] < theta[1] < theta[2] < 0.0
        assert len(result.rankings) == 40 * 200


def test_long_lists_ask_for_top_k() -> None:
    features = pd.DataFrame({"query": "q", "item": [f"i{n}" for n in range(2500)], "x": np.arange(2500.0)})
    frame = pd.DataFrame({"query": "q", "annotator": "a", "item": ["i1", "i2"], "rank": [1, 2]})
    with pytest.raises(UsageError, match="set top_k"):
        LTRMA().fit(frame, features)
