"""What we ship is valid and says what it should: the cluster file, the jobs, the scripts, the promises about Ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import distrank

ROOT = Path(distrank.__file__).parent.parent


def cluster() -> dict[str, object]:
    return dict(yaml.safe_load((ROOT / "cluster.yaml").read_text()))


def test_cluster_yaml_is_valid_for_ray() -> None:
    import jsonschema
    import ray.autoscaler

    schema = json.loads((Path(ray.autoscaler.__file__).parent / "ray-schema.json").read_text())
    jsonschema.validate(cluster(), schema)


def test_cluster_yaml_exposes_nothing() -> None:
    for kind in ("head_start_ray_commands", "worker_start_ray_commands"):
        commands = cluster()[kind]
        assert isinstance(commands, list)
        start = commands[-1]
        assert "RAY_AUTH_MODE=token" in start
        assert "RAY_USAGE_STATS_ENABLED=0" in start
        assert "RAY_USAGE_STATS_REPORT_URL=http://127.0.0.1:9" in start
    assert "--dashboard-host=127.0.0.1" in cluster()["head_start_ray_commands"][-1]  # type: ignore[index]


def test_the_lock_file_satisfies_the_lower_bounds() -> None:
    import tomllib

    from packaging.requirements import Requirement
    from packaging.version import Version

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = dict(
        line.split("==") for line in (ROOT / "requirements.lock").read_text().splitlines() if line and line[0] != "#"
    )
    locked = {name.lower().replace("_", "-"): version for name, version in locked.items()}
    for text in [*project["dependencies"], *project["optional-dependencies"]["test"]]:
        requirement = Requirement(text)
        assert requirement.specifier.contains(Version(locked[requirement.name.lower()])), text


def test_the_job_runs_alone(tmp_path: Path) -> None:
    (tmp_path / "judgments.csv").write_text("query,annotator,winner,loser\nq,a,x,y\nq,b,x,y\nq,c,y,x\n")
    job = [sys.executable, str(ROOT / "jobs" / "aggregate.py"), str(tmp_path / "judgments.csv"), "--quiet"]
    subprocess.run([*job, "--out", str(tmp_path / "out")], check=True, cwd=tmp_path)
    assert (tmp_path / "out" / "latest" / "rankings.parquet").is_file()


@pytest.mark.ray
def test_the_ray_that_we_start_reports_to_nobody_and_asks_for_a_token(ray_engine: object) -> None:
    import ray

    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert os.environ["RAY_USAGE_STATS_REPORT_URL"] == "http://127.0.0.1:9"
    assert not (Path.home() / ".ray" / "auth_token").exists()
    address = ray.get_runtime_context().gcs_address
    code = f"import ray; ray.init(address={address!r}, logging_level='ERROR')"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    stranger = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert stranger.returncode != 0
    assert "uth" in stranger.stderr  # authentication is what failed


def test_scripts_parse() -> None:
    for script in [*ROOT.glob("scripts/*.sh"), ROOT / ".ci" / "run"]:
        subprocess.run(["bash", "-n", str(script)], check=True)
