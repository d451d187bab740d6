"""Methods of labels from the command line: a published run in Parquet and CSV, shown and evaluated."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from distrank import DawidSkene
from distrank.cli import main


@pytest.fixture(scope="module")
def ratings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three grades, 60 items in three queries, and gold for ten of them."""
    folder = tmp_path_factory.mktemp("ratings")
    rng = np.random.default_rng(1)
    truth = rng.integers(3, size=60)
    rows = [
        (f"q{i % 3}", f"i{i:02d}", f"a{w}", int(truth[i] if rng.random() < 0.8 else rng.integers(3)))
        for i in range(60)
        for w in rng.choice(8, 4, replace=False)
    ]
    columns = ["query", "item", "annotator", "rating"]
    pd.DataFrame(rows, columns=columns).to_csv(folder / "ratings.csv", index=False)
    gold = pd.DataFrame(
        [(f"q{i % 3}", f"i{i:02d}", truth[i]) for i in range(10)], columns=["query", "item", "relevance"]
    )
    gold.to_csv(folder / "gold.csv", index=False)
    return folder


@pytest.mark.parametrize("method", ["dawid-skene", "glad", "majority", "average"])
def test_a_run_of_labels_is_complete(method: str, ratings: Path, tmp_path: Path, capsys: Any) -> None:
    source, gold = str(ratings / "ratings.csv"), str(ratings / "gold.csv")
    assert main(["aggregate", source, "--method", method, "--gold", gold, "--out", str(tmp_path), "--csv"]) == 0
    run = tmp_path / "latest"
    rankings = pq.read_table(run / "rankings.parquet").to_pandas()
    assert list(rankings)[:8] == ["query", "item", "rank", "score", "label", "p_0", "p_1", "p_2"]
    assert len(rankings) == 60
    assert rankings[["p_0", "p_1", "p_2"]].sum(axis=1).to_numpy() == pytest.approx(1.0)
    assert rankings["query"].is_monotonic_increasing
    annotators = pq.read_table(run / "annotators.parquet").to_pandas()
    assert annotators["honeypots"].sum() == 40
    for name in ("rankings", "annotators", "queries"):
        assert len(list(csv.DictReader((run / f"{name}.csv").open()))) == len(pq.read_table(run / f"{name}.parquet"))
    capsys.readouterr()
    assert main(["show", str(tmp_path), "--query", "q1"]) == 0
    assert "label" in capsys.readouterr().out
    assert main(["evaluate", str(tmp_path), "--gold", gold]) == 0


def test_a_confusion_matrix_is_a_list_and_text_in_csv(ratings: Path, tmp_path: Path) -> None:
    source = str(ratings / "ratings.csv")
    assert main(["aggregate", source, "--method", "dawid-skene", "--out", str(tmp_path), "--csv", "--quiet"]) == 0
    run = tmp_path / "latest"
    matrices = pq.read_table(run / "annotators.parquet")["confusion"].to_pylist()
    assert all(len(matrix) == 9 for matrix in matrices)
    texts = [row["confusion"] for row in csv.DictReader((run / "annotators.csv").open())]
    assert [[float(value) for value in text.split()] for text in texts] == matrices


def test_python_gives_the_same_labels(ratings: Path, tmp_path: Path) -> None:
    source = ratings / "ratings.csv"
    assert main(["aggregate", str(source), "--method", "dawid-skene", "--out", str(tmp_path), "--quiet"]) == 0
    published = pq.read_table(tmp_path / "latest" / "rankings.parquet").to_pandas()
    pd.testing.assert_frame_equal(DawidSkene().fit(pd.read_csv(source)).rankings, published, check_dtype=False)
