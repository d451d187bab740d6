"""Data cannot run code: calls that would let it are not in the sources, and hostile files do nothing."""

from __future__ import annotations

import ast
import io
import pickle
from pathlib import Path

import numpy as np
import pytest

import distrank
from distrank.records import load_record

ROOT = Path(distrank.__file__).parent.parent
SOURCES = [path for folder in ("distrank", "jobs", "scripts") for path in sorted((ROOT / folder).rglob("*.py"))]
BANNED_MODULES = {"pickle", "cPickle", "joblib", "dill", "shelve", "marshal", "cloudpickle"}
BANNED_CALLS = {"eval", "exec", "compile", "__import__", "yaml.load", "yaml.unsafe_load", "os.system", "os.popen"}


def calls(path: Path) -> list[tuple[str, ast.Call]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [(ast.unparse(node.func), node) for node in ast.walk(tree) if isinstance(node, ast.Call)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_source_can_run_what_it_reads(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert not {alias.name.split(".")[0] for alias in node.names} & BANNED_MODULES
        if isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] not in BANNED_MODULES
    for name, call in calls(path):
        assert name not in BANNED_CALLS, f"{path}:{call.lineno} calls {name}"
        for keyword in call.keywords:
            value = ast.unparse(keyword.value)
            assert not (keyword.arg == "allow_pickle" and value != "False"), f"{path}:{call.lineno}"
            assert not (keyword.arg == "shell" and value != "False"), f"{path}:{call.lineno}"
        if name in {"np.load", "numpy.load"}:
            assert any(keyword.arg == "allow_pickle" for keyword in call.keywords), f"{path}:{call.lineno}"
        if name.endswith("read_parquet"):
            assert not name.startswith("ray"), "outside Parquet is read with pyarrow"


class Canary:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (Path(self.path),)


def test_a_record_file_that_holds_a_pickle_is_refused(tmp_path: Path) -> None:
    canary, file = tmp_path / "canary", tmp_path / "record.npz"
    np.savez(file, allow_pickle=True, hostile=np.array([Canary(canary)], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        load_record(file)
    assert not canary.exists()
    pickle.load(io.BytesIO(pickle.dumps(Canary(canary))))  # noqa: S301 (the canary does sing when it is unpickled)
    assert canary.exists()
