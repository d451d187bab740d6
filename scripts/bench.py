"""Speed beside peers and known limits, as ratios within one run.

    pip install '.[bench]'
    python scripts/bench.py                    everything, 1e6 and 1e7 preferences (several minutes)
    python scripts/bench.py fit --rows 1e6     one part: fit, kernel, queries, labels, read, online, tpp, ray
    python scripts/bench.py --out docs/results/speed.md

Machines are noisy: everything is repeated, medians are reported, peers run in the same process minutes apart at most.
Each part runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.labels import bench_labels
from benchmarks.on_ray import bench_ray
from benchmarks.online import bench_online
from benchmarks.pairwise import bench_fit, bench_kernel, bench_queries
from benchmarks.reading import bench_read
from benchmarks.remap import bench_remap
from benchmarks.tpp import bench_tpp


def in_a_process_of_its_own(part: str, rows: int) -> dict[str, Any]:
    command = [sys.executable, __file__, part, "--rows", str(rows), "--worker"]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, check=True, text=True, env={**os.environ, "RAY_DEDUP_LOGS": "0"}
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--rows", action="append", type=lambda text: int(float(text)), help="1e6 and 1e7 by default")
    parser.add_argument("--out", type=Path, help="write the figures to this file, as a page")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        found = PARTS[options.parts[0]](options.rows[0])
        found["peak memory, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(found))
        return
    everything = []
    for part in options.parts:
        for rows in options.rows or SIZES.get(part, [10_000_000]):
            found = in_a_process_of_its_own(part, rows)
            everything.append(
                (f"{part}, {found.pop('rows'):,} {'labels' if part in LABELLED else 'preferences'}", found)
            )
            print(f"\n{everything[-1][0]}")
            for name, value in found.items():
                print(f"  {name:<60} {shown(value)}")
    if options.out:
        options.out.write_text(report(everything))


def shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:,.3g}" if isinstance(value, float) and value < 100 else f"{value:,.0f}"


def report(everything: list[tuple[str, dict[str, Any]]]) -> str:
    """The figures as a page, with what they were measured on."""
    from distrank.identity import versions

    machine = f"{os.cpu_count()} cores ({platform.machine()})"
    libraries = ", ".join(f"{name} {version}" for name, version in versions().items())
    lines = [
        "# Speed",
        "",
        f"Made with `python scripts/bench.py {' '.join(sys.argv[1:])}` on {machine}: {libraries}.",
    ]
    lines += [
        "What each part measures is in the docstrings of the script. Medians of repeats; ratios are within one run.",
        "",
    ]
    for title, found in everything:
        lines += [f"## {title}", "", f"{PARTS[title.split(',')[0]].__doc__}", "", "| | |", "|---|---|"]
        lines += [f"| {name} | {shown(value)} |" for name, value in found.items()] + [""]
    return "\n".join(lines)


LABELLED = ("labels", "remap")
SIZES = {"fit": [1_000_000, 10_000_000], "labels": [1_000_000, 10_000_000], "remap": [396_000], "tpp": [2_000_000]}
PARTS = {
    "kernel": bench_kernel,
    "fit": bench_fit,
    "queries": bench_queries,
    "labels": bench_labels,
    "remap": bench_remap,
    "read": bench_read,
    "online": bench_online,
    "tpp": bench_tpp,
    "ray": bench_ray,
}


if __name__ == "__main__":
    main()
