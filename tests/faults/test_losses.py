"""Losing things in the middle: the result is the undisturbed one, byte for byte."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from killing import LosesAWorker, LosesTheActor

from distrank.engine.base import Engine, FileSource
from distrank.errors import EngineError
from distrank.fit import Fit, fit
from distrank.models import make_model
from distrank.records import digest
from distrank.simulate import simulate_crowd_bt
from distrank.store.checkpoints import CheckpointFolder
from distrank.tables.read import judgments_from_frame
from distrank.tables.shards import Sharded, build_shards

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def sharded() -> Sharded:
    """A crowd on which crowd-bt needs several iterations, in several shards."""
    table = simulate_crowd_bt(queries=40, items=12, annotators=30, pairs=40, annotators_per_pair=4, law="model", seed=5)
    return build_shards(judgments_from_frame(table["preferences"]), form="preferences", rows_per_shard=1_000)


def fit_on(engine: Engine, model: Any, sharded: Sharded, folder: Path, **options: Any) -> Fit:
    main = partial(fit, model=model, info=sharded.info, **options)
    return engine.execute(main, FileSource.write(folder / "work", sharded.source), model, lambda _: None)


def same(one: Fit, other: Fit) -> bool:
    """Whether two fits have the same parameters and trace; the count of the test models is not one of them."""
    thetas = [{name: value for name, value in result.theta.items() if name != "seen"} for result in (one, other)]
    return digest(thetas[:1]) == digest(thetas[1:]) and one.trace == other.trace


@pytest.mark.ray
def test_a_lost_worker_is_replaced(ray_engine: Engine, sharded: Sharded, tmp_path: Path) -> None:
    undisturbed = fit_on(ray_engine, make_model("crowd-bt", {}), sharded, tmp_path)
    model = LosesAWorker(make_model("crowd-bt", {}).settings)
    model.mark = tmp_path / "killed"
    disturbed = fit_on(ray_engine, model, sharded, tmp_path)
    assert model.mark.exists()
    assert same(disturbed, undisturbed)


@pytest.mark.ray
@pytest.mark.parametrize("checkpoints", [False, True])
def test_a_lost_parameter_actor_is_started_again(
    checkpoints: bool, ray_engine: Engine, sharded: Sharded, tmp_path: Path
) -> None:
    undisturbed = fit_on(ray_engine, make_model("crowd-bt", {}), sharded, tmp_path)
    model = LosesTheActor(make_model("crowd-bt", {}).settings)
    model.mark = tmp_path / "killed"
    folder = CheckpointFolder(tmp_path / "checkpoints", "run", {}, seconds=0.0, iterations=1)
    disturbed = fit_on(ray_engine, model, sharded, tmp_path, checkpoints=folder if checkpoints else None)
    assert model.mark.exists()
    assert disturbed.facts["resumed_from"] == (2 if checkpoints else None)
    assert same(disturbed, undisturbed)


@pytest.mark.ray
def test_work_that_no_node_can_take_is_an_error_with_a_name(ray_engine: Engine, tmp_path: Path) -> None:
    import ray

    from distrank.engine.ray.placement import RayPlacement

    @ray.remote(num_cpus=1, resources={"a machine that nobody has": 1})
    def never() -> int:
        return 1

    placement = RayPlacement.__new__(RayPlacement)
    placement.stall_seconds = 1.0
    begin = time.monotonic()
    with pytest.raises(EngineError, match=r"stalled: step 'never' has 1 of 1 calls pending"):
        placement._get([never.remote()], "step 'never'")
    assert time.monotonic() - begin < 60.0


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "distrank.cli", *arguments]


@pytest.fixture(scope="module")
def crowd_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crowd")
    simulated = simulate_crowd_bt(
        queries=60, items=15, annotators=40, pairs=50, annotators_per_pair=4, law="model", seed=3
    )
    return simulated.write(folder)["preferences"]


def published(out: Path) -> dict[str, Any]:
    """What is compared: the tables' bytes, and run.json without its execution block."""
    folder = out / "latest"
    facts = json.loads((folder / "run.json").read_text())
    facts.pop("execution")
    return {"facts": facts, **{path.name: path.read_bytes() for path in folder.glob("*.parquet")}}


@pytest.mark.parametrize(
    "point", ["fit:iteration:1", "fit:iteration:4", "fit:checkpoint:3", "checkpoint:before-manifest:2"]
)
def test_a_killed_driver_resumes(point: str, crowd_file: Path, tmp_path: Path) -> None:
    arguments = ["aggregate", str(crowd_file), "--quiet", "--engine", "local", "--checkpoint-iterations", "1"]
    subprocess.run(command(*arguments, "--out", str(tmp_path / "calm")), check=True)
    killed = [*arguments, "--out", str(tmp_path / "killed")]
    environment = {**os.environ, "DISTRANK_FAULT": point}
    assert subprocess.run(command(*killed), env=environment, check=False).returncode == -signal.SIGKILL
    assert not (tmp_path / "killed" / "latest").exists()
    subprocess.run(command(*killed, "--resume"), check=True)
    assert published(tmp_path / "killed") == published(tmp_path / "calm")
    execution = json.loads((tmp_path / "killed" / "latest" / "run.json").read_text())["execution"]
    resumed_from = {
        "fit:iteration:1": None,
        "fit:iteration:4": 3,
        "fit:checkpoint:3": 3,
        "checkpoint:before-manifest:2": 1,
    }
    assert execution["resumed_from"] == resumed_from[point]
    assert list((tmp_path / "killed" / "checkpoints").iterdir()) == []


@pytest.mark.ray
def test_a_killed_driver_of_a_ray_run_resumes(crowd_file: Path, tmp_path: Path) -> None:
    """The driver dies while the actor works; a new driver on a new Ray goes on from the checkpoint."""
    arguments = [
        "aggregate",
        str(crowd_file),
        "--quiet",
        "--checkpoint-iterations",
        "1",
        "--out",
        str(tmp_path / "out"),
    ]
    driver = subprocess.Popen(command(*arguments, "--engine", "ray", "--workers", "1"))
    deadline = time.monotonic() + 120.0
    while not list((tmp_path / "out").glob("checkpoints/*/*/manifest.json")):
        assert driver.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline, "no checkpoint was written"
        time.sleep(0.002)
    driver.kill()
    assert driver.wait() == -signal.SIGKILL
    assert not (tmp_path / "out" / "latest").exists()
    subprocess.run(command(*arguments, "--engine", "local", "--resume"), check=True)
    calm = ["aggregate", str(crowd_file), "--quiet", "--engine", "local", "--out", str(tmp_path / "calm")]
    subprocess.run(command(*calm), check=True)
    assert published(tmp_path / "out") == published(tmp_path / "calm")
    assert json.loads((tmp_path / "out" / "latest" / "run.json").read_text())["execution"]["resumed_from"] is not None


def test_a_checkpoint_of_other_settings_is_refused(crowd_file: Path, tmp_path: Path) -> None:
    arguments = ["aggregate", str(crowd_file), "--quiet", "--engine", "local", "--out", str(tmp_path), "--resume"]
    environment = {**os.environ, "DISTRANK_FAULT": "fit:checkpoint:2"}
    once = [*arguments, "--checkpoint-iterations", "1"]
    assert subprocess.run(command(*once), env=environment, check=False).returncode == -signal.SIGKILL
    other = command(*arguments, "--set", "regularization=0.75")
    refused = subprocess.run(other, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "stale" in refused.stderr
    assert "settings.regularization was 0.5, is 0.75" in refused.stderr
    assert "Traceback" not in refused.stderr
