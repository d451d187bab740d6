"""The parts of `scripts/bench.py`, a file for each kind of work."""
