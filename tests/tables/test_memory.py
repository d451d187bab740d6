"""Memory grows with the codes of the judgments, not with their text, and one giant query is cut like any other data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from distrank.simulate import simulate_crowd_bt

_PEAK = """
import sys
from pathlib import Path
from distrank.cli import main
code = main(["aggregate", sys.argv[1], "--out", sys.argv[2], "--quiet", "--engine", "local"])
# not getrusage: its peak is carried over from the process that started this one
status = Path("/proc/self/status").read_text().splitlines()
print(next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM")))
sys.exit(code)
"""


def peak_megabytes(rows: int, folder: Path) -> int:
    """Peak memory of aggregating one query of so many rows from CSV, in a process of its own."""
    simulated = simulate_crowd_bt(items=200, annotators=300, judgments=rows, law="model", seed=1)
    path = simulated.write(folder / str(rows), format="csv")["preferences"]
    arguments = [sys.executable, "-c", _PEAK, str(path), str(folder / f"out-{rows}")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_one_query_with_millions_of_judgments_stays_within_its_budget(tmp_path: Path) -> None:
    """The promise is 1.5 GB for ten million rows: 120 bytes a row beyond the 300 MB that a small run needs."""
    small, large = peak_megabytes(10_000, tmp_path), peak_megabytes(4_000_000, tmp_path)
    assert small < 300
    assert large - small < 4_000_000 * 120 / 2**20
