"""5 million preferences in 200 Parquet files on three hosts (network namespaces, `scripts/hosts.sh`), one host killed.

    sudo python scripts/reproduce/hosts.py [--rows 5000000] [--files 200] [--out docs/results/hosts.md]

The same job runs on the local engine, undisturbed on the three hosts, with a host killed while the files are read, and
with a host killed while the model is fitted. Every result is compared with the local one, byte for byte.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parent.parent.parent
HOSTS = ["bash", str(ROOT / "scripts" / "hosts.sh")]
QUERIES, ITEMS, ANNOTATORS = 20_000, 10, 2_000
TABLES = ("rankings", "annotators", "queries")


def make_crowd(folder: Path, rows: int, files: int) -> None:
    """Judgments with text ids, spread over files at random."""
    random = np.random.default_rng(0)
    score = random.normal(size=(QUERIES, ITEMS))
    quality = random.choice([0.95, 0.8, 0.5, 0.1], p=[0.3, 0.5, 0.15, 0.05], size=ANNOTATORS)
    names = {
        "query": pa.array([f"query-{n:06d}" for n in range(QUERIES)]),
        "annotator": pa.array([f"annotator-{n:05d}" for n in range(ANNOTATORS)]),
        "item": pa.array([f"document-{n:02d}" for n in range(ITEMS)]),
    }
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(rows), files)):
        count = len(part)
        query, annotator = random.integers(0, QUERIES, count), random.integers(0, ANNOTATORS, count)
        one = random.integers(0, ITEMS, count)
        other = (one + random.integers(1, ITEMS, count)) % ITEMS
        wins = random.random(count) < 1.0 / (1.0 + np.exp(score[query, other] - score[query, one]))
        wins ^= random.random(count) > quality[annotator]
        columns = {
            "query": names["query"].take(pa.array(query)),
            "annotator": names["annotator"].take(pa.array(annotator)),
        }
        columns |= {"winner": names["item"].take(pa.array(np.where(wins, one, other)))}
        columns |= {"loser": names["item"].take(pa.array(np.where(wins, other, one)))}
        pq.write_table(pa.table(columns), folder / f"part-{number:04d}.parquet")


def published(out: Path) -> dict[str, Any]:
    """What must be the same: the tables' bytes, and run.json without its execution block."""
    folder = out / "latest"
    facts = json.loads((folder / "run.json").read_text())
    facts.pop("execution")
    return {"facts": facts, **{name: (folder / f"{name}.parquet").read_bytes() for name in TABLES}}


def stage_of(out: Path) -> str:
    """What the run is doing, as its progress file says."""
    for path in (out / "progress").glob("run@*"):
        try:
            return str(json.loads(path.read_text()).get("stage", ""))
        except (OSError, ValueError):
            return ""
    return ""


def run_job(data: Path, out: Path, kill_at: str, delay: float, say: Callable[[str], None]) -> dict[str, Any]:
    """A job on the hosts, followed by `distrank submit`; host 3 is killed some time after the job came to a stage."""
    job = [
        sys.executable,
        "-m",
        "distrank.cli",
        "aggregate",
        str(data),
        "--out",
        str(out),
        "--checkpoint-iterations",
        "5",
    ]
    command = [*HOSTS, "run", "1", sys.executable, "-m", "distrank.cli", "submit", "--", *job]
    clock = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    killed = None
    while process.poll() is None and kill_at and killed is None:
        time.sleep(0.05)
        if (stage := stage_of(out)) == kill_at:
            time.sleep(delay)
            subprocess.run([*HOSTS, "kill", "3"], check=True)
            killed = time.perf_counter() - clock
            say(f"host 3 killed after {killed:.1f} s, at stage {stage}")
    told, _ = process.communicate()
    seconds = time.perf_counter() - clock
    if process.returncode:
        raise SystemExit(f"the job ended with exit code {process.returncode}:\n{told[-3000:]}")
    if kill_at and killed is None:
        raise SystemExit("the job was over before the host could be killed")
    facts = json.loads((out / "latest" / "run.json").read_text())
    return {"seconds": seconds, "killed": killed, **facts["execution"]["seconds"], "nodes": facts["execution"]["nodes"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("docs/results/hosts.md"))
    options = parser.parse_args()
    os.environ.setdefault("PYTHONPATH", str(ROOT))
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    lines, different = [], 0

    def say(text: str) -> None:
        print(text, flush=True)

    with tempfile.TemporaryDirectory(prefix="dr-data-") as name:
        folder = Path(name)
        make_crowd(folder / "in", options.rows, options.files)
        local = [sys.executable, "-m", "distrank.cli", "aggregate", str(folder / "in"), "--out", str(folder / "local")]
        clock = time.perf_counter()
        subprocess.run([*local, "--engine", "local", "--quiet"], check=True)
        seconds = time.perf_counter() - clock
        say(f"local: {seconds:.1f} s")
        expected = published(folder / "local")
        lines.append(f"| local engine, one process | {seconds:.1f} | | | | | |")
        subprocess.run([*HOSTS, "up", "3"], check=True)
        try:
            for label, stage, delay in (
                ("three hosts, undisturbed", "", 0.0),
                ("host killed while files are read", "read", 2.0),
                ("host killed during the fit", "fit", 0.2),
            ):
                out = folder / label.replace(" ", "-")
                found = run_job(folder / "in", out, stage, delay, say)
                same = published(out) == expected
                different += not same
                at = "" if found["killed"] is None else f"{found['killed']:.1f}"
                verdict = "identical" if same else "DIFFERENT"
                lines.append(
                    f"| {label} | {found['seconds']:.1f} | {at} | {found['read']:.1f} | {found['fit']:.1f} | "
                    f"{found['nodes']} | {verdict} |"
                )
                say(lines[-1])
                if stage:
                    subprocess.run([*HOSTS, "add", "3"], check=True)
                    _wait_for_hosts(3)
        finally:
            subprocess.run([*HOSTS, "down"], check=True)
    write_page(options, lines)
    return 1 if different else 0


def _wait_for_hosts(count: int) -> None:
    for _ in range(60):
        told = subprocess.run([*HOSTS, "status"], capture_output=True, text=True, check=False).stdout
        if told.startswith(f"{count} "):
            return
        time.sleep(2.0)
    raise SystemExit(f"the hosts did not come back: {told}")


def write_page(options: argparse.Namespace, lines: list[str]) -> None:
    page = f"""# Three hosts, one of them killed

Made with `python scripts/reproduce/hosts.py --rows {options.rows} --files {options.files}`, as root.

{options.rows:,} preferences in {options.files} Parquet files ({QUERIES:,} queries of {ITEMS} items, {ANNOTATORS:,}
annotators, text ids), crowd-bt. The hosts are network namespaces on one machine (`scripts/hosts.sh up 3`): a Ray head
and two workers with one CPU each and token authentication; killing one unplugs its network and ends all its processes
at once, as a power cut would.

The job is submitted with `distrank submit`; `seconds` is from submitting to its end: the start of the job and of the
workers is in it, and after a kill the time until Ray notices the loss. `read` and `fit` are the seconds of these
stages. Compared with the local engine are the bytes of rankings, annotators and queries, and run.json without its
execution block. The machine has 2 cores in all and was shared with other work: the hosts are slower than one process
here, and show that losses are survived, not that three hosts are faster.

| run | seconds | host killed after | read | fit | hosts at its end | bytes |
|---|---|---|---|---|---|---|
"""
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(page + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
