"""`distrank next` and `distrank simulate-active` as people use them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distrank.active.beliefs import _quality, beliefs_of_run, counted_quality, informed_variance, matched
from distrank.active.play import PlaySettings, learning_area, pair_accuracy, play
from distrank.active.refit import refit
from distrank.cli import main
from distrank.errors import InputError
from distrank.simulate import simulate_crowd_bt
from distrank.store.publish import resolve_run
from distrank.tables.read import read_judgments

COLUMNS = ["query", "left", "right", "annotator", "expected_gain", "reason"]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crowd")
    simulate_crowd_bt(queries=3, items=8, annotators=12, pairs=12, annotators_per_pair=3, seed=2).write(folder)
    for method in ("crowd-bt-online", "crowd-bt", "thurstone", "borda"):
        aggregate = [
            "aggregate",
            str(folder / "preferences.parquet"),
            "--method",
            method,
            "--out",
            str(folder / method),
        ]
        assert main([*aggregate, "--quiet", "--engine", "local"]) == 0
    return folder


def triples(frame: pd.DataFrame, first: str, second: str) -> set[tuple[str, frozenset[str], str]]:
    rows = zip(frame["query"], frame[first], frame[second], frame["annotator"], strict=True)
    return {(query, frozenset((a, b)), annotator) for query, a, b, annotator in rows}


@pytest.mark.parametrize("method", ["crowd-bt-online", "crowd-bt", "thurstone"])
def test_questions_of_a_run_were_not_answered_yet(crowd: Path, tmp_path: Path, method: str) -> None:
    judgments, out = crowd / "preferences.parquet", tmp_path / "tasks.parquet"
    arguments = ["next", str(crowd / method), "--budget", "40", "--out", str(out), "--judgments", str(judgments)]
    assert main([*arguments, "--quiet"]) == 0
    tasks = pq.read_table(out).to_pandas()
    assert list(tasks.columns) == COLUMNS
    assert len(triples(tasks, "left", "right")) == len(tasks) == 40
    assert not triples(tasks, "left", "right") & triples(pd.read_parquet(judgments), "winner", "loser")
    assert tasks["expected_gain"].gt(0.0).all()
    assert tasks["reason"].str.contains("apart").all()
    assert tasks["annotator"].value_counts().max() <= 14  # four times an even share


def test_only_those_who_are_there_are_asked_and_new_ones_start_at_the_prior(
    crowd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there, out = tmp_path / "there.csv", tmp_path / "tasks.csv"
    there.write_text("annotator\na01\nnewcomer\na01\n")
    arguments = ["next", str(crowd / "crowd-bt-online"), "--budget", "9", "--out", str(out)]
    more = ["--annotators", str(there), "--per-annotator", "3", "--quality-prior", "4,2", "--json"]
    assert main([*arguments, *more]) == 0
    facts = json.loads(capsys.readouterr().out)
    tasks = pd.read_csv(out)
    assert tasks["annotator"].value_counts().to_dict() == {"a01": 3, "newcomer": 3}
    assert "only 6 questions" in facts["warnings"][0]
    assert facts["questions"] == 6
    assert tasks.loc[tasks["annotator"] == "newcomer", "reason"].str.contains("quality 0.67").all()


def test_errors_say_what_to_do(crowd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def error(*arguments: str) -> str:
        assert main(["next", *arguments, "--quiet"]) in (1, 2)
        return capsys.readouterr().err

    online, good = str(crowd / "crowd-bt-online"), str(tmp_path / "t.csv")
    (tmp_path / "people.csv").write_text("name\na01\n")
    assert "crowd-bt" in error(str(crowd / "borda"), "--budget", "5", "--out", good)
    assert ".csv or .parquet" in error(online, "--budget", "5", "--out", str(tmp_path / "t.txt"))
    assert "no folder" in error(online, "--budget", "5", "--out", str(tmp_path / "no" / "t.csv"))
    assert "at least one" in error(online, "--budget", "0", "--out", good)
    assert "column `annotator`" in error(
        online, "--budget", "5", "--out", good, "--annotators", str(tmp_path / "people.csv")
    )
    assert "at least 0.1" in error(online, "--budget", "5", "--out", good, "--quality-prior", "0.01,1")
    assert "neither an output folder" in error(str(tmp_path / "nothing"), "--budget", "5", "--out", good)
    assert not (tmp_path / "t.csv").exists()


def test_beliefs_of_an_online_run_are_its_own(crowd: Path) -> None:
    run = resolve_run(str(crowd / "crowd-bt-online"))
    source, asked = beliefs_of_run(run, judgments=read_judgments(crowd / "preferences.parquet"))
    rankings = pq.read_table(run.path("rankings.parquet")).to_pandas()
    found = pd.DataFrame({"item": source.items.to_pylist(), "mean": source.beliefs.items[:, 0]}).set_index("item")
    np.testing.assert_array_equal(found.loc[rankings["item"], "mean"], rankings["score"])
    np.testing.assert_allclose(np.sort(source.beliefs.items[:, 1]), np.sort(rankings["score_sd"] ** 2))
    assert asked is not None
    assert len(asked[0]) == 3 * 12 * 3
    query_of = np.repeat(np.arange(3), np.diff(source.beliefs.queries))
    np.testing.assert_array_equal(query_of[asked[0]], query_of[asked[1]])


def test_probit_scores_are_put_on_the_scale_of_log_odds(crowd: Path) -> None:
    run = resolve_run(str(crowd / "thurstone"))
    source, _ = beliefs_of_run(run)
    score = pq.read_table(run.path("rankings.parquet"))["score"].to_numpy()
    assert np.ptp(source.beliefs.items[:, 0]) == pytest.approx(1.702 / np.sqrt(2.0) * np.ptp(score))


def test_variances_fall_with_the_comparisons_that_say_something() -> None:
    mean, quality = np.array([0.0, 0.0, 0.0, 9.0]), np.array([1.0, 0.5])
    first, second, annotator = np.array([0, 0, 2]), np.array([1, 1, 3]), np.array([0, 1, 0])
    variance = informed_variance(mean, quality, first, second, annotator)
    assert variance[:2] == pytest.approx(1.0 / 1.25)  # one honest comparison of equals; the spammer's says nothing
    assert variance[2:] == pytest.approx(1.0, abs=1e-3)  # what was clear before
    assert counted_quality(np.array([0.75]), np.array([8.0]), (10.0, 1.0)).tolist() == [[16.0, 3.0]]


def test_wide_intervals_of_quality_count_as_fewer_judgments() -> None:
    """A quality of 0.8 known to +- 0.1 rests on what 16 answers on gold would give, whatever was judged."""
    width = 2.0 * 1.6448536269514722 * 0.1
    known = pa.table(
        {
            "quality": [0.8, 0.8, 0.8],
            "judgments": [200, 10, 50],
            "quality_low": [0.8 - width / 2, 0.8 - width / 2, None],
            "quality_high": [0.8 + width / 2, 0.8 + width / 2, None],
        }
    )
    total = _quality(known, (10.0, 1.0), 0.9).sum(axis=1) - 11.0
    assert total == pytest.approx([16.0, 10.0, 50.0])


def test_ids_of_another_type_are_matched_only_if_they_come_back() -> None:
    assert matched(pa.array(["7", "12"]), pa.int64(), "annotators").to_pylist() == [7, 12]
    with pytest.raises(InputError, match="those of the run int64"):
        matched(pa.array(["007"]), pa.int64(), "annotators")


def test_the_loop_beats_random_questions() -> None:
    """Small, with good annotators: chosen questions order the items with fewer answers."""
    crowd = {"items": 30, "annotators": 20, "quality": "beta:9,1", "answers": 300}
    chosen = [play(PlaySettings(**crowd, batch=20, per_annotator=4, refit_every=20, seed=s), (300,)) for s in range(4)]
    drawn = [play(PlaySettings(**crowd, policy="random", seed=s), (300,)) for s in range(4)]
    assert np.mean([g.refitted for g in chosen]) > np.mean([g.refitted for g in drawn]) + 0.02
    for game in chosen:
        rows = np.column_stack([np.sort(np.column_stack([game.winner, game.loser]), axis=1), game.annotator])
        assert len(np.unique(rows, axis=0)) == 300


def test_one_by_one_is_reproducible_and_learns() -> None:
    settings = PlaySettings(items=20, annotators=10, quality="fixed:0.95", answers=250, gamma=1.0, seed=5)
    one, two = play(settings, (50, 250), refits=False), play(settings, (50, 250), refits=False)
    assert one.accuracy == two.accuracy
    assert one.accuracy[-1] > 0.9


def test_a_fit_started_from_the_wrong_side_stays_there() -> None:
    """Why refits start from the online quality: the start decides between the truth and its mirror image."""
    rng = np.random.default_rng(0)
    truth = np.arange(12.0)
    pairs = np.array([rng.permutation(12)[:2] for _ in range(400)])
    annotator = rng.integers(0, 8, 400)
    right = rng.random(400) < np.where(annotator < 5, 0.1, 0.9)  # most of them lie
    better = np.where(truth[pairs[:, 0]] > truth[pairs[:, 1]], pairs[:, 0], pairs[:, 1])
    worse = pairs.sum(axis=1) - better
    winner, loser = np.where(right, better, worse), np.where(right, worse, better)
    known, _ = refit(annotator, winner, loser, 12, np.where(np.arange(8) < 5, 0.3, 0.8))
    ones, _ = refit(annotator, winner, loser, 12, np.ones(8))
    assert pair_accuracy(known, truth) > 0.9
    assert pair_accuracy(ones, truth) < 0.1


def test_the_area_under_a_learning_curve() -> None:
    assert learning_area((10, 20), (0.7, 0.9)) == pytest.approx((0.6 + 0.8) / 2)


def test_simulate_active_prints_accuracy(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["simulate-active", "--policies", "random,0", "--after", "20,40", "--seeds", "1", "--items", "12"]
    assert main([*arguments, "--annotators", "8", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["results"]
    assert [(row["policy"], row["answers"]) for row in rows] == [("random", 20), ("random", 40), ("0", 20), ("0", 40)]
    assert all(0.0 <= row["accuracy"] <= 1.0 for row in rows)
    assert main(["simulate-active", "--policies", "greedy"]) == 2
