"""Judgments on S3, against a local server that speaks it: read by one process and by an engine's workers alike."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

pytest.importorskip("moto.server", reason="the package moto, a local S3 server, is not installed")

from distrank.engine.base import Engine
from distrank.errors import InputError
from distrank.runs import Request, aggregate
from distrank.tables.ingest import ingest
from distrank.tables.read import read_judgments

SECRET = "secret-that-nobody-prints"  # noqa: S105 (of the local server)


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A URI of a bucket with a folder of judgments."""
    code = (
        "from moto.server import ThreadedMotoServer; "
        "server = ThreadedMotoServer('127.0.0.1', 0, verbose=False); server.start(); "
        "print(server.get_host_and_port()[1], flush=True); input()"
    )
    server = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    endpoint = f"127.0.0.1:{int(server.stdout.readline())}"
    try:
        s3 = pafs.S3FileSystem(
            access_key="user", secret_key=SECRET, endpoint_override=endpoint, scheme="http", allow_bucket_creation=True
        )
        deadline = time.monotonic() + 30.0
        while True:
            try:
                s3.create_dir("crowd")
                break
            except OSError:
                assert time.monotonic() < deadline
        random = np.random.default_rng(0)
        for number in range(3):
            one = random.integers(0, 8, 200)
            columns = {"query": random.integers(0, 9, 200), "annotator": random.integers(0, 7, 200), "winner": one}
            frame = pd.DataFrame({**columns, "loser": (one + random.integers(1, 8, 200)) % 8})
            with s3.open_output_stream(f"crowd/judgments/day={number}/part.parquet") as file:
                pq.write_table(pa.Table.from_pandas(frame), file)
        yield f"s3://user:{SECRET}@crowd/judgments?scheme=http&endpoint_override={endpoint}"
    finally:
        server.kill()
        server.wait()


def test_a_run_on_s3_never_writes_its_credentials(bucket: str, local_engine: Engine, tmp_path: Path) -> None:
    run = aggregate(Request(bucket, tmp_path / "out"), local_engine, lambda _: None)
    assert run.facts["input"]["judgments"] == 600
    assert [entry["path"] for entry in run.facts["execution"]["files"]] == [
        f"s3://crowd/judgments/day={number}/part.parquet" for number in range(3)
    ]
    for path in (tmp_path / "out").rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
    assert SECRET not in json.dumps(run.facts)


def test_blocks_are_read_from_s3(bucket: str, tmp_path: Path) -> None:
    ingested = ingest(bucket, {}, tmp_path, lambda function, items, _: [function(item) for item in items])
    judgments = read_judgments(bucket)
    assert ingested.content == judgments.content
    assert list(ingested.files) == list(judgments.files)


@pytest.mark.ray
def test_workers_read_from_s3(bucket: str, ray_engine: Engine, local_engine: Engine, tmp_path: Path) -> None:
    there = aggregate(Request(bucket, tmp_path / "ray"), ray_engine, lambda _: None)
    here = aggregate(Request(bucket, tmp_path / "local"), local_engine, lambda _: None)
    for name in ("rankings", "annotators", "queries"):
        assert there.run.path(f"{name}.parquet").read_bytes() == here.run.path(f"{name}.parquet").read_bytes()


def test_an_error_shows_no_credentials(bucket: str) -> None:
    with pytest.raises(InputError) as caught:
        read_judgments(bucket.replace("crowd/judgments", "crowd/nothing"))
    assert "nothing" in str(caught.value)
    assert SECRET not in str(caught.value)
