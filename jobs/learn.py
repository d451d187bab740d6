"""The learn job: what `distrank learn` does, as the entry point of a Ray job.

    ray job submit --working-dir . -- python jobs/learn.py /shared/rankings --features /shared/docs --out /shared/out

Inside a job the engine is Ray by itself; run alone, `python jobs/learn.py ...` uses the local engine.
"""

from __future__ import annotations

import sys

from distrank.cli import main

if __name__ == "__main__":
    sys.exit(main(["learn", *sys.argv[1:]]))
