"""`start=RUN`: a fit that begins where an earlier run ended finds the same optimum, in fewer iterations."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from distrank.engine.base import Engine, FileSource
from distrank.errors import UsageError
from distrank.fit import Fit, fit
from distrank.models import make_model
from distrank.records import digest
from distrank.runs import Published, Request, aggregate, finish_tables
from distrank.simulate import simulate_crowd_bt
from distrank.tables.outputs import IdTypes, annotators_table
from distrank.tables.read import judgments_from_frame
from distrank.tables.shards import build_shards
from distrank.tables.starts import Earlier, started

FAMILY = ("bradley-terry", "crowd-bt", "majority-bt", "thurstone", "variance-bt")
EXACT = {"tolerance": 1e-19}


def month(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A dense crowd: what was known yesterday, and all of it; an item and an annotator are new today."""
    crowd = {"queries": 6, "items": 10, "annotators": 20, "pairs": 40, "annotators_per_pair": 10}
    table = simulate_crowd_bt(**crowd, law="model", quality="mixture", seed=seed)["preferences"].to_pandas().astype(str)
    table = table.sample(frac=1.0, random_state=seed).reset_index(drop=True)
    item, annotator = table["winner"].min(), table["annotator"].min()
    new = (table["winner"] == item) | (table["loser"] == item) | (table["annotator"] == annotator)
    return table[~new].head(int(0.9 * len(table))), table


def publish(frame: pd.DataFrame, out: Path, engine: Engine, method: str = "crowd-bt", **settings: Any) -> Published:
    source = out.parent / f"{out.name}.parquet"
    frame.to_parquet(source)
    return aggregate(Request(str(source), out, method, settings), engine, lambda _: None)


def scores(run: Published) -> pd.Series:
    return pd.read_parquet(run.run.path("rankings.parquet")).set_index(["query", "item"])["score"].sort_index()


@pytest.mark.parametrize("method", FAMILY)
def test_a_warm_start_reaches_the_same_optimum_sooner(method: str, tmp_path: Path, local_engine: Engine) -> None:
    yesterday, today = month()
    publish(yesterday, tmp_path / "yesterday", local_engine, method, **EXACT)
    cold = publish(today, tmp_path / "cold", local_engine, method, **EXACT)
    warm = publish(today, tmp_path / "warm", local_engine, method, **EXACT, start=str(tmp_path / "yesterday"))
    assert np.abs(scores(warm) - scores(cold)).max() < 1e-6
    assert warm.facts["convergence"]["iterations"] < cold.facts["convergence"]["iterations"]
    assert warm.converged
    trace = [entry["objective"] for entry in warm.facts["convergence"]["trace"]]
    assert trace == sorted(trace)


def test_a_start_at_the_optimum_is_done_at_once(tmp_path: Path, local_engine: Engine) -> None:
    _, today = month()
    publish(today, tmp_path / "first", local_engine, **EXACT)
    again = publish(today, tmp_path / "second", local_engine, start=str(tmp_path / "first"))
    assert again.facts["convergence"]["iterations"] <= 1


def test_the_parameter_of_ties_is_part_of_the_start(tmp_path: Path, local_engine: Engine) -> None:
    _, today = month()
    today = today.assign(tie=np.arange(len(today)) % 7 == 0)
    first = publish(today, tmp_path / "first", local_engine, "bradley-terry", ties="davidson", **EXACT)
    start = str(tmp_path / "first")
    again = publish(today, tmp_path / "second", local_engine, "bradley-terry", ties="davidson", start=start)
    assert again.facts["convergence"]["log_nu"] == pytest.approx(first.facts["convergence"]["log_nu"], abs=1e-6)
    assert again.facts["convergence"]["iterations"] <= 1


def test_the_run_id_names_its_parent(tmp_path: Path, local_engine: Engine) -> None:
    yesterday, today = month()
    parents = [publish(yesterday.head(n), tmp_path / f"{n}", local_engine) for n in (700, 900)]
    runs = [publish(today, tmp_path / "out", local_engine, start=str(parent.run.folder)) for parent in parents]
    assert [run.facts["settings"]["start"] for run in runs] == [parent.run.run_id for parent in parents]
    assert runs[0].run.run_id != runs[1].run.run_id
    again = publish(today, tmp_path / "out", local_engine, start=str(tmp_path / "900"))  # by folder: the same run
    assert again.reused
    assert again.run.run_id == runs[1].run.run_id


def test_a_start_that_knows_nothing_is_said(tmp_path: Path, local_engine: Engine) -> None:
    yesterday, today = month()
    publish(yesterday.assign(query="another"), tmp_path / "other", local_engine)
    run = publish(today, tmp_path / "out", local_engine, start=str(tmp_path / "other"))
    assert any("knows none of the 60 items" in warning for warning in run.facts["warnings"])


def test_a_start_that_is_no_run_is_refused(tmp_path: Path, local_engine: Engine) -> None:
    with pytest.raises(UsageError, match=r"start='glod': expected ones, gold or a RUN"):
        publish(month()[1], tmp_path / "out", local_engine, start="glod")
    with pytest.raises(UsageError, match=r"start='gold': expected ones or a RUN"):
        publish(month()[1], tmp_path / "out", local_engine, "bradley-terry", start="gold")


def fit_started(engine: Engine, frame: pd.DataFrame, first: Fit | None, cut: int, work: Path, method: str) -> Any:
    """A fit on shards of `cut` rows, from the tables of an earlier one."""
    model = make_model(method, {**EXACT, "start": "ones"})
    sharded = build_shards(judgments_from_frame(frame), form=model.form, split=model.split, rows_per_shard=cut)
    if first is not None:
        rankings = pa.concat_tables([part["rankings"] for part in first.results])
        sharded = started(sharded, Earlier.of("first", rankings, first.facts["annotators"], {}))
    types = IdTypes(sharded.query_type, sharded.item_type)
    main = partial(fit, model=model, info=sharded.info, finish=partial(finish_tables, model, types, None))
    result = engine.execute(main, FileSource.write(work, sharded.source), model, lambda _: None)
    table = annotators_table(sharded.annotators, model.annotators(result.theta, sharded.info), sharded.info)
    result.facts["annotators"] = table
    return result


@pytest.mark.parametrize("method", ["crowd-bt", "variance-bt"])
def test_split_queries_start_where_whole_ones_do(method: str, tmp_path: Path, local_engine: Engine) -> None:
    yesterday, today = month()
    first = fit_started(local_engine, yesterday, None, 250_000, tmp_path / "first", method)
    whole = fit_started(local_engine, today, first, 250_000, tmp_path / "whole", method)
    split = fit_started(local_engine, today, first, 90, tmp_path / "split", method)
    assert split.theta["split.offsets"][-1] == 60  # every query is split
    assert whole.trace[0]["objective"] == pytest.approx(split.trace[0]["objective"], rel=1e-12)
    assert whole.theta["objective"] == pytest.approx(split.theta["objective"], rel=1e-12)


@pytest.mark.ray
def test_a_warm_start_on_ray_gives_the_local_bytes(tmp_path: Path, local_engine: Engine, ray_engine: Engine) -> None:
    yesterday, today = month()
    for cut in (200, 90):
        first = fit_started(local_engine, yesterday, None, cut, tmp_path / "first", "crowd-bt")
        results = [
            fit_started(engine, today, first, cut, tmp_path / "work", "crowd-bt")
            for engine in (local_engine, ray_engine)
        ]
        assert digest([results[0].theta]) == digest([results[1].theta])
        assert results[0].trace == results[1].trace
