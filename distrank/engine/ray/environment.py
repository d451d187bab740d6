"""Starting or joining Ray: crowd data jobs report to nobody, and a cluster that we start answers nobody else."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

# Set before ray is imported: usage reports off, and their address a closed port on loopback, because
# `--disable-usage-stats` alone still let one empty report through.
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_USAGE_STATS_REPORT_URL": "http://127.0.0.1:9",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
# A host that vanishes without closing its connections is noticed after 20 s in place of 7 minutes.
_WATCHFUL = {"RAY_grpc_client_keepalive_time_ms": "10000", "RAY_grpc_client_keepalive_timeout_ms": "10000"}
_SMALLEST_STORE = 78_643_200  # bytes; what Ray accepts at least


def set_environment() -> None:
    """Environment variables that every process using Ray here needs; what the user has set stays."""
    for name, value in {**_QUIET, **_WATCHFUL}.items():
        os.environ.setdefault(name, value)


@cache
def _process_token() -> str:
    """One token per process: Ray reads it once and keeps it."""
    return os.environ.get("RAY_AUTH_TOKEN") or secrets.token_hex(32)


@contextmanager
def own_cluster(workers: int, object_store_bytes: int | None) -> Iterator[dict[str, Any]]:
    """A Ray of our own on this machine for as long as the context lasts.

    Token authentication is on (`ray.init` turns it on for a cluster that it starts), with a token that lives in the
    environment only. A starting head looks for its cloud (the metadata address, DNS) unless it finds a bootstrap file
    in HOME: it gets a temporary HOME that has an empty one.
    """
    set_environment()
    import ray  # noqa: PLC0415 (after the environment is set)

    home = Path(tempfile.mkdtemp(prefix="dr-"))  # short: unix socket paths end at 107 bytes
    (home / "ray_bootstrap_config.yaml").write_text("{}\n")
    changed = {"HOME": str(home), "RAY_AUTH_TOKEN": _process_token()}
    before = {name: os.environ.get(name) for name in (*changed, "RAY_AUTH_MODE")}
    os.environ.update(changed)
    logging.getLogger("ray._private.authentication").setLevel(logging.ERROR)  # that tokens are on is what we want
    try:
        ray.init(
            address="local",
            num_cpus=workers,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            configure_logging=False,
            object_store_memory=max(object_store_bytes, _SMALLEST_STORE) if object_store_bytes else None,
            _temp_dir=str(home / "r"),
        )
        if before["HOME"] is not None:
            os.environ["HOME"] = before["HOME"]
        yield {"address": "local", "started": True}
    finally:
        ray.shutdown()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def joined_cluster(address: str | None) -> Iterator[dict[str, Any]]:
    """A running cluster: the address given, or the one of the job that this process is the driver of."""
    set_environment()
    import ray  # noqa: PLC0415

    already = ray.is_initialized()
    if not already:
        ray.init(address=address or "auto", log_to_driver=False, logging_level="ERROR", namespace="distrank")
    try:
        yield {"address": address or "auto", "started": False}
    finally:
        if not already:
            ray.shutdown()
