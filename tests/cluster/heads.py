"""A Ray head of our own with a job server: token authentication on, dashboard on loopback, ended by its process id."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import distrank

ROOT = Path(distrank.__file__).parent.parent
START_SECONDS = 180.0


@dataclass(frozen=True)
class Head:
    """Where it is, and the environment that may use it."""

    address: str  # of the job server
    gcs: str
    environment: dict[str, str]


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


@contextmanager
def ray_head(cpus: int = 2) -> Iterator[Head]:
    """Start a head and wait for its job server; it ends with the context."""
    home = Path(tempfile.mkdtemp(prefix="dr-"))  # short: unix socket paths end at 107 bytes
    (home / "ray_bootstrap_config.yaml").write_text("{}\n")  # a starting head then looks for no cloud
    gcs, dashboard, agent = free_ports(3)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_USAGE_STATS_REPORT_URL": "http://127.0.0.1:9",
    }
    command = [
        str(Path(sys.executable).parent / "ray"), "start", "--head", "--block", "--disable-usage-stats",
        f"--port={gcs}", "--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}",
        f"--dashboard-agent-listen-port={agent}",  # a second Ray on this machine has the usual port
        f"--num-cpus={cpus}", "--object-store-memory=80000000", f"--temp-dir={home / 'r'}",
    ]  # fmt: skip
    log = (home / "head.log").open("w")
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=home, start_new_session=True)
    try:
        address = f"http://127.0.0.1:{dashboard}"
        _wait(process, address, environment["RAY_AUTH_TOKEN"], home / "head.log")
        yield Head(address, f"127.0.0.1:{gcs}", environment)
    finally:
        process.terminate()  # a blocking `ray start` ends its own children, and nobody else's
        try:
            process.wait(30.0)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
        log.close()
        shutil.rmtree(home, ignore_errors=True)


def _wait(process: subprocess.Popen[bytes], address: str, token: str, log: Path) -> None:
    request = urllib.request.Request(f"{address}/api/jobs/", headers={"Authorization": f"Bearer {token}"})
    deadline = time.monotonic() + START_SECONDS
    while True:
        assert process.poll() is None, f"the head ended: {log.read_text()[-2000:]}"
        assert time.monotonic() < deadline, f"the job server did not come up: {log.read_text()[-2000:]}"
        try:
            with urllib.request.urlopen(request, timeout=5.0):
                return
        except OSError:
            time.sleep(0.5)
