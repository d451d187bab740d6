"""`distrank learn` and `score` from the outside: what is published, and that it is the same everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from distrank import LTRMA
from distrank.cli import main
from distrank.engine.base import Engine
from distrank.errors import StoreError
from distrank.models import MODELS, get_model
from distrank.rankers import open_ranker
from distrank.runs import Request, aggregate
from distrank.simulate import simulate_ltrma
from distrank.store.publish import resolve_run


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crowd")
    simulate_ltrma(case="hard", queries=20, items=6, annotators=4, known=0.2, test=30, seed=1).write(folder)
    pd.DataFrame({"annotator": ["a0"], "kind": ["known"], "value": [-0.6]}).to_csv(folder / "info.csv", index=False)
    return folder


def learn(crowd: Path, out: Path, *more: str) -> int:
    tables = [str(crowd / "rankings.parquet"), "--features", str(crowd / "features.parquet")]
    return main(["learn", *tables, "--out", str(out), "--quiet", *more])


def test_learn_publishes_a_ranker_that_score_uses(crowd: Path, tmp_path: Path) -> None:
    options = ["--gold", str(crowd / "known.csv"), "--annotator-info", str(crowd / "info.csv"), "--csv"]
    assert learn(crowd, tmp_path / "out", *options) == 0
    run = resolve_run(str(tmp_path / "out"))
    annotators = pq.read_table(run.path("annotators.parquet")).to_pandas()
    assert annotators["theta"][0] == -0.6
    assert set(annotators.columns) >= {"annotator", "judgments", "quality", "kind", "theta", "theta_error"}
    rankings = pq.read_table(run.path("rankings.parquet")).to_pandas()
    assert set(rankings.columns) == {"query", "item", "rank", "score", "ranker_score"}
    facts = run.facts()
    assert facts["input"]["features"] is not None
    assert facts["input"]["annotator_info"] is not None
    assert facts["convergence"]["exact_queries"] == 20
    target = tmp_path / "scores.csv"
    arguments = ["score", str(tmp_path / "out"), "--features", str(crowd / "test_features.parquet"), "--quiet"]
    assert main([*arguments, "--out", str(target)]) == 0
    scores = pd.read_csv(target)
    assert len(scores) == 180
    assert scores.groupby("query")["score"].apply(lambda column: column.is_monotonic_decreasing).all()
    gold = pd.read_csv(crowd / "test_gold.csv")
    first = scores[scores["rank"] == 1].merge(gold, on=["query", "item"])
    assert (first["relevance"] == 6).mean() > 0.8
    assert main([*arguments, "--out", str(tmp_path / "scores.parquet")]) == 0
    np.testing.assert_allclose(pq.read_table(tmp_path / "scores.parquet")["score"], scores["score"], rtol=1e-9)


def test_the_python_front_door_gives_the_same_numbers(crowd: Path, tmp_path: Path) -> None:
    assert learn(crowd, tmp_path / "out") == 0
    run = resolve_run(str(tmp_path / "out"))
    tables = (pq.read_table(crowd / f"{name}.parquet") for name in ("rankings", "features"))
    result = LTRMA().fit(*tables)
    published = pq.read_table(run.path("annotators.parquet")).to_pandas()
    np.testing.assert_array_equal(result.annotators["theta"], published["theta"])
    np.testing.assert_array_equal(result.ranker.coefficients, open_ranker(run).coefficients)


def test_the_same_request_publishes_nothing_new_and_other_features_do(crowd: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert learn(crowd, out) == 0
    first = resolve_run(str(out)).run_id
    assert learn(crowd, out) == 0
    assert resolve_run(str(out)).run_id == first
    features = pq.read_table(crowd / "features.parquet").to_pandas()
    features.loc[0, "x1"] += 1e-6
    changed = tmp_path / "changed.csv"
    features.to_csv(changed, index=False)
    arguments = ["learn", str(crowd / "rankings.parquet"), "--features", str(changed), "--out", str(out), "--quiet"]
    assert main(arguments) == 0
    assert resolve_run(str(out)).run_id != first


@pytest.mark.ray
@pytest.mark.parametrize("method", ["ltrma", "lregma"])
def test_ray_publishes_the_bytes_of_the_local_engine(
    method: str, crowd: Path, tmp_path: Path, local_engine: Engine, ray_engine: Engine
) -> None:
    files: list[dict[str, bytes]] = []
    for name, engine in (("local", local_engine), ("ray", ray_engine)):
        tables = {"features": str(crowd / "features.parquet"), "gold": str(crowd / "known.csv")}
        request = Request(str(crowd / "rankings.parquet"), tmp_path / name, method=method, **tables)
        run = aggregate(request, engine, lambda _: None).run
        names = [file for file in run.manifest["files"] if file != "run.json"]
        files.append({file: run.path(file).read_bytes() for file in sorted(names)})
    assert "model/parameters.npz" in files[0]
    assert files[0] == files[1]


def test_methods_say_what_they_are_for(crowd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "ltrma"]) == 0
    assert "reads rankings, features" in capsys.readouterr().out
    assert [name for name in MODELS if get_model(name).features] == ["listmle", "lregma", "ltrma", "ltrma-d"]
    assert main(["aggregate", str(crowd / "rankings.parquet"), "--method", "ltrma"]) == 2
    assert "distrank learn" in capsys.readouterr().err
    assert learn(crowd, crowd / "never", "--method", "borda") == 2
    assert "methods that do: listmle, lregma, ltrma, ltrma-d" in capsys.readouterr().err


def test_a_run_without_a_ranker_cannot_score(crowd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["aggregate", str(crowd / "rankings.parquet"), "--method", "borda", "--out", str(out), "--quiet"]) == 0
    with pytest.raises(StoreError, match="holds no ranker"):
        open_ranker(resolve_run(str(out)))
    capsys.readouterr()
    arguments = ["score", str(out), "--features", str(crowd / "features.parquet"), "--out", str(tmp_path / "s.csv")]
    assert main(arguments) == 1
    assert not (tmp_path / "s.csv").exists()


def test_features_of_other_names_are_refused(crowd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert learn(crowd, tmp_path / "out") == 0
    features = pq.read_table(crowd / "test_features.parquet").to_pandas().rename(columns={"x2": "y"})
    features.to_csv(tmp_path / "other.csv", index=False)
    arguments = ["score", str(tmp_path / "out"), "--features", str(tmp_path / "other.csv")]
    assert main([*arguments, "--out", str(tmp_path / "s.csv")]) == 1
    assert "the feature 'x2' is missing" in capsys.readouterr().err


def test_a_changed_model_file_is_refused(crowd: Path, tmp_path: Path) -> None:
    assert learn(crowd, tmp_path / "out") == 0
    run = resolve_run(str(tmp_path / "out"))
    path = run.path("model/model.json")
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({**facts, "features": ["x1", "x3"]}))
    with pytest.raises(StoreError):
        open_ranker(run)


def test_a_run_without_time_says_that_it_did_not_converge(crowd: Path, tmp_path: Path) -> None:
    assert learn(crowd, tmp_path / "out", "--set", "max_iterations=1") == 3
    assert any("without converging" in warning for warning in resolve_run(str(tmp_path / "out")).facts()["warnings"])
