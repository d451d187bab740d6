"""What a result depends on besides its input: the code, the libraries, the machine's arithmetic."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

LIBRARIES = ("numpy", "numba", "scipy", "pandas", "pyarrow", "ray")
# A resumed run must go on with the libraries whose arithmetic it started with.
ARITHMETIC = ("numpy", "numba", "scipy")


@cache
def code_digest() -> str:
    """A hash of the package's own sources: two runs with the same digest ran the same code."""
    root = Path(__file__).parent
    sha = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        sha.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return sha.hexdigest()[:16]


@cache
def versions() -> dict[str, str]:
    """distrank, Python and the libraries, as installed."""
    libraries = {name: _version(name) for name in LIBRARIES}
    return {"distrank": _version("distrank"), "python": platform.python_version(), **libraries}


def arithmetic_versions() -> dict[str, str]:
    """The versions that a checkpoint is bound to."""
    return {name: versions()[name] for name in ARITHMETIC}


def machine() -> dict[str, Any]:
    """Architecture and the CPU features that numpy found: within these the same bytes are promised."""
    import numpy as np  # noqa: PLC0415

    features: dict[str, Any] = dict((np.show_config(mode="dicts") or {}).get("SIMD Extensions", {}))
    found = sorted([*features.get("baseline", []), *features.get("found", [])])
    return {"architecture": platform.machine(), "byteorder": sys.byteorder, "cpu_features": found}


def short_hash(value: Any) -> str:
    """Twelve hex digits of the sha256 of a JSON value."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "0.1.0+source" if name == "distrank" else "absent"
