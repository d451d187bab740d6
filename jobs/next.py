"""The job that chooses the next questions: what `distrank next` does, as an entry point for schedulers.

    ray job submit --working-dir . -- python jobs/next.py /shared/out --budget 500 --out /shared/tasks.parquet

Choosing is one process: a batch is chosen question by question, each on top of those before it.
"""

from __future__ import annotations

import sys

from distrank.cli import main

if __name__ == "__main__":
    sys.exit(main(["next", *sys.argv[1:]]))
