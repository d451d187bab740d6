"""Rankings against gold: the join, the counts, the conventions, and what is shown."""

from __future__ import annotations

import csv
import io
import json
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distrank.errors import InputError, UsageError
from distrank.evaluate import (
    compare,
    comparison_dict,
    comparison_text,
    evaluate,
    evaluation_dict,
    evaluation_text,
    table_csv,
)
from distrank.metrics import MetricSettings

RANKING = pd.DataFrame(
    {
        "query": ["b", "b", "b", "a", "a", "only ranked"],
        "item": ["x", "y", "z", "x", "y", "x"],
        "rank": [1, 2, 3, 2, 1, 1],
        "score": [3.0, 2.0, 1.0, 1.0, 5.0, 1.0],
    }
)
GOLD = pd.DataFrame(
    {
        "query": ["a", "a", "a", "b", "b", "only judged"],
        "item": ["x", "y", "never ranked", "x", "y", "x"],
        "relevance": [1, 0, 2, 0, 1, 1],
    }
)


def values(evaluation, metric):
    return dict(zip(evaluation.queries["query"].to_pylist(), evaluation.queries[metric].to_pylist(), strict=True))


def test_every_number_of_a_small_case_written_out():
    evaluation = evaluate(RANKING, GOLD, ["accuracy", "map", "p@1", "ndcg@2"])
    # a: ranked y(0), x(1), and an item of grade 2 is missing. b: ranked x(0), y(1), z(unknown).
    assert values(evaluation, "accuracy") == {"a": 0.0, "b": 0.0}
    assert values(evaluation, "map") == {"a": (1 / 2) / 2, "b": (1 / 2) / 1}
    assert values(evaluation, "p@1") == {"a": 0.0, "b": 0.0}
    log3 = math.log2(3)
    assert values(evaluation, "ndcg@2") == pytest.approx({"a": (1 / log3) / (3 + 1 / log3), "b": 1 / log3})
    assert evaluation.means["map"] == (0.25 + 0.5) / 2
    assert evaluation.counts == {
        "queries": 2, "items": 5, "judged": 4, "missing": 1, "unjudged_queries": 1, "unranked_queries": 1
    }  # fmt: skip
    assert evaluation.queries.select(["query", "items", "judged", "missing"]).to_pylist() == [
        {"query": "a", "items": 2, "judged": 2, "missing": 1},
        {"query": "b", "items": 3, "judged": 2, "missing": 0},
    ]
    assert [warning.split()[0] for warning in evaluation.warnings] == ["1", "1", "1", "1"]


def test_judged_items_are_missing_wherever_they_stand_in_gold():
    ranking = pd.DataFrame({"item": ["unjudged", "x"], "score": [2.0, 1.0]})
    gold = pd.DataFrame({"item": ["first", "x", "last"], "relevance": [1, 1, 1]})
    for rows in (gold, gold[::-1]):
        evaluation = evaluate(ranking, rows, "map")
        assert evaluation.counts["missing"] == 2
        assert evaluation.means["map"] == pytest.approx((1 / 2) / 3)


def test_undefined_queries_are_counted_out_of_the_mean_and_said():
    gold = GOLD.assign(relevance=[1, 1, 1, 0, 1, 1])  # in query a all are equal: no pair to get right
    evaluation = evaluate(RANKING, gold, ["accuracy", "map"])
    assert evaluation.means["accuracy"] == values(evaluation, "accuracy")["b"] == 0.0
    assert math.isnan(values(evaluation, "accuracy")["a"])
    assert evaluation.defined == {"accuracy": 1, "map": 2}
    assert "accuracy is not defined for 1 queries" in evaluation.warnings[-1]


@settings(deadline=None, max_examples=30)
@given(st.randoms(use_true_random=False), st.sampled_from(["int", "text", "gold text"]))
def test_row_order_id_type_and_kind_of_table_do_not_matter(random, ids):
    rng = np.random.default_rng(7)
    cells = [(query, item) for query in range(8, 12) for item in range(5, 13)]
    table = pd.DataFrame(cells, columns=["query", "item"])
    table["score"], table["relevance"] = rng.integers(0, 6, len(table)), rng.integers(0, 4, len(table))
    table["rank"] = np.arange(len(table))
    expected = evaluate(table, table, k=(3,)).queries

    def shuffled(frame, text):
        frame = frame.sample(frac=1, random_state=random.randrange(2**32))
        return frame.astype({"query": str, "item": str}) if text else frame

    ranking = shuffled(table[["query", "item", "score", "rank"]], ids == "text")
    gold = shuffled(table[["query", "item", "relevance"]], ids != "int")
    found = evaluate(pa.Table.from_pandas(ranking), gold, k=(3,)).queries
    assert found["query"].cast(pa.int64()).to_pylist() == sorted(range(8, 12), key=str if ids == "text" else int)
    by_id = found.set_column(0, "query", found["query"].cast(pa.int64())).sort_by("query")
    assert by_id.equals(expected)


def test_dictionary_columns_and_narrow_integers_match():
    ranking = pa.table({"item": pa.array(["x", "y"]).dictionary_encode(), "score": pa.array([1, 2], pa.int8())})
    gold = pa.table({"item": pa.array(["y", "x"], pa.large_string()), "relevance": ["3", "1"]})
    assert evaluate(ranking, gold, "accuracy").means == {"accuracy": 1.0}
    numbers = pa.table({"item": pa.array([1, 2], pa.uint16()), "score": [1.0, 2.0]})
    assert evaluate(numbers, pd.DataFrame({"item": [2, 1], "relevance": [0, 1]}), "accuracy").means == {"accuracy": 0.0}


def test_a_ranking_of_ranks_alone_is_scored_by_them():
    gold = pd.DataFrame({"item": list("abc"), "relevance": [3, 2, 1]})
    ranking = pd.DataFrame({"item": list("abc"), "rank": [1, 2, 3]})
    assert evaluate(ranking, gold, "kendall,ndcg", k=()).means == {"kendall": 1.0, "ndcg": 1.0}


@pytest.mark.parametrize("text", ["007", "7.0", " 7", "+7", "x", "99999999999999999999"])
def test_text_that_is_not_plainly_a_whole_number_is_not_matched_with_one(text):
    ranking = pd.DataFrame({"item": [7, 8], "score": [1.0, 2.0]})
    gold = pd.DataFrame({"item": [text, "8"], "relevance": [1, 2]})
    with pytest.raises(InputError, match=r"item ids are whole numbers in the ranking .* and text in gold"):
        evaluate(ranking, gold)
    with pytest.raises(InputError, match=r"item ids are text in the ranking .* and whole numbers in gold"):
        evaluate(gold.assign(score=1.0), ranking.assign(relevance=1))


@pytest.mark.parametrize(
    ("ranking", "gold", "message"),
    [
        (RANKING.drop(columns="item"), GOLD, "the ranking has no column 'item'"),
        (RANKING.drop(columns=["rank", "score"]), GOLD, "neither 'score' nor 'rank'"),
        (RANKING, GOLD.drop(columns="relevance"), "gold has no column 'relevance'"),
        (RANKING[:0], GOLD, "the ranking has no rows"),
        (RANKING.assign(score=[1, 2, np.nan, 4, 5, 6]), GOLD, "the ranking, row 3: score is missing"),
        (RANKING.assign(score=[1, np.inf, 3, 4, 5, 6]), GOLD, "the ranking, row 2: score is inf"),
        (RANKING, GOLD.assign(relevance=list("12345x")), "gold, column 'relevance' must hold numbers"),
        (RANKING.assign(item=["x", None, "z", "x", "y", "x"]), GOLD, "the ranking, row 2: item is missing"),
        (pd.concat([RANKING, RANKING[:1]]), GOLD, "the ranking, rows 1 and 7: item 'x' of query 'b' is there twice"),
        (RANKING, pd.concat([GOLD, GOLD[2:3]]), "gold, rows 3 and 7: item 'never ranked' of query 'a'"),
        (RANKING.assign(query="c"), GOLD, None),
        (RANKING[:3].assign(item=list("uvw")), GOLD, "no item of the ranking is in gold: .* 'u', gold such as 'x'"),
        (RANKING.assign(item=["x", "y", "z", 1, 2, 3]), GOLD, "mixed types"),
        (RANKING[:3].assign(item=pd.to_datetime(["2020", "2021", "2022"])), GOLD, "timestamp.* and text in gold"),
    ],
)
def test_bad_tables_say_which_row_and_rule(ranking, gold, message):
    with pytest.raises(InputError, match=message or "item 'x' of query 'c' is there twice"):
        evaluate(ranking, gold)


def test_no_common_query_shows_both_kinds_of_id():
    with pytest.raises(InputError, match="queries such as 'q1', gold such as 'a'"):
        evaluate(RANKING[:3].assign(query="q1"), GOLD)


def test_messages_stay_short_with_long_ids():
    with pytest.raises(InputError) as caught:
        evaluate(RANKING[:3].assign(query="\x1b" + "q" * 100_000), GOLD)
    assert len(str(caught.value)) < 250
    assert str(caught.value).isprintable()


def test_settings_reach_the_metrics():
    def mean(metric, **chosen):
        return evaluate(RANKING, GOLD, metric, settings=MetricSettings(**chosen)).means[metric]

    assert mean("map", threshold=2) == 0.0  # the only item of grade 2 is not ranked
    assert mean("rbp", persistence=0.5) == 0.5 * 0.5
    log3 = math.log2(3)
    assert mean("ndcg@2", gain="linear") == pytest.approx(((1 / log3) / (2 + 1 / log3) + 1 / log3) / 2)
    unjudged_first = RANKING.assign(score=[1.0, 2.0, 3.0, 1.0, 5.0, 1.0])
    assert evaluate(unjudged_first, GOLD, "p@1").queries["p@1"].to_pylist() == [0, 0]
    judged_only = evaluate(unjudged_first, GOLD, "p@1", settings=MetricSettings(judged_only=True))
    assert judged_only.queries["p@1"].to_pylist() == [0, 1]


@pytest.mark.parametrize("wrong", [{"persistence": 1.5}, {"persistence": 0.0}, {"gain": "cubic"}])
def test_settings_are_checked_however_they_were_made(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        evaluate(RANKING, GOLD, "rbp", settings=MetricSettings(**wrong))


def test_compare_puts_runs_side_by_side_and_subtracts_on_common_queries():
    better = RANKING.assign(score=-RANKING["score"])
    comparison = compare({"first": RANKING, "better": better, "short": RANKING[:3]}, GOLD, "accuracy,map")
    assert comparison.table.to_pylist() == [
        {"run": "first", "queries": 2, "accuracy": 0.0, "map": 0.375},
        {"run": "better", "queries": 2, "accuracy": 1.0, "map": (0.5 + 0.5) / 2},
        {"run": "short", "queries": 1, "accuracy": 0.0, "map": 0.5},
    ]
    assert comparison.differences("accuracy").to_pylist() == [{"query": "b", "first": 0.0, "better": 1.0, "short": 0.0}]
    two = compare({"first": RANKING, "better": better}, GOLD, "accuracy,map")
    assert two.differences("map", base="better").to_pylist() == [
        {"query": "a", "better": 0.5, "first": -0.25},
        {"query": "b", "better": 0.5, "first": 0.0},
    ]
    with pytest.raises(UsageError, match="'worse' is not in this comparison, which has first, better"):
        two.differences("map", base="worse")
    with pytest.raises(UsageError, match="which has accuracy, map"):
        two.differences("ndcg@10")
    with pytest.raises(UsageError, match="at least one ranking"):
        compare({}, GOLD)


def test_text_csv_and_json_say_the_same():
    gold = GOLD.assign(relevance=[1, 1, 1, 0, 1, 1])
    evaluation = evaluate(RANKING, gold, "accuracy,map")
    assert evaluation_text(evaluation).splitlines()[:3] == [
        "metric      mean  queries",
        "accuracy  0.0000        1",
        "map       0.5833        2",
    ]
    rows = list(csv.DictReader(io.StringIO(table_csv(evaluation.queries))))
    assert [(row["query"], row["accuracy"]) for row in rows] == [("a", ""), ("b", "0.0")]
    loaded = json.loads(json.dumps(evaluation_dict(evaluation), allow_nan=False))
    assert loaded["metrics"]["accuracy"] == {"mean": 0.0, "queries": 1}
    assert loaded["per_query"][0]["accuracy"] is None
    assert float(rows[1]["map"]) == loaded["per_query"][1]["map"]
    comparison = compare({"one": RANKING, "two": RANKING}, gold, "map")
    assert comparison_text(comparison).splitlines()[1] == "one        2  0.5833"
    assert [run["run"] for run in comparison_dict(comparison)["runs"]] == ["one", "two"]


@pytest.mark.parametrize("hostile", ["=cmd()", "@x", "+1", "-1", "\x1b[31mred", "a\nb", "\u202eevil", "x" * 100_000])
def test_hostile_ids_are_shown_harmlessly(hostile):
    ranking, gold = RANKING[:3].assign(query=hostile), GOLD[3:5].assign(query=hostile)
    evaluation = evaluate(ranking, gold, "map")
    assert evaluation.queries["query"].to_pylist() == [hostile]
    text = comparison_text(compare({hostile: ranking}, gold, "map"))
    assert all(line.isprintable() and len(line) < 200 for line in text.splitlines())
    cell = next(iter(csv.reader(io.StringIO(table_csv(evaluation.queries).split("\n", 1)[1]))))[0]
    assert cell[0] not in "=+-@"
    assert cell.removeprefix("'") == hostile
