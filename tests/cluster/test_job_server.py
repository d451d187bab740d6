"""A real job server: a job is a success only if it says so, its exit code is ours, a night is run once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from heads import ROOT, Head, ray_head

from distrank.errors import UsageError
from distrank.simulate import simulate_crowd_bt

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    with ray_head() as started:
        yield started


def submit(head: Head, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "distrank.cli", "submit", "--address", head.address, *arguments]
    return subprocess.run(
        command, env=head.environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )


def test_a_job_is_published_and_succeeds(head: Head, tmp_path: Path) -> None:
    crowd = simulate_crowd_bt(queries=20, items=8, annotators=12, pairs=20, annotators_per_pair=4, law="model", seed=1)
    data = crowd.write(tmp_path)["preferences"]
    job = [sys.executable, str(ROOT / "jobs" / "aggregate.py"), str(data), "--out", str(tmp_path / "out")]
    done = submit(head, "--", *job)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCEEDED" in done.stderr
    facts = json.loads((tmp_path / "out" / "latest" / "run.json").read_text())
    assert facts["execution"]["engine"] == "ray"
    assert f"result: {tmp_path}" in done.stdout  # the job's own words were passed on

    short = submit(head, "--", *job, "--set", "max_iterations=1")
    assert short.returncode == 3, short.stdout + short.stderr  # published, not converged

    failing = submit(head, "--", *job[:2], str(tmp_path / "nothing.csv"), "--out", str(tmp_path / "out"))
    assert failing.returncode == 1
    assert "no such file" in failing.stdout
    assert "FAILED" in failing.stderr


def test_a_stopped_job_is_no_success(head: Head) -> None:
    command = [sys.executable, "-m", "distrank.cli", "submit", "--address", head.address, "--submission-id", "sleeper"]
    job = [*command, "--", sys.executable, "-c", "import time; print('asleep', flush=True); time.sleep(600)"]
    follower = subprocess.Popen(job, env=head.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert follower.stdout is not None
    deadline = time.monotonic() + 120.0
    while "asleep" not in follower.stdout.readline():
        assert time.monotonic() < deadline
        assert follower.poll() is None
    request = urllib.request.Request(
        f"{head.address}/api/jobs/sleeper/stop",
        method="POST",
        headers={"Authorization": f"Bearer {head.environment['RAY_AUTH_TOKEN']}"},
    )
    urllib.request.urlopen(request, timeout=30.0).close()
    _, told = follower.communicate(timeout=120.0)
    assert follower.returncode == 1
    assert "STOPPED" in told
    again = submit(head, "--submission-id", "sleeper", "--", "true")
    assert again.returncode == 1
    assert "is taken" in again.stderr


def test_a_night_is_run_once(head: Head, tmp_path: Path) -> None:
    crowd = simulate_crowd_bt(queries=5, items=8, annotators=12, pairs=20, annotators_per_pair=4, law="model", seed=1)
    data = crowd.write(tmp_path)["preferences"]
    whole = data.read_bytes()
    data.write_bytes(whole[:100])
    config = tmp_path / "nightly.yaml"
    config.write_text(f"name: arena\ninput: {data.name}\nout: out\nengine: {{name: local}}\n")
    night = ["--night", str(config), "--date", "2026-01-31"]
    first = submit(head, *night)
    assert first.returncode == 1
    assert "nightly-arena-2026-01-31-1 FAILED" in first.stderr
    data.write_bytes(whole)
    second = submit(head, *night)
    assert second.returncode == 0, second.stdout + second.stderr
    assert "nightly-arena-2026-01-31-2 SUCCEEDED" in second.stderr
    third = submit(head, *night)
    assert third.returncode == 0
    assert "nothing to do: nightly-arena-2026-01-31-2 has succeeded already" in third.stdout


def test_nobody_submits_without_the_token(head: Head) -> None:
    stranger = {name: value for name, value in head.environment.items() if not name.startswith("RAY_AUTH")}
    command = [sys.executable, "-m", "distrank.cli", "submit", "--address", head.address, "--", "true"]
    refused = subprocess.run(command, env=stranger, capture_output=True, text=True, check=False, timeout=120)
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr
    assert "uth" in refused.stderr
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{head.address}/api/jobs/", timeout=30.0)


def test_another_machine_needs_a_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from distrank.engine.ray.submission import check_address, is_loopback

    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    for address in (
        "http://192.0.2.10:8265",
        "https://head.example:8265",
        "192.0.2.10:8265",
        "http://127.evil.example",
    ):
        with pytest.raises(UsageError, match="there is no token"):
            check_address(address, insecure=False)
        check_address(address, insecure=True)
    for address in ("http://127.0.0.1:8265", "http://localhost:8265", "http://[::1]:8265"):
        check_address(address, insecure=False)
    assert not is_loopback("localhost.example")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "x")
    check_address("http://192.0.2.10:8265", insecure=False)
