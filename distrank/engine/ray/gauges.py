"""Gauges for Prometheus, on the metrics port that every Ray node has: `ray_distrank_<name>`, tagged with the method."""

from __future__ import annotations

import time
from typing import Any

from ray.util.metrics import Gauge

GAUGES = {
    "iteration": "iterations that the fit has made",
    "objective": "objective after the last iteration",
    "judgments_per_second": "rows that steps went over per second, since the fit began",
    "shard_skew": "rows of the largest range of shards over the mean of all ranges",
    "restarts": "how often the process with the parameters was lost and started again",
}


class Gauges:
    """The gauges of one fit."""

    def __init__(self, method: str) -> None:
        self.gauges = {
            name: Gauge(f"distrank_{name}", description=text, tag_keys=("method",)) for name, text in GAUGES.items()
        }
        self.tags = {"method": method}
        self.begun = time.monotonic()

    def placed(self, ranges: list[int], attempt: int) -> None:
        """After the shards were placed, in ranges of these many rows."""
        self.begun = time.monotonic()
        mean = sum(ranges) / max(len(ranges), 1)
        self._set("shard_skew", max(ranges, default=0) / mean if mean else 1.0)
        self._set("restarts", attempt)

    def progress(self, entry: dict[str, Any], rows: int) -> None:
        """After a piece of progress, `rows` having been gone over until now."""
        for name in ("iteration", "objective"):
            if name in entry:
                self._set(name, float(entry[name]))
        self._set("judgments_per_second", rows / max(time.monotonic() - self.begun, 1e-9))

    def _set(self, name: str, value: float) -> None:
        self.gauges[name].set(value, tags=self.tags)
