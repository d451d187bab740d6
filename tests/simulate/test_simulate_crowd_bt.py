"""The crowd-bt simulator: its laws within binomial bounds, its design, reproducibility, and clear refusals."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from scipy.stats import chi2, kstest

from distrank.errors import StoreError, UsageError
from distrank.records import digest
from distrank.settings import describe_settings
from distrank.simulate import SIMULATIONS, CrowdBTSimulation, crowd_bt, crowd_bt_codes, simulate, simulate_crowd_bt

TABLE_1 = CrowdBTSimulation(items=100, annotators=100, pairs=400, annotators_per_pair=10, quality="beta:2,1")


def columns(codes):
    return dataclasses.asdict(codes)


def questions(codes):
    """What was asked, whatever the answer: query, smaller item, larger item, annotator."""
    low, high = np.minimum(codes.winner, codes.loser), np.maximum(codes.winner, codes.loser)
    return np.stack([codes.query, low, high, codes.annotator], axis=1)


def standard_scores(codes, chance, group):
    """(right answers - expected) / standard deviation, per group; `chance` is P(the better item wins) of every row."""
    right = codes.score[codes.winner] > codes.score[codes.loser]
    groups = int(group.max()) + 1
    difference = np.bincount(group, right - chance, groups)
    return difference / np.sqrt(np.bincount(group, chance * (1 - chance), groups))


@pytest.mark.parametrize("rows", [{"pairs": 900, "annotators_per_pair": 30}, {"judgments": 500_000}])
def test_law_truth_every_annotator_is_right_as_often_as_their_quality(rows):
    codes = crowd_bt_codes(CrowdBTSimulation(queries=20, items=50, quality="beta:2,1", malicious=0.2, seed=4, **rows))
    scores = standard_scores(codes, codes.quality[codes.annotator], codes.annotator)
    low, high = chi2.interval(1 - 1e-4, df=100)
    assert low < (scores**2).sum() < high
    assert np.abs(scores).max() < 4.5


def test_law_model_is_equation_5_for_every_annotator_and_every_distance():
    settings = CrowdBTSimulation(items=200, annotators=50, judgments=400_000, law="model", quality="beta:2,1", seed=2)
    codes = crowd_bt_codes(settings)
    distance = np.abs(codes.score[codes.winner] - codes.score[codes.loser])
    eta = codes.quality[codes.annotator]
    p = np.exp(distance) / (np.exp(distance) + 1)
    chance = eta * p + (1 - eta) * (1 - p)
    by_annotator = standard_scores(codes, chance, codes.annotator)
    by_distance = standard_scores(codes, chance, np.digitize(distance, np.quantile(distance, np.arange(0.05, 1, 0.05))))
    for scores in (by_annotator, by_distance):
        low, high = chi2.interval(1 - 1e-4, df=len(scores))
        assert low < (scores**2).sum() < high
    # The other law would be seen: near pairs are far from being decided by quality alone.
    wrong = standard_scores(codes, eta, np.zeros(len(eta), np.int64))
    assert abs(wrong.item()) > 50
    assert kstest(codes.score, "norm").pvalue > 1e-3


def test_perfect_and_lying_crowds_are_never_wrong_and_never_right():
    for quality, malicious, right in (("fixed:1", 0, True), ("fixed:0", 0, False), ("fixed:1", 1, False)):
        codes = crowd_bt_codes(CrowdBTSimulation(quality=quality, malicious=malicious))
        assert ((codes.score[codes.winner] > codes.score[codes.loser]) == right).all()


def test_the_recipe_of_table_1():
    codes = crowd_bt_codes(TABLE_1)
    assert sorted(codes.score) == list(range(1, 101))
    asked = questions(codes)
    assert len(asked) == 4000
    assert len(np.unique(asked, axis=0)) == 4000
    pairs, times = np.unique(asked[:, :3], axis=0, return_counts=True)
    assert len(pairs) == 400
    assert (times == 10).all()
    assert (pairs[:, 1] != pairs[:, 2]).all()
    pooled = np.concatenate([crowd_bt_codes(dataclasses.replace(TABLE_1, seed=seed)).quality for seed in range(20)])
    assert kstest(pooled, "beta", args=(2, 1)).pvalue > 1e-3


def test_every_query_has_its_own_items_and_distinct_pairs():
    codes = crowd_bt_codes(CrowdBTSimulation(queries=30, items=12, annotators=7, pairs=40, annotators_per_pair=7))
    asked = questions(codes)
    assert len(np.unique(asked, axis=0)) == 30 * 40 * 7
    assert (asked[:, 1] // 12 == codes.query).all()
    assert (asked[:, 2] // 12 == codes.query).all()
    pairs = np.unique(asked[:, :3], axis=0)
    assert np.bincount(pairs[:, 0]).tolist() == [40] * 30
    assert (np.sort(codes.score.reshape(30, 12), axis=1) == np.arange(1, 13)).all()
    assert len({tuple(row) for row in codes.score.reshape(30, 12).tolist()}) == 30


def test_without_pairs_all_pairs_are_judged():
    asked = questions(crowd_bt_codes(CrowdBTSimulation(queries=2, items=9, annotators_per_pair=1)))
    assert len(np.unique(asked[:, :3], axis=0)) == 2 * 36 == len(asked)


def test_random_rows_are_uniform_over_queries_pairs_and_annotators():
    codes = crowd_bt_codes(CrowdBTSimulation(queries=3, items=4, annotators=5, judgments=90_000, quality="fixed:0.5"))
    assert (codes.winner != codes.loser).all()
    cells, counts = np.unique(
        np.stack([codes.query, codes.winner, codes.loser, codes.annotator]), axis=1, return_counts=True
    )
    assert cells.shape[1] == 3 * 12 * 5  # ordered pairs: a coin decides the winner
    statistic = ((counts - 500) ** 2 / 500).sum()
    low, high = chi2.interval(1 - 1e-4, df=179)
    assert low < statistic < high


def test_few_pairs_of_very_many_items_need_no_list_of_all_pairs():
    codes = crowd_bt_codes(CrowdBTSimulation(items=2_000_000, pairs=1000, annotators_per_pair=2))
    assert len(np.unique(questions(codes)[:, :3], axis=0)) == 1000


def test_rows_of_a_query_come_in_random_order():
    asked = questions(crowd_bt_codes(TABLE_1))
    together = (asked[1:, 1:3] == asked[:-1, 1:3]).all(axis=1).sum()
    assert together < 30  # 9 of 3999 expected by chance; 3600 if a pair's rows stood together


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (TABLE_1, "d43d216f8ffa61f1fba0cb4193e7022fc832585fe5640e9dff49afd2c4f3b2d8"),
        (
            CrowdBTSimulation(queries=5, items=8, judgments=1000, law="model", quality="mixture", seed=9),
            "2f1d3b0e91cc9b40be5063b87e0b6c8bf077211397940734e4f9ac5c30d99521",
        ),
    ],
)
def test_same_seed_same_bytes(settings, expected):
    """Golden: these digests change only when the recipe does (or numpy's own streams; its version is locked)."""
    assert digest([columns(crowd_bt_codes(settings))]) == expected
    other = crowd_bt_codes(dataclasses.replace(settings, seed=settings.seed + 1))
    assert digest([columns(other)]) != expected


@pytest.mark.parametrize("rows", [{"pairs": 20}, {"judgments": 3000}])
def test_the_size_of_a_block_is_no_part_of_the_result(rows, monkeypatch):
    settings = CrowdBTSimulation(queries=13, items=10, law="model", **rows)
    whole = columns(crowd_bt_codes(settings))
    monkeypatch.setattr(crowd_bt, "BLOCK", 217)
    assert digest([columns(crowd_bt_codes(settings))]) == digest([whole])


def test_what_is_not_asked_for_stays_the_same():
    base = crowd_bt_codes(TABLE_1)
    more_annotators = crowd_bt_codes(dataclasses.replace(TABLE_1, annotators=200))
    assert (more_annotators.score == base.score).all()
    better = crowd_bt_codes(dataclasses.replace(TABLE_1, quality="fixed:0.9"))
    assert (questions(better) == questions(base)).all()
    model = crowd_bt_codes(dataclasses.replace(TABLE_1, law="model"))
    assert (questions(model) == questions(base)).all()
    assert (model.quality == base.quality).all()


def test_malicious_share_is_exact_and_turns_quality_round():
    honest = crowd_bt_codes(CrowdBTSimulation(annotators=40, quality="beta:50,1")).quality
    turned = crowd_bt_codes(CrowdBTSimulation(annotators=40, quality="beta:50,1", malicious=0.3)).quality
    changed = turned != honest
    assert changed.sum() == 12
    assert (turned[changed] == 1 - honest[changed]).all()


def test_mixture_has_exact_counts_and_kinds_that_match_the_quality():
    table = simulate_crowd_bt(annotators=50, quality="mixture")["annotators"].to_pandas()
    assert table["kind"].value_counts().to_dict() == {"expert": 15, "average": 20, "spammer": 10, "malicious": 5}
    limits = table.groupby("kind")["quality"].agg(["min", "max"])
    for kind, (low, high) in {"expert": (0.9, 1), "average": (0.65, 0.85), "malicious": (0, 0.25)}.items():
        assert low <= limits.loc[kind, "min"] < limits.loc[kind, "max"] < high
    halves = simulate_crowd_bt(annotators=7, quality="mixture:spammer=0.5,expert=0.5")["annotators"]["kind"].to_pylist()
    assert sorted((halves.count("expert"), halves.count("spammer"))) == [3, 4]
    assert table["kind"].tolist() != sorted(table["kind"])  # in random order, not one kind after another


@pytest.mark.parametrize(
    ("quality", "kind"),
    [(1, "expert"), (0.85, "expert"), (0.84, "average"), (0.6, "average"), (0.59, "spammer"), (0.4, "spammer"),
     (0.39, "malicious"), (0, "malicious")],
)  # fmt: skip
def test_kinds_have_the_limits_of_the_annotators_table(quality, kind):
    assert simulate_crowd_bt(quality=f"fixed:{quality}", pairs=1)["annotators"]["kind"].to_pylist() == [kind] * 100


def test_ids_sort_like_codes_and_integers_are_the_codes():
    text = simulate_crowd_bt(queries=11, items=12, judgments=500)
    codes = crowd_bt_codes(CrowdBTSimulation(queries=11, items=12, judgments=500))
    assert text["gold"]["query"].to_pylist()[-1] == "q10"
    items = text["gold"]["item"].to_pylist()
    assert items[:2] == ["q00-i00", "q00-i01"]
    assert items == sorted(items)
    assert text["preferences"]["winner"].to_pylist() == [items[code] for code in codes.winner]
    assert text["preferences"]["annotator"].to_pylist() == [f"a{code:02d}" for code in codes.annotator]
    assert text["gold"]["relevance"].to_pylist() == codes.score.tolist()
    numbers = simulate_crowd_bt(queries=11, items=12, judgments=500, ids="int")["preferences"]
    assert numbers.column_names == ["query", "annotator", "winner", "loser"]
    assert all((numbers[name].to_numpy() == getattr(codes, name)).all() for name in numbers.column_names)
    assert simulate_crowd_bt(items=12, pairs=3)["gold"]["item"].to_pylist()[0] == "i00"


def plain(table):
    return [dict(row) for row in table.to_pylist()]


def test_written_tables_come_back_as_plain_text_and_numbers(tmp_path):
    simulated = simulate_crowd_bt(queries=3, items=6, law="model")
    paths = simulated.write(tmp_path / "new" / "folder")
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == [
        "annotators.csv", "gold.csv", "preferences.parquet"
    ]  # fmt: skip
    preferences = pq.read_table(paths["preferences"])
    assert set(preferences.schema.types) == {pa.string()}
    assert plain(preferences) == plain(simulated["preferences"])
    for name in ("gold", "annotators"):
        assert plain(pa_csv.read_csv(paths[name])) == plain(simulated[name])  # floats survive digit for digit
    csv = simulated.write(tmp_path / "csv", "csv")["preferences"]
    assert plain(pa_csv.read_csv(csv)) == plain(simulated["preferences"])


def test_writing_refuses_what_would_be_read_together_or_cannot_be_written(tmp_path):
    simulated = simulate_crowd_bt(items=4)
    simulated.write(tmp_path)
    simulated.write(tmp_path)  # the same files again: replaced
    with pytest.raises(StoreError, match=r"preferences.parquet is there already"):
        simulated.write(tmp_path, "csv")
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot write the simulated tables into"):
        simulated.write(tmp_path / "file")
    with pytest.raises(UsageError, match="expected parquet or csv"):
        simulated.write(tmp_path, "xml")


def test_the_registry_runs_by_name_with_values_as_text():
    by_text = simulate("crowd-bt", {"items": "5", "pairs": "none", "quality": "fixed:0.9", "seed": "3"})
    assert by_text["preferences"].equals(simulate_crowd_bt(items=5, quality="fixed:0.9", seed=3)["preferences"])
    assert all(row["help"] for simulator in SIMULATIONS.values() for row in describe_settings(simulator.Settings))
    with pytest.raises(UsageError, match=r"unknown simulation 'nothing'; known: .*crowd-bt"):
        simulate("nothing", {})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"items": 1}, "items=1"),
        ({"annotators": 0}, "annotators=0"),
        ({"queries": 0}, "queries=0"),
        ({"judgments": 0}, "judgments=0"),
        ({"seed": -1}, "seed=-1"),
        ({"law": "chance"}, "one of truth, model"),
        ({"malicious": 1.5}, "malicious=1.5"),
        ({"workers": 3}, "unknown setting 'workers'"),
        ({"items": 5, "pairs": 11}, "pairs=11: 5 items have only 10 distinct pairs"),
        ({"annotators": 4}, "annotators_per_pair=5: there are only 4 annotators"),
        ({"pairs": 10, "judgments": 10}, "not both"),
        ({"items": 100_000}, "24,999,750,000 preferences"),
        ({"items": 50_000, "queries": 50_000, "pairs": 1}, "at most 2,147,483,647 items"),
        ({"quality": "beta:0,1"}, "must be above 0"),
        ({"quality": "beta:2"}, "expected 2 numbers where '2' stands"),
        ({"quality": "beta"}, "expected 2 numbers"),
        ({"quality": "beta:nan,1"}, "expected 2 numbers"),
        ({"quality": "fixed:1.5"}, "between 0 and 1"),
        ({"quality": "normal:0,1"}, "expected beta:A,B or fixed:Q or mixture"),
        ({"quality": "mixture:expert=0.5"}, "must add up to 1"),
        ({"quality": "mixture:expert=1.5,spammer=-0.5"}, "must not be negative"),
        ({"quality": "mixture:experts=1"}, "'experts' is not one of expert, average, spammer, malicious"),
        ({"quality": "mixture:expert=0.5,expert=0.5"}, "each at most once"),
        ({"quality": "mixture", "malicious": 0.1}, "own malicious share"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        simulate_crowd_bt(**settings)
    if "workers" not in settings:
        with pytest.raises(UsageError, match=message):
            crowd_bt_codes(CrowdBTSimulation(**settings))


def test_one_annotator_two_items_one_pair():
    preferences = simulate_crowd_bt(items=2, annotators=1, annotators_per_pair=1, quality="fixed:1")
    assert preferences["preferences"].num_rows == 1
    best = preferences["gold"].to_pandas().set_index("item")["relevance"].idxmax()
    assert preferences["preferences"]["winner"].to_pylist() == [best]
    assert math.isclose(preferences["annotators"]["quality"][0].as_py(), 1.0)
