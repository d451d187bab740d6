"""Ranking metrics: literal references, arithmetic written out on tiny cases, and the laws each metric obeys."""

from __future__ import annotations

import math

import literal_metrics as literal
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from distrank.errors import InputError, UsageError
from distrank.metrics import (
    MetricSettings,
    average_precision,
    judged_queries,
    kendall_tau,
    measure_all,
    ndcg,
    pair_accuracy,
    pair_counts,
    parse_metrics,
    precision_at,
    rank_biased_precision,
    ranked_lists,
)

compiled = settings(deadline=None)  # the first call compiles
EXACT = {"rel": 1e-13, "abs": 1e-15}


def one_query(score, relevance, rank=None):
    return judged_queries(np.array([0, len(score)]), np.array(score), np.array(relevance, float), rank)


@st.composite
def crowds_of_queries(draw):
    """A few queries with ties in score, rank and relevance, unknown relevances, and judged items not ranked."""
    item = st.fixed_dictionaries(
        {
            "score": st.integers(-3, 3).map(float),
            "rank": st.integers(1, 4),
            "relevance": st.none() | st.integers(-1, 4).map(float),
        }
    )
    query = st.tuples(st.lists(item, max_size=12), st.lists(st.integers(-1, 4).map(float), max_size=3))
    return draw(st.lists(query, min_size=1, max_size=4))


def to_arrays(queries):
    items = [item for ranked, _ in queries for item in ranked]
    return judged_queries(
        np.cumsum([0] + [len(ranked) for ranked, _ in queries]),
        np.array([item["score"] for item in items], float),
        np.array([np.nan if item["relevance"] is None else item["relevance"] for item in items], float),
        np.array([item["rank"] for item in items], float),
        unranked=(
            np.cumsum([0] + [len(unranked) for _, unranked in queries]),
            np.array([y for _, unranked in queries for y in unranked], float),
        ),
    )


@compiled
@given(crowds_of_queries())
def test_pair_metrics_equal_the_double_loop(queries):
    counts = pair_counts(to_arrays(queries))
    pairs = [literal.accuracy(items) for items, _ in queries]
    assert counts.right.tolist() == [right for right, _ in pairs]
    assert counts.true_pairs.tolist() == [counted for _, counted in pairs]
    expected = [right / counted if counted else math.nan for right, counted in pairs]
    assert pair_accuracy(counts) == pytest.approx(expected, nan_ok=True, **EXACT)
    assert kendall_tau(counts) == pytest.approx([literal.tau_b(items) for items, _ in queries], nan_ok=True, **EXACT)


@compiled
@given(crowds_of_queries(), st.integers(1, 6))
def test_list_metrics_equal_their_definitions(queries, k):
    lists = ranked_lists(to_arrays(queries))
    cases = [
        (ndcg(lists), [literal.ndcg(*query) for query in queries]),
        (ndcg(lists, k), [literal.ndcg(*query, k) for query in queries]),
        (ndcg(lists, k, exponential=False), [literal.ndcg(*query, k, linear=True) for query in queries]),
        (average_precision(lists), [literal.average_precision(*query) for query in queries]),
        (average_precision(lists, threshold=3), [literal.average_precision(*query, 3) for query in queries]),
        (precision_at(lists, k), [literal.precision_at(items, k) for items, _ in queries]),
        (rank_biased_precision(lists), [literal.rbp(items) for items, _ in queries]),
        (rank_biased_precision(lists, persistence=0.5, threshold=2), [literal.rbp(i, 0.5, 2) for i, _ in queries]),
    ]
    for values, expected in cases:
        assert values == pytest.approx(expected, **EXACT)


@compiled
@given(crowds_of_queries(), st.integers(1, 6))
def test_judged_only_is_the_same_as_never_having_ranked_the_others(queries, k):
    dropped = to_arrays([(literal.known(items), unranked) for items, unranked in queries])
    names = parse_metrics(["ndcg", f"p@{k}", "map", "rbp"])
    kept = measure_all(names, to_arrays(queries), MetricSettings(judged_only=True))
    for name, values in measure_all(names, dropped).items():
        assert kept[name].tolist() == values.tolist()


@compiled
@given(crowds_of_queries(), st.integers(1, 6))
def test_bounds(queries, k):
    names = parse_metrics(["accuracy", "kendall", "ndcg", f"ndcg@{k}", "map", f"p@{k}", "rbp"])
    for name, values in measure_all(names, to_arrays(queries)).items():
        defined = values[~np.isnan(values)]
        assert (defined >= (-1 if name == "kendall" else 0)).all()
        assert (defined <= 1 + 1e-15).all()


@compiled
@given(st.lists(st.integers(0, 5).map(float), min_size=2, max_size=30).filter(lambda y: min(y) < max(y)))
def test_scoring_by_the_truth_is_perfect_and_its_reverse_is_as_wrong_as_can_be(relevance):
    truth = np.array(relevance)
    perfect = measure_all(parse_metrics("accuracy,kendall,ndcg,ndcg@3,map"), one_query(truth, truth))
    assert {name: values.item() for name, values in perfect.items()} == dict.fromkeys(perfect, 1.0)
    reverse = measure_all(parse_metrics("accuracy,kendall"), one_query(-truth, truth))
    assert (reverse["accuracy"].item(), reverse["kendall"].item()) == (0.0, -1.0)
    relevant = int((truth >= 1).sum())
    assert rank_biased_precision(ranked_lists(one_query(truth, truth))).item() == pytest.approx(1 - 0.95**relevant)


@compiled
@given(st.permutations(range(12)), st.permutations(range(12)))
def test_without_ties_reversing_the_scores_turns_right_into_wrong(score, relevance):
    forward = pair_counts(one_query(np.array(score, float), relevance))
    backward = pair_counts(one_query(-np.array(score, float), relevance))
    assert forward.right + forward.wrong == 66
    assert (forward.right, forward.wrong) == (backward.wrong, backward.right)
    assert kendall_tau(forward) == -kendall_tau(backward)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 400), st.integers(2, 50))
def test_kendall_equals_scipy(seed, items, levels):
    rng = np.random.default_rng(seed)
    score, relevance = rng.integers(0, levels, items).astype(float), rng.integers(0, levels, items).astype(float)
    expected = kendalltau(score, relevance).statistic
    assert kendall_tau(pair_counts(one_query(score, relevance))) == pytest.approx(expected, nan_ok=True, abs=1e-14)


def test_a_query_of_200_000_items_is_counted_exactly():
    n = 200_000
    rng = np.random.default_rng(1)
    order = np.arange(n, dtype=float)
    counts = pair_counts(one_query(order, order[::-1]))
    assert (counts.right, counts.wrong) == (0, n * (n - 1) // 2)
    assert kendall_tau(counts) == -1.0
    # Moving the worst item to the front breaks exactly n - 1 pairs.
    moved = order.copy()
    moved[0] = n
    shuffle = rng.permutation(n)
    counts = pair_counts(one_query(moved[shuffle], order[shuffle]))
    assert counts.wrong == n - 1
    assert counts.right == n * (n - 1) // 2 - (n - 1)


def test_pairs_written_out():
    # truth 3 2 2 1, scores 5 5 1 2. Pairs of different truth: a>b, a>c, a>d, b>d, c>d.
    # a-b tied in score (not right, not wrong); a>c, a>d, b>d right; c-d wrong. b-c have equal truth: not counted.
    counts = pair_counts(one_query([5.0, 5.0, 1.0, 2.0], [3, 2, 2, 1]))
    assert (counts.right, counts.wrong, counts.true_pairs, counts.score_pairs) == (3, 1, 5, 5)
    assert pair_accuracy(counts) == 3 / 5
    assert kendall_tau(counts) == (3 - 1) / 5


def test_a_constant_score_has_no_accuracy_and_a_constant_truth_has_none_to_measure():
    constant_score = pair_counts(one_query([1.0, 1.0, 1.0], [1, 2, 3]))
    assert pair_accuracy(constant_score) == 0.0
    constant_truth = pair_counts(one_query([1.0, 2.0, 3.0], [1, 1, 1]))
    assert np.isnan(pair_accuracy(constant_truth)).all()
    assert np.isnan(kendall_tau(constant_score)).all()
    assert np.isnan(kendall_tau(constant_truth)).all()


def test_lists_written_out():
    # Ranked: grades 2, unknown, 0, 1; one more item of grade 1 was never ranked.
    queries = judged_queries(
        np.array([0, 4]),
        np.array([9.0, 8, 7, 6]),
        np.array([2, np.nan, 0, 1]),
        unranked=(np.array([0, 1]), np.array([1.0])),
    )
    lists = ranked_lists(queries)
    log3, log5 = math.log2(3), math.log2(5)
    assert ndcg(lists) == pytest.approx((3 / 1 + 1 / log5) / (3 / 1 + 1 / log3 + 1 / 2))
    assert ndcg(lists, 2) == pytest.approx(3 / (3 + 1 / log3))
    assert ndcg(lists, exponential=False) == pytest.approx((2 + 1 / log5) / (2 + 1 / log3 + 1 / 2))
    assert average_precision(lists) == pytest.approx((1 / 1 + 2 / 4) / 3)
    assert precision_at(lists, 2) == 1 / 2
    assert precision_at(lists, 10) == 2 / 10  # a short list is not excused
    assert rank_biased_precision(lists, persistence=0.5) == 0.5 * (1 + 0.5**3)
    judged = ranked_lists(queries, judged_only=True)
    assert average_precision(judged) == pytest.approx((1 / 1 + 2 / 3) / 3)


def test_ties_in_score_are_broken_by_rank_and_then_by_position():
    score, relevance = np.array([1.0, 1.0, 5.0]), np.array([0.0, 1.0, 0.0])
    assert precision_at(ranked_lists(one_query(score, relevance, np.array([2, 1, 9]))), 2) == 1 / 2
    assert precision_at(ranked_lists(one_query(score, relevance, np.array([1, 2, 9]))), 2) == 0
    assert precision_at(ranked_lists(one_query(score, relevance)), 2) == 0


def test_ties_are_broken_in_order_however_long_the_list():
    n = 500
    rng = np.random.default_rng(5)
    relevance, rank = rng.integers(0, 2, n).astype(float), rng.permutation(n)
    tied = rng.integers(0, 3, n).astype(float)
    by_rank = ranked_lists(one_query(tied, relevance, rank)).relevance
    assert by_rank.tolist() == [y for _, _, y in sorted(zip(-tied, rank, relevance, strict=True))]
    as_they_came = ranked_lists(one_query(tied, relevance)).relevance
    assert as_they_came.tolist() == [y for _, _, y in sorted(zip(-tied, range(n), relevance, strict=True))]


def test_queries_without_anything_relevant_or_ranked_have_zero_as_in_trec_eval():
    queries = judged_queries(
        np.array([0, 2, 2]), np.array([1.0, 2.0]), np.array([0.0, 0.0]), unranked=(np.array([0, 0, 1]), np.array([3.0]))
    )
    names = parse_metrics("ndcg,map,p@5,rbp")
    assert {name: values.tolist() for name, values in measure_all(names, queries).items()} == {
        "ndcg": [0, 0], "map": [0, 0], "p@5": [0, 0], "rbp": [0, 0]
    }  # fmt: skip


def test_grades_whose_gain_overflows_still_give_a_number():
    truth = np.arange(1.0, 5001.0)
    assert ndcg(ranked_lists(one_query(truth, truth))) == 1.0
    swapped = truth.copy()
    swapped[[-1, -2]] = truth[[-2, -1]]
    # The two best grades are 2^5000 and 2^4999: in units of 2^4999 they are 2, 1, then 1/2, 1/4, ...
    tail = sum(0.5 ** (r - 2) / math.log2(1 + r) for r in range(3, 80))
    expected = (1 + 2 / math.log2(3) + tail) / (2 + 1 / math.log2(3) + tail)
    assert ndcg(ranked_lists(one_query(swapped, truth))) == pytest.approx(expected, rel=1e-13)


def test_scores_that_are_not_numbers_are_refused():
    with pytest.raises(InputError, match="score of item 1 is not a number"):
        one_query([1.0, np.nan], [1, 2])
    with pytest.raises(InputError, match="offsets end at 3"):
        judged_queries(np.array([0, 3]), np.array([1.0]), np.array([1.0]))


def test_metric_names():
    assert [metric.name for metric in parse_metrics("accuracy, NDCG@10,p@5,ndcg@10")] == ["accuracy", "ndcg@10", "p@5"]
    assert [metric.name for metric in parse_metrics(["ndcg", "p", "map"], k=(5, 10))] == [
        "ndcg@5", "ndcg@10", "p@5", "p@10", "map"
    ]  # fmt: skip
    assert [metric.name for metric in parse_metrics(["ndcg"])] == ["ndcg"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ncdg@10", r"unknown metric 'ncdg@10'; known: accuracy, kendall, ndcg@k, kappa-ndcg@k, map, p@k, rbp"),
        ("ndcg@0", "whole number from 1"),
        ("ndcg@", "whole number from 1"),
        ("p@1.5", "whole number from 1"),
        ("map@10", "takes no @k"),
        ("p", "for example p@10"),
        ("", "unknown metric ''"),
    ],
)
def test_wrong_names_say_what_is_known(name, message):
    with pytest.raises(UsageError, match=message):
        parse_metrics([name])


def test_naming_no_metric_is_an_error():
    with pytest.raises(UsageError, match="no metric was named"):
        parse_metrics([])
