"""Three hosts on one machine (`scripts/hosts.sh`): a host is lost, a link is cut and heals; the bytes are the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from heads import ROOT

from distrank.simulate import simulate_crowd_bt

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.faults]
SCRIPT = ["bash", str(ROOT / "scripts" / "hosts.sh")]


class Hosts:
    """The script, with a state folder of its own."""

    def __init__(self, state: Path) -> None:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self.environment = {**os.environ, "DISTRANK_HOSTS": str(state), "PATH": path, "PYTHONPATH": str(ROOT)}

    def __call__(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*SCRIPT, *arguments], env=self.environment, capture_output=True, text=True, check=check, timeout=600
        )

    def submit(self, data: Path, out: Path) -> subprocess.Popen[str]:
        job = [sys.executable, "-m", "distrank.cli", "aggregate", str(data), "--out", str(out)]
        command = [*SCRIPT, "run", "1", sys.executable, "-m", "distrank.cli", "submit", "--", *job]
        return subprocess.Popen(
            [*command, "--checkpoint-iterations", "2"],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + 180.0
        while not self("status").stdout.startswith(f"{count} "):
            assert time.monotonic() < deadline
            time.sleep(2.0)


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    found = Hosts(Path(f"/tmp/dr-h{os.getpid()}"))  # noqa: S108 (short, for Ray's sockets)
    able = found("check", check=False)
    if able.returncode:
        pytest.skip(able.stderr.strip())
    try:
        found("up", "3")
        yield found
    finally:
        found("down")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    crowd = simulate_crowd_bt(
        queries=3000, items=15, annotators=200, pairs=40, annotators_per_pair=5, law="model", seed=3
    )
    return crowd.write(tmp_path_factory.mktemp("crowd"))["preferences"]


@pytest.fixture(scope="module")
def calm(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("calm") / "out"
    command = [sys.executable, "-m", "distrank.cli", "aggregate", str(data), "--out", str(out), "--engine", "local"]
    subprocess.run([*command, "--quiet"], check=True)
    return published(out)


def published(out: Path) -> dict[str, Any]:
    folder = out / "latest"
    facts = json.loads((folder / "run.json").read_text())
    facts.pop("execution")
    return {"facts": facts, **{path.name: path.read_bytes() for path in folder.glob("*.parquet")}}


def wait_for_progress(out: Path, job: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120.0
    while not list((out / "progress").glob("run@*")):
        assert job.poll() is None, job.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("trouble", ["a host is killed", "a link is cut and heals"])
def test_a_job_survives(trouble: str, hosts: Hosts, data: Path, calm: dict[str, Any], tmp_path: Path) -> None:
    job = hosts.submit(data, tmp_path / "out")
    wait_for_progress(tmp_path / "out", job)
    time.sleep(1.0)
    if trouble == "a host is killed":
        hosts("kill", "3")
    else:
        hosts("cut", "2")
        time.sleep(3.0)
        hosts("heal", "2")
    told, _ = job.communicate(timeout=500)
    assert job.returncode == 0, told[-3000:]
    assert published(tmp_path / "out") == calm
    if trouble == "a host is killed":
        hosts("add", "3")
        hosts.wait_for(3)


def test_nobody_joins_without_the_token(hosts: Hosts) -> None:
    code = "import ray; ray.init(address='auto', logging_level='ERROR')"
    stranger = hosts("run", "2", "env", "-u", "RAY_AUTH_TOKEN", sys.executable, "-c", code, check=False)
    assert stranger.returncode != 0
    assert "uth" in stranger.stderr
