"""The nightly job: what `distrank nightly` does, as the entry point of a Ray job.

    distrank submit --night nightly.yaml
    ray job submit --working-dir . -- python jobs/nightly.py /shared/nightly.yaml

Inside a job the engine is Ray by itself; run alone, `python jobs/nightly.py ...` uses the local engine.
"""

from __future__ import annotations

import sys

from distrank.cli import main

if __name__ == "__main__":
    sys.exit(main(["nightly", *sys.argv[1:]]))
