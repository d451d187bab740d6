"""The remap job: what `distrank remap` does, as the entry point of a Ray job.

    ray job submit --working-dir . -- python jobs/remap.py /shared/ratings --features /shared/docs.parquet \\
        --target /shared/gold.parquet --out /shared/out

Inside a job the engine is Ray by itself; run alone, `python jobs/remap.py ...` uses the local engine. Trees are grown
on one node, by the process that leads the run.
"""

from __future__ import annotations

import sys

from distrank.cli import main

if __name__ == "__main__":
    sys.exit(main(["remap", *sys.argv[1:]]))
