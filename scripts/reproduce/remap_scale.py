"""The remapping paper's data in size, end to end: seconds per stage and memory, local and on Ray, and the same bytes.

    python scripts/reproduce/remap_scale.py --out docs/results/remap_scale.md      several minutes on two cores

132,000 items with 3 binary labels in 7,200 queries, 1,720 annotators, 1,900 honeypots; a target of 90,000 items in
6,600 queries with 5 grades; 300 features, 300 trees, `both`, up to 50 steps. [Ustinovskiy16] section 3, Table 2.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

TABLES = ("rankings.parquet", "annotators.parquet", "label_features.parquet", "model/parameters.npz")


def family_bytes(root: int) -> int:
    """Resident bytes of a process and all that it started, shared pages counted once each time they are mapped."""
    parents: dict[int, int] = {}
    pages: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                parents[int(entry.name)] = int(fields[1])
                statm = (entry / "statm").read_text().split()
                pages[int(entry.name)] = int(statm[1]) - int(statm[2])  # resident without shared
            except (OSError, IndexError):
                continue
    family = {root}
    while True:
        more = {pid for pid, parent in parents.items() if parent in family} - family
        if not more:
            return sum(pages.get(pid, 0) for pid in family) * os.sysconf("SC_PAGE_SIZE")
        family |= more


def run(engine: str, data: Path, out: Path, settings: list[str]) -> dict[str, Any]:
    """One run of the command; its facts, wall seconds and the largest memory of its processes together."""
    files = {"features": "features.parquet", "target": "gold.csv", "gold": "honeypots.parquet"}
    given = [part for name, file in files.items() for part in (f"--{name}", str(data / file))]
    command = [sys.executable, "-m", "distrank.cli", "remap", str(data / "ratings.parquet"), *given]
    command += ["--out", str(out), "--engine", engine, "--json", "--quiet", *settings]
    begin, peak = time.perf_counter(), 0
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    output: list[str] = []
    reader = threading.Thread(target=lambda: output.append(process.stdout.read() if process.stdout else ""))
    reader.start()
    while process.poll() is None:
        peak = max(peak, family_bytes(process.pid))
        time.sleep(0.5)
    reader.join()
    if process.returncode not in (0, 3):
        raise SystemExit(f"{engine}: exit code {process.returncode}")
    facts = json.loads(output[0])
    manifest = json.loads((out / "latest" / "manifest.json").read_text())["files"]
    return {
        "facts": facts,
        "seconds": time.perf_counter() - begin,
        "peak": peak,
        "sha": {name: manifest[name]["sha256"] for name in TABLES},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the page there (default: print it)")
    parser.add_argument("--set", action="append", default=["step_size=0.3"], metavar="NAME=VALUE", help="a setting")
    parser.add_argument("--engines", nargs="+", default=["local", "ray"])
    parser.add_argument("--smaller", type=int, metavar="N", help="a trial: N queries of source and target, 20 features")
    options = parser.parse_args()
    settings = [part for pair in options.set for part in ("--set", pair)]
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        simulate = [sys.executable, "-m", "distrank.cli", "simulate", "remap", "--preset", "yd", "--out", str(data)]
        if options.smaller:
            for name in ("queries", "target-queries"):
                simulate += [f"--{name}", str(options.smaller)]
            simulate += ["--features", "20"]
        subprocess.run([*simulate, "--quiet"], check=True)
        runs = {engine: run(engine, data, Path(folder) / engine, settings) for engine in options.engines}
    command = " ".join(["python scripts/reproduce/remap_scale.py", *sys.argv[1:]])
    first = next(iter(runs.values()))
    counts, found = first["facts"]["input"], first["facts"]["convergence"]
    lines = ["# Remapping at the paper's size, end to end", "", f"Made with `{command}` on {os.cpu_count()} cores.", ""]
    labels = f"{counts['judgments']:,} labels of {counts['annotators']:,} annotators on {counts['items']:,} items"
    chosen = f"ridge {found['ridge']:g} and {found['trees']} trees, chosen on validation queries"
    steps = f"{found['iterations']} steps, the best of them step {found['step']}"
    gain = f"{found['validation_dcg_at_start']:.4f} to {found['validation_dcg']:.4f}"
    lines += [
        f"{labels} in {counts['queries']:,} queries; {chosen}; {steps}: DCG@10 {gain}.",
        "",
        "| seconds | " + " | ".join(runs) + " |",
        "|---|" + "---|" * len(runs),
    ]
    for stage in first["facts"]["execution"]["seconds"]:
        cells = [f"{one['facts']['execution']['seconds'][stage]:.1f}" for one in runs.values()]
        lines.append(f"| {stage} | " + " | ".join(cells) + " |")
    lines.append("| all, with start-up | " + " | ".join(f"{one['seconds']:.1f}" for one in runs.values()) + " |")
    memory = [f"{one['peak'] / 1e9:.1f}" for one in runs.values()]
    lines += ["| memory of all processes, GB | " + " | ".join(memory) + " |", ""]
    same = all(one["sha"] == first["sha"] for one in runs.values())
    lines += [f"The same bytes of {', '.join(TABLES)}: {'yes' if same else 'NO'}.", ""]
    page = "\n".join(lines)
    if options.out:
        options.out.write_text(page)
    else:
        print(page)


if __name__ == "__main__":
    main()
