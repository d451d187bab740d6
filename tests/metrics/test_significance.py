"""Tests of significance against scipy and enumeration; measures against ir_measures; kappa-NDCG by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from distrank.evaluate import compare, evaluate, paired_test, significance
from distrank.metrics import MetricSettings


@pytest.mark.parametrize("count", [2, 5, 13, 40])
def test_the_t_test_is_scipys(count: int) -> None:
    rng = np.random.default_rng(count)
    a, b = rng.random(count), rng.random(count)
    found = paired_test(a, b)
    expected = stats.ttest_rel(a, b)
    assert found.t == pytest.approx(expected.statistic, rel=1e-12)
    assert found.p_t == pytest.approx(expected.pvalue, rel=1e-10)
    assert found.difference == pytest.approx((a - b).mean())


@pytest.mark.parametrize("count", [1, 3, 8])
def test_few_queries_are_enumerated(count: int) -> None:
    difference = np.round(np.random.default_rng(count).normal(size=count), 1)  # with ties between flips
    sums = [abs(np.dot(signs, difference)) for signs in itertools.product((1, -1), repeat=count)]
    expected = np.mean(np.array(sums) >= abs(difference.sum()) - 1e-12)
    assert paired_test(difference, np.zeros(count)).p_randomisation == expected


def test_random_flips_approach_the_t_test_and_depend_on_the_seed_alone() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(0.3, 1.0, 70)
    zero = np.zeros(70)
    ours = paired_test(a, zero, flips=20_000).p_randomisation
    assert ours == pytest.approx(paired_test(a, zero).p_t, abs=0.01)
    assert paired_test(a, zero, seed=1).p_randomisation == paired_test(a, zero, seed=1).p_randomisation
    assert paired_test(a, zero, seed=1).p_randomisation != paired_test(a, zero, seed=2).p_randomisation


def test_p_is_uniform_without_a_difference() -> None:
    rng = np.random.default_rng(1)
    p = [paired_test(rng.normal(size=20), np.zeros(20), flips=999).p_randomisation for _ in range(400)]
    assert stats.kstest(p, "uniform").pvalue > 1e-4


def test_undefined_queries_are_left_out_and_equal_runs_are_not_different() -> None:
    found = paired_test(np.array([0.5, np.nan, 0.25]), np.array([0.5, 0.1, 0.25]))
    assert (found.queries, found.difference, found.p_t, found.p_randomisation) == (2, 0.0, 1.0, 1.0)


def tables(seed: int, queries: int = 25, items: int = 20) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    query = np.repeat([f"q{q:02d}" for q in range(queries)], items)
    item = np.tile([f"d{i:02d}" for i in range(items)], queries)
    relevance = rng.integers(0, 4, queries * items) * (rng.random(queries * items) < 0.5)
    ranking = pd.DataFrame({"query": query, "item": item, "score": rng.permutation(queries * items) / 7.0})
    return ranking, pd.DataFrame({"query": query, "item": item, "relevance": relevance})


def test_a_table_of_runs_and_their_tests() -> None:
    (first, gold), (second, _), (third, _) = tables(1), tables(2), tables(3)
    comparison = compare({"one": first, "two": second, "three": third}, gold, "ndcg@10,map")
    assert comparison.table["run"].to_pylist() == ["one", "two", "three"]
    found = significance(comparison, "two").to_pylist()
    assert [(row["metric"], row["run"]) for row in found] == [
        ("ndcg@10", "one"), ("ndcg@10", "three"), ("map", "one"), ("map", "three"),
    ]  # fmt: skip
    means = {name: run.means for name, run in comparison.runs.items()}
    for row in found:
        assert row["difference"] == pytest.approx(means[row["run"]][row["metric"]] - means["two"][row["metric"]])


def test_values_equal_ir_measures() -> None:
    ir_measures = pytest.importorskip("ir_measures")
    ranking, gold = tables(4)
    measures = {
        "ndcg@10": ir_measures.nDCG @ 10,
        "ndcg@5": ir_measures.nDCG @ 5,
        "map": ir_measures.AP(rel=2),
        "p@10": ir_measures.P(rel=2) @ 10,
    }
    qrels = gold.rename(columns={"query": "query_id", "item": "doc_id"})
    run = ranking.rename(columns={"query": "query_id", "item": "doc_id"})
    theirs = pd.DataFrame(ir_measures.iter_calc(list(measures.values()), qrels, run))
    ours = evaluate(ranking, gold, list(measures), settings=MetricSettings(gain="linear", threshold=2.0))
    frame = ours.queries.to_pandas().set_index("query")
    for name, measure in measures.items():
        expected = theirs[theirs["measure"] == measure].set_index("query_id")["value"]
        np.testing.assert_allclose(frame[name][expected.index], expected, rtol=1e-6, err_msg=name)


def test_kappa_ndcg_by_hand() -> None:
    """Three items of relevance 70, 70, 5: grades 1, 1, 1/3."""
    gold = pd.DataFrame({"item": ["a", "b", "c"], "relevance": [70, 70, 5]})
    ranking = pd.DataFrame({"item": ["c", "a", "b"], "score": [3.0, 2.0, 1.0]})
    gain = [2 ** (1 / 3) - 1, 1.0, 1.0]
    found = gain[0] + gain[1] / np.log2(3) + gain[2] / np.log2(4)
    best = 1.0 + 1 / np.log2(3) + gain[0] / np.log2(4)
    assert evaluate(ranking, gold, "kappa-ndcg").means["kappa-ndcg@10"] == pytest.approx(found / best)
    at_one = evaluate(ranking, gold, ["kappa-ndcg@1"]).means["kappa-ndcg@1"]
    assert at_one == pytest.approx(gain[0])
    older = gold.assign(relevance=[1e3, 1e3, -4.0])
    assert evaluate(ranking, older, ["kappa-ndcg@1"]).means["kappa-ndcg@1"] == pytest.approx(at_one)
