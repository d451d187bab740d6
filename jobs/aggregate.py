"""The aggregate job: what `distrank aggregate` does, as the entry point of a Ray job.

    ray job submit --working-dir . -- python jobs/aggregate.py /shared/judgments --out /shared/out

Inside a job the engine is Ray by itself; run alone, `python jobs/aggregate.py ...` uses the local engine.
"""

from __future__ import annotations

import sys

from distrank.cli import main

if __name__ == "__main__":
    sys.exit(main(["aggregate", *sys.argv[1:]]))
