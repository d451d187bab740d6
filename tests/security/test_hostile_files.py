"""Files from outside cannot run code, leave their folder, or be taken for what they are not."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distrank.engine.base import Engine
from distrank.errors import DistrankError, InputError, StoreError, UsageError
from distrank.models import make_model
from distrank.nightly.config import parse_config
from distrank.records import load_record
from distrank.runs import Request, aggregate
from distrank.store.files import inside
from distrank.store.publish import OutputFolder, resolve_run
from distrank.tables.read import read_judgments

CROWD = pd.DataFrame(
    {"query": ["q"] * 6, "annotator": list("aabbcc"), "winner": list("xyxyxz"), "loser": list("yzzxyx")}
)


class Canary:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, (self.path,)


def whole_parquet() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(CROWD), buffer)
    return buffer.getvalue()


@given(place=st.floats(0.0, 1.0), change=st.binary(min_size=1, max_size=8))
def test_damaged_parquet_is_refused_or_read_but_never_more(
    tmp_path_factory: pytest.TempPathFactory, place: float, change: bytes
) -> None:
    """Bytes overwritten anywhere: our error, or rows that obey the rules; never another exception."""
    content = bytearray(whole_parquet())
    begin = int(place * (len(content) - len(change)))
    content[begin : begin + len(change)] = change
    path = tmp_path_factory.mktemp("damaged") / "in.parquet"
    path.write_bytes(bytes(content))
    try:
        judgments = read_judgments(str(path))
    except DistrankError:
        return
    assert judgments.counts.accepted + judgments.counts.rejected == judgments.counts.read


@pytest.mark.parametrize("length", [0, 1, 4, 12, 100, -8, -4, -1])
def test_cut_parquet_is_refused(tmp_path: Path, length: int) -> None:
    (tmp_path / "in.parquet").write_bytes(whole_parquet()[:length])
    with pytest.raises(InputError, match=r"in\.parquet"):
        read_judgments(str(tmp_path / "in.parquet"))


def test_a_footer_that_promises_the_world_is_refused(tmp_path: Path) -> None:
    """The length of the footer is what an attacker can set freely."""
    content = whole_parquet()
    (tmp_path / "in.parquet").write_bytes(content[:-8] + struct.pack("<I", 0x7FFFFFFF) + b"PAR1")
    with pytest.raises(InputError, match="not a complete Parquet file"):
        read_judgments(str(tmp_path / "in.parquet"))


def test_pandas_metadata_is_not_believed(tmp_path: Path) -> None:
    """Metadata that names Python types or functions is text to us."""
    table = pa.Table.from_pandas(CROWD)
    hostile = {b"pandas": b'{"index_columns": ["__import__(\'os\')"]}', b"ARROW:extension:name": b"x"}
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, **hostile}), tmp_path / "in.parquet")
    assert len(read_judgments(str(tmp_path / "in.parquet"))) == len(CROWD)


def hostile_npz(path: Path, canary: Path) -> None:
    np.savez(path, allow_pickle=True, score=np.array([Canary(canary)], dtype=object))


def test_npz_files_are_plain_arrays_or_nothing(tmp_path: Path) -> None:
    canary, path = tmp_path / "canary", tmp_path / "record.npz"
    hostile_npz(path, canary)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        load_record(path)
    path.write_bytes(b"\x80\x04cos\nsystem\n")  # a bare pickle
    with pytest.raises(ValueError, match=r"allow_pickle=False|pickled"):
        load_record(path)
    with zipfile.ZipFile(path, "w") as file:  # names that would leave the folder are names of arrays, nothing more
        array = io.BytesIO()
        np.save(array, np.arange(3))
        file.writestr("../../escape.npy", array.getvalue())
    record = load_record(path)
    assert list(record) == ["../../escape"]
    assert not (tmp_path.parent.parent / "escape.npy").exists()
    assert not canary.exists()


@pytest.fixture
def published(tmp_path: Path, local_engine: Engine) -> Path:
    CROWD.to_parquet(tmp_path / "in.parquet")
    aggregate(Request(str(tmp_path / "in.parquet"), tmp_path / "out"), local_engine, lambda _: None)
    return tmp_path / "out"


def test_a_start_that_was_tampered_with_is_refused(published: Path, tmp_path: Path, local_engine: Engine) -> None:
    rankings = published / "latest" / "rankings.parquet"
    table = pq.read_table(rankings)
    pq.write_table(table.set_column(3, "score", pa.array([1e9] * table.num_rows)), rankings)
    request = Request(str(tmp_path / "in.parquet"), tmp_path / "other", settings={"start": str(published)})
    with pytest.raises(StoreError, match="is not the file that was published"):
        aggregate(request, local_engine, lambda _: None)


def test_a_manifest_cannot_lead_out_of_its_run(published: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    manifest = published / "latest" / "manifest.json"
    content = json.loads(manifest.read_text())
    for name in ("../../../secret.txt", str(tmp_path / "secret.txt"), "a\0b"):
        content["files"][name] = {"rows": 0, "bytes": 6, "sha256": ""}
        manifest.write_text(json.dumps(content))
        run = OutputFolder(published).latest()
        assert run is not None
        with pytest.raises(StoreError, match=r"is not a name inside|leads out"):
            run.path(name)


def test_a_symlink_in_a_run_cannot_lead_out(published: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.parquet").write_bytes(b"secret")
    target = published / "latest" / "queries.parquet"
    target.unlink()
    target.symlink_to(tmp_path / "secret.parquet")
    with pytest.raises(StoreError, match="leads out"):
        resolve_run(str(published)).path("queries.parquet")


@given(name=st.text(st.characters(codec="utf-8"), max_size=40))
def test_a_name_is_inside_its_folder_or_refused(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    root = tmp_path_factory.getbasetemp() / "root"
    root.mkdir(exist_ok=True)
    try:
        path = inside(root, name)
    except (StoreError, OSError):
        return
    assert path.resolve().is_relative_to(root.resolve())


HOSTILE_YAML = [
    "!!python/object/apply:os.mkdir [{canary}]",
    "!!python/object/new:os.mkdir [{canary}]",
    "!!python/name:os.system",
    "!!python/module:os",
    "&a [*a, *a]",
]


@pytest.mark.parametrize("text", HOSTILE_YAML)
def test_yaml_cannot_run_code(text: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    config = f"name: {text.format(canary=canary)}\ninput: a\nout: b\n"
    with pytest.raises(UsageError):
        parse_config(config, "c.yaml", tmp_path)
    settings = tmp_path / "settings.yaml"
    settings.write_text(f"regularization: {text.format(canary=canary)}\n")
    from distrank.cli.options import parse_set

    with pytest.raises(UsageError):
        make_model("crowd-bt", parse_set([], str(settings)))
    assert not canary.exists()
