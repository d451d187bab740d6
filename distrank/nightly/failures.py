"""The record of a failed night: out/failures/<time>-<random>/run.json, and the command that is told of it."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from distrank.engine.base import Report
from distrank.store.files import read_json, write_json

FOLDER = "failures"
SCHEMA = 1
COMMAND_SECONDS = 300.0


def record_failure(root: Path, facts: dict[str, Any]) -> Path:
    """Write what is known about a failed night; the path of its run.json."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    folder = root / FOLDER / f"{stamp}-{secrets.token_hex(4)}"
    folder.mkdir(parents=True)
    write_json(folder / "run.json", {"schema": SCHEMA, "state": "failed", **facts})
    return folder / "run.json"


def failures(root: Path) -> list[dict[str, Any]]:
    """All records, newest first."""
    found = sorted((root / FOLDER).glob("*/run.json"), reverse=True)
    return [{**read_json(path), "record": str(path)} for path in found]


def tell(command: Sequence[str], record: Path, report: Report) -> None:
    """Call the command with the record as its last argument. No shell: the list is what is executed."""
    if not command:
        return
    try:
        code = subprocess.run(  # noqa: S603 (an argument list from the config of the operator)
            [*command, str(record)], check=False, stdin=subprocess.DEVNULL, timeout=COMMAND_SECONDS
        ).returncode
    except (OSError, subprocess.TimeoutExpired) as error:
        report({"stage": "on_failure", "error": f"{command[0]}: {error}"})
        return
    if code:
        report({"stage": "on_failure", "error": f"{command[0]} ended with exit code {code}"})
