"""Kill a run again and again at random moments, resume it each time, and compare its bytes with an undisturbed run.

    python scripts/kill_test.py --kills 100 [--method crowd-bt] [--engine local]

Prints one line per run and a summary; exits with 1 if any resumed result differs, or if a reader ever saw half a run.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TABLES = ("rankings", "annotators", "queries")


def published(out: Path) -> dict[str, Any]:
    """What must be the same: the tables' bytes, and run.json without its execution block."""
    folder = out / "latest"
    facts = json.loads((folder / "run.json").read_text())
    facts.pop("execution")
    return {"facts": facts, **{name: (folder / f"{name}.parquet").read_bytes() for name in TABLES}}


def command(data: Path, out: Path, options: argparse.Namespace) -> list[str]:
    arguments = ["aggregate", str(data), "--out", str(out), "--method", options.method, "--engine", options.engine]
    return [sys.executable, "-m", "distrank.cli", *arguments, "--resume", "--checkpoint-iterations", "1", "--quiet"]


def run_with_kills(data: Path, out: Path, options: argparse.Namespace, longest: float, kills: int) -> int:
    """Run to the end, killing it at random moments on the way; the number of kills that hit."""
    hits = 0
    while True:
        process = subprocess.Popen(command(data, out, options), stderr=subprocess.DEVNULL)
        try:
            process.wait(random.uniform(0.3, longest) if hits < kills else None)  # noqa: S311 (moments, not secrets)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            hits += 1
            if (out / "latest").exists():  # a reader sees a whole run or none
                verify = [sys.executable, "-m", "distrank.cli", "show", str(out), "--verify", "--json"]
                subprocess.run(verify, check=True, stdout=subprocess.DEVNULL)
            continue
        if process.returncode != 0:
            raise SystemExit(f"the run ended with exit code {process.returncode}")
        return hits


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--kills-per-run", type=int, default=3)
    parser.add_argument("--method", default="crowd-bt")
    parser.add_argument("--engine", default="local", choices=("local", "ray"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    random.seed(options.seed)
    from distrank.simulate import simulate_crowd_bt

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        crowd = {"queries": 200, "items": 15, "annotators": 60, "pairs": 40, "annotators_per_pair": 5, "law": "model"}
        data = simulate_crowd_bt(**crowd, seed=1).write(folder)["preferences"]
        for out in (folder / "warm", folder / "calm"):  # the first may compile kernels; the second is timed
            begin = time.perf_counter()
            subprocess.run(command(data, out, options), check=True, stderr=subprocess.DEVNULL)
        longest, expected = time.perf_counter() - begin, published(folder / "calm")
        total, runs, different = 0, 0, 0
        while total < options.kills:
            runs += 1
            out = folder / f"run-{runs}"
            total += run_with_kills(data, out, options, longest, options.kills_per_run)
            same = published(out) == expected
            different += not same
            print(f"run {runs}: {total} kills so far, {'same bytes' if same else 'DIFFERENT BYTES'}", flush=True)
    print(f"{options.method} on {options.engine}: {runs} runs, {total} kills, {different} different results")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
