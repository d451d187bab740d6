"""The update job: what `distrank update` does, as the entry point of a Ray job.

ray job submit --working-dir . -- python jobs/update.py /shared/out /shared/new --engine ray
"""

from __future__ import annotations

import sys

from distrank.cli import main

if __name__ == "__main__":
    sys.exit(main(["update", *sys.argv[1:]]))
