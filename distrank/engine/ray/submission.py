"""Jobs on a Ray cluster: submitted once, followed to their end, and believed only if they say SUCCEEDED.

A submission id can be used once on a cluster. The id `nightly-<name>-<date>-<attempt>` is therefore the lock between
machines that want the same night: whoever comes second is refused by the cluster itself, and a new attempt exists only
after the last one ended without success.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from distrank.engine.ray.environment import set_environment
from distrank.errors import EngineError, UsageError

ADDRESS = "http://127.0.0.1:8265"
POLL_SECONDS = 1.0
PATIENCE_SECONDS = 120.0  # without an answer of the cluster
SUCCEEDED, FAILED, STOPPED = "SUCCEEDED", "FAILED", "STOPPED"
ENDED = (SUCCEEDED, FAILED, STOPPED)
NOT_READY = "No available agent"  # what a cluster that is starting says
# Code and input come by shared paths; what a working folder holds besides is not sent along.
EXCLUDES = [".git", ".venv", "out", "demo", "docs", "tests"]


@dataclass(frozen=True)
class Job:
    """What to run, where; `working_dir` is uploaded, None if the nodes have what is needed."""

    command: Sequence[str]
    address: str = ADDRESS
    submission_id: str | None = None
    working_dir: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    insecure: bool = False


@dataclass(frozen=True)
class Ended:
    """How a job ended."""

    submission_id: str
    status: str
    exit_code: int
    message: str


class JobServer:
    """The job server of a cluster."""

    def __init__(self, address: str, *, insecure: bool = False) -> None:
        check_address(address, insecure=insecure)
        set_environment()
        if has_token():
            os.environ.setdefault("RAY_AUTH_MODE", "token")
        from ray.exceptions import RayError  # noqa: PLC0415 (after the environment is set)
        from ray.job_submission import JobSubmissionClient  # noqa: PLC0415

        try:
            self.client = JobSubmissionClient(address)
        except (ConnectionError, RuntimeError, ValueError, RayError) as error:
            raise EngineError(f"the job server at {address} cannot be used: {_line(error)}") from error
        self.address = address

    def submit(self, job: Job) -> str:
        """Start a job; its submission id."""
        runtime: dict[str, Any] = {"env_vars": dict(job.environment)}
        if job.working_dir is not None:
            runtime |= {"working_dir": str(job.working_dir), "excludes": EXCLUDES}
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return str(
                    self.client.submit_job(
                        entrypoint=shlex.join(job.command), submission_id=job.submission_id, runtime_env=runtime
                    )
                )
            except (RuntimeError, ValueError) as error:
                if NOT_READY in str(error) and time.monotonic() < deadline:
                    time.sleep(POLL_SECONDS)
                    continue
                if "already exists" in str(error) or "has been submitted" in str(error):
                    raise EngineError(
                        f"the submission id {job.submission_id} is taken: this job was started before"
                    ) from error
                raise EngineError(f"the job server at {self.address} refused the job: {_line(error)}") from error

    def status(self, submission_id: str) -> str | None:
        """PENDING, RUNNING, SUCCEEDED, FAILED, STOPPED; None if the cluster knows no such job."""
        known = {job.submission_id: job for job in self.client.list_jobs()}
        return str(known[submission_id].status.value) if submission_id in known else None

    def follow(self, submission_id: str, say: Callable[[str], None]) -> Ended:
        """Pass on what a job prints until it ends. Answers that do not come are waited for, but not for ever."""
        heard, printed = time.monotonic(), 0
        while True:
            try:
                info = self.client.get_job_info(submission_id)
                log = self.client.get_job_logs(submission_id)
                heard = time.monotonic()
            except (OSError, RuntimeError) as error:
                if time.monotonic() - heard > PATIENCE_SECONDS:
                    raise EngineError(
                        f"no answer from {self.address} for {PATIENCE_SECONDS:.0f} s while {submission_id} was "
                        f"running: {_line(error)}. Whether it goes on is not known"
                    ) from error
                time.sleep(POLL_SECONDS)
                continue
            complete = len(log) if info.status.value in ENDED else log.rfind("\n") + 1
            if complete > printed:
                say(log[printed:complete])
                printed = complete
            if info.status.value in ENDED:
                return _ended(submission_id, str(info.status.value), info.driver_exit_code, info.message)
            time.sleep(POLL_SECONDS)

    def stop(self, submission_id: str) -> None:
        self.client.stop_job(submission_id)


def night_id(server: JobServer, name: str, date: str) -> tuple[str | None, str]:
    """The submission id of the next attempt at a night and why; None where there is nothing to attempt."""
    attempt = 1
    while True:
        wanted = f"nightly-{name}-{date}-{attempt}"
        status = server.status(wanted)
        if status is None:
            return wanted, "the first attempt" if attempt == 1 else f"attempt {attempt - 1} ended without success"
        if status == SUCCEEDED:
            return None, f"{wanted} has succeeded already"
        if status not in ENDED:
            raise EngineError(f"{wanted} is {status}: a new attempt can be made once it has ended")
        attempt += 1


def check_address(address: str, *, insecure: bool) -> None:
    """Refuse to talk to another machine without a token: whoever answers there, or listens, could be anybody."""
    host = urlsplit(address if "://" in address else f"http://{address}").hostname
    if not host:
        raise UsageError(f"address {address!r}: expected something like {ADDRESS}")
    if is_loopback(host) or has_token() or insecure:
        return
    raise UsageError(
        f"{address} is another machine and there is no token: set RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH to a file of "
        "mode 0600 that holds it (see SECURITY.md). On a private network without tokens, say --insecure"
    )


def is_loopback(host: str) -> bool:
    """Whether an address stays on this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def has_token() -> bool:
    """Whether Ray has a token to show, where it looks for one."""
    if os.environ.get("RAY_AUTH_TOKEN"):
        return True
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token").expanduser()
    return path.is_file() and path.stat().st_size > 0


def _ended(submission_id: str, status: str, exit_code: int | None, message: str | None) -> Ended:
    """Success is the status SUCCEEDED and nothing else; a failed job gives its own exit code."""
    text = " ".join((message or "").split())
    if status == SUCCEEDED:
        return Ended(submission_id, status, 0, text)
    code = exit_code if status == FAILED and exit_code is not None and exit_code > 0 else 1
    return Ended(submission_id, status, code, text)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
