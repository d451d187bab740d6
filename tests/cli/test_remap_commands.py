"""`distrank remap` and `distrank score` as people use them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from distrank.cli import main
from distrank.errors import StoreError
from distrank.remap.saved import read_ranker
from distrank.store.publish import resolve_run

SETTINGS = ["--set", "trees=6", "--set", "steps=4", "--quiet", "--engine", "local"]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("remap")
    sizes = ["--queries", "60", "--items", "8", "--annotators", "30", "--target-queries", "40", "--features", "6"]
    assert main(["simulate", "remap", "--out", str(folder), "--quiet", *sizes]) == 0
    return folder


def remap(crowd: Path, out: Path, *more: str, target: bool = True) -> int:
    given = ["--features", str(crowd / "features.parquet"), "--gold", str(crowd / "honeypots.parquet")]
    given += ["--target", str(crowd / "gold.csv")] if target else []
    return main(["remap", str(crowd / "ratings.parquet"), *given, "--out", str(out), *SETTINGS, *more])


@pytest.fixture(scope="module")
def run(crowd: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out")
    assert remap(crowd, out) == 0
    return out


def test_a_run_is_complete(run: Path, crowd: Path) -> None:
    folder = run / "latest"
    facts = json.loads((folder / "run.json").read_text())
    assert facts["method"] == "both"
    assert facts["convergence"]["validation_dcg"] >= facts["convergence"]["validation_dcg_at_start"]
    labels = pq.read_table(folder / "label_features.parquet").to_pandas()
    honeypots = pd.read_parquet(crowd / "honeypots.parquet")
    ratings = pd.read_parquet(crowd / "ratings.parquet")
    assert len(labels) == len(ratings) - ratings["item"].isin(honeypots["item"]).sum()
    assert list(labels)[:7] == ["query", "item", "annotator", "rating", "weight", "relevance", "cl"]
    assert len(list(labels)) == 6 + 29 + 3
    assert labels["weight"].between(0, 1).all()
    assert (labels["cl"] == labels["rating"]).all()
    ranked = pq.read_table(folder / "rankings.parquet").to_pandas()
    assert len(ranked) == len(pd.read_parquet(crowd / "features.parquet"))
    for _, ranking in ranked.groupby("query"):
        assert ranking["rank"].tolist() == list(range(1, len(ranking) + 1))
        assert ranking["score"].is_monotonic_decreasing
    assert {"quality", "ability", "confusion"} <= set(pq.read_table(folder / "annotators.parquet").column_names)


def test_the_same_request_publishes_nothing_new(run: Path, crowd: Path) -> None:
    before = sorted(path.name for path in (run / "runs").iterdir())
    assert remap(crowd, run) == 0
    assert sorted(path.name for path in (run / "runs").iterdir()) == before


def test_workers_do_not_matter(run: Path, crowd: Path, tmp_path: Path) -> None:
    assert remap(crowd, tmp_path, "--workers", "3") == 0
    one, other = json.loads((run / "latest" / "manifest.json").read_text()), resolve_run(str(tmp_path)).manifest
    shas = [{n: e["sha256"] for n, e in m["files"].items() if n != "run.json"} for m in (one, other)]
    assert shas[0] == shas[1]


def test_score_ranks_as_the_run_did(run: Path, crowd: Path, tmp_path: Path) -> None:
    frame = pd.read_parquet(crowd / "features.parquet")
    shuffled = frame[["f3", "item", "f1", "query", "f6", "f5", "f4", "f2"]].sample(frac=1.0, random_state=1)
    shuffled.to_csv(tmp_path / "f.csv", index=False)
    target = tmp_path / "scores.parquet"
    assert main(["score", str(run), "--features", str(tmp_path / "f.csv"), "--out", str(target), "--quiet"]) == 0
    found = pq.read_table(target).to_pandas()
    expected = pq.read_table(run / "latest" / "rankings.parquet").to_pandas()
    pd.testing.assert_frame_equal(found, expected)


def test_a_missing_feature_is_named(run: Path, crowd: Path, tmp_path: Path, capsys: Any) -> None:
    pd.read_parquet(crowd / "features.parquet").drop(columns="f4").to_csv(tmp_path / "f.csv", index=False)
    assert main(["score", str(run), "--features", str(tmp_path / "f.csv"), "--out", str(tmp_path / "s.parquet")]) == 1
    assert "the feature 'f4' is missing" in capsys.readouterr().err


def test_a_tuning_is_used_again_without_a_target(run: Path, crowd: Path, tmp_path: Path) -> None:
    """On the same judgments the same weights and relevance values come out, and nearly the same ranker."""
    assert remap(crowd, tmp_path, "--tuned", str(run), target=False) == 0
    again = json.loads((tmp_path / "latest" / "run.json").read_text())
    assert again["parent"] == resolve_run(str(run)).run_id
    columns = ["query", "item", "annotator", "weight", "relevance"]
    one, other = (
        pq.read_table(folder / "latest" / "label_features.parquet", columns=columns).to_pandas()
        for folder in (run, tmp_path)
    )
    pd.testing.assert_frame_equal(one, other)
    scores = [
        pq.read_table(folder / "latest" / "rankings.parquet").to_pandas().sort_values(["query", "item"])["score"]
        for folder in (run, tmp_path)
    ]
    np.testing.assert_allclose(scores[0].to_numpy(), scores[1].to_numpy(), atol=1e-8)


def test_a_damaged_ranker_is_refused(crowd: Path, tmp_path: Path) -> None:
    assert remap(crowd, tmp_path, "--method", "remap") == 0
    path = tmp_path / "latest" / "model" / "remap.json"
    path.write_text(path.read_text().replace('"trees"', '"tree"'))
    with pytest.raises(StoreError, match="damaged"):
        read_ranker(resolve_run(str(tmp_path)))


def test_own_label_features_count(crowd: Path, tmp_path: Path, capsys: Any) -> None:
    ratings = pd.read_parquet(crowd / "ratings.parquet")
    own = ratings[["query", "item", "annotator"]].assign(seconds=np.arange(len(ratings)) % 7 + 1.0)
    own.sample(frac=1.0, random_state=1).to_csv(tmp_path / "own.csv", index=False)
    assert remap(crowd, tmp_path / "out", "--label-features", str(tmp_path / "own.csv")) == 0
    labels = pq.read_table(tmp_path / "out" / "latest" / "label_features.parquet").to_pandas()
    keys = ["query", "item", "annotator"]
    joined = labels[[*keys, "seconds"]].merge(own, on=keys, suffixes=("", "_given"))
    assert len(joined) == len(labels)
    np.testing.assert_allclose(joined["seconds"], joined["seconds_given"])
    own[5:].to_csv(tmp_path / "own.csv", index=False)
    assert remap(crowd, tmp_path / "out", "--label-features", str(tmp_path / "own.csv")) == 1
    assert "judgments have no label features, such as query" in capsys.readouterr().err


def test_usage_errors_say_what_to_do(crowd: Path, tmp_path: Path, capsys: Any) -> None:
    source = str(crowd / "ratings.parquet")
    assert main(["remap", source, "--out", str(tmp_path)]) == 2
    assert "--features is missing" in capsys.readouterr().err
    assert remap(crowd, tmp_path, target=False) == 2
    assert "either a target to tune on (--target) or a run" in capsys.readouterr().err
    assert remap(crowd, tmp_path, "--set", "tree=3") == 2
    assert "unknown setting 'tree'" in capsys.readouterr().err


def test_a_run_without_a_ranker_cannot_score(crowd: Path, tmp_path: Path, capsys: Any) -> None:
    source = str(crowd / "ratings.parquet")
    assert main(["aggregate", source, "--method", "majority", "--out", str(tmp_path), "--quiet"]) == 0
    assert main(["score", str(tmp_path), "--features", str(crowd / "features.parquet")]) == 1
    assert "holds no ranker" in capsys.readouterr().err


def test_compare_prints_table_4(crowd: Path, tmp_path: Path, capsys: Any) -> None:
    assert remap(crowd, tmp_path, "--compare", "--folds", "2", "--json") == 0
    rows = {row["method"]: row for row in json.loads(capsys.readouterr().out)}
    assert {"linear, majority", "trees, both", "lambdamart, dawid-skene", "lightgbm, average"} <= set(rows)
    assert rows["linear, majority"]["gain_percent"] == 0.0


def test_settings_are_listed(capsys: Any) -> None:
    assert main(["methods", "both", "--json"]) == 0
    names = [entry["name"] for entry in json.loads(capsys.readouterr().out)["settings"]]
    assert {"trees", "scale_free", "steps", "ridge"} <= set(names)
