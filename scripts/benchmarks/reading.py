"""From a Parquet file to a published run, beside pyarrow."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common import median_seconds


def bench_read(rows: int) -> dict[str, Any]:
    """From a Parquet file with text ids to a published run, and reading beside pyarrow's own dictionary encoding."""
    import pyarrow.parquet as pq

    from distrank.engine.local import LocalEngine
    from distrank.runs import Request, aggregate
    from distrank.simulate import simulate_crowd_bt
    from distrank.tables.read import read_judgments

    found: dict[str, Any] = {"rows": rows}
    cases = {
        "1,000 item ids": {"items": 1000, "annotators": 1000},
        "1,000,000 item ids": {"queries": 10_000, "annotators": 10_000},
    }
    for case, sizes in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            simulated = simulate_crowd_bt(judgments=rows, quality="beta:5,1", law="model", seed=1, **sizes)
            path = simulated.write(folder)["preferences"]
            del simulated
            columns = ["query", "annotator", "winner", "loser"]

            def encode(path: Path = path, columns: list[str] = columns) -> None:
                table = pq.read_table(path, columns=columns)
                for name in columns:
                    table[name].combine_chunks().dictionary_encode()

            peer, _, _ = median_seconds(encode, 3)
            ours, _, _ = median_seconds(partial(read_judgments, path), 3)
            found[f"{case}: read and encode, s"] = ours
            found[f"{case}: pyarrow reads and encodes, s"] = peer
            found[f"{case}: ratio"] = ours / peer
            request = Request(source=str(path), out=Path(folder) / "out")
            begin = time.perf_counter()
            with LocalEngine() as engine:
                published = aggregate(request, engine, lambda _: None)
            found[f"{case}: to a published run, s"] = time.perf_counter() - begin
            stages = published.facts["execution"]["seconds"]
            found |= {f"{case}: stage {name}, s": seconds for name, seconds in stages.items()}
    return found
