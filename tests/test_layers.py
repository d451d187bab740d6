"""The architecture as a test: a room imports only from the rooms below it, and heavy libraries have one door each."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import distrank

ROOT = Path(distrank.__file__).parent

# Lowest first. A room may import from rooms before it and from itself.
ROOMS = [
    "errors", "text", "faults", "records", "settings", "stats", "contract", "kernels",  # 1
    "models", "metrics", "engine",  # 2
    "fit", "identity", "tables", "store", "trees",  # 3
    "evaluate", "simulate", "changes", "active", "remap", "rankers",  # 4
    "intake", "runs", "updates", "nightly", "remap_runs", "stress", "plot",  # 5
    "api", "cli",  # 6
]  # fmt: skip
ONLY_IN = {"ray": "engine/ray/", "lightgbm": "trees"}
NOT_BEFORE_NEEDED = ("ray", "lightgbm", "pandas", "scipy.optimize", "numba", "pyarrow")


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def sources() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def test_every_room_has_a_place() -> None:
    assert {room_of(path) for path in sources()} == set(ROOMS)


def test_rooms_import_only_from_below() -> None:
    order = {room: place for place, room in enumerate(ROOMS)}
    upward = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources()
        for name in imports(path)
        if name.startswith("distrank.") and order.get(name.split(".")[1], -1) > order[room_of(path)]
    ]
    assert upward == []


def test_heavy_libraries_have_one_door() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources()
        for name in imports(path)
        for library, place in ONLY_IN.items()
        if name.split(".")[0] == library and not path.relative_to(ROOT).as_posix().startswith(place)
    ]
    assert wrong == []


def test_jobs_hold_no_logic() -> None:
    jobs = sorted((ROOT.parent / "jobs").glob("*.py"))
    assert jobs
    for path in jobs:
        assert len(path.read_text(encoding="utf-8").splitlines()) < 60
        assert not any(isinstance(node, ast.For | ast.While | ast.If) for node in _bodies(path)), path


def test_the_command_line_starts_without_heavy_libraries() -> None:
    code = "import sys, distrank, distrank.cli; distrank.cli.build_parser(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in NOT_BEFORE_NEEDED if name in loaded] == []


def _bodies(path: Path) -> Iterator[ast.AST]:
    """All statements of a job but the usual guard at its end."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'":
            for inner in node.body:
                yield from ast.walk(inner)
        else:
            yield from ast.walk(node)
