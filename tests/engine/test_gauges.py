"""Progress reaches Prometheus: the metrics port of a node tells of the last fit."""

from __future__ import annotations

import time
import urllib.request
from pathlib import Path

import pytest

from distrank.engine.base import Engine
from distrank.runs import Request, aggregate
from distrank.simulate import simulate_crowd_bt


@pytest.mark.ray
def test_gauges_are_on_the_metrics_port(ray_engine: Engine, tmp_path: Path) -> None:
    import ray

    from distrank.engine.ray.gauges import GAUGES

    crowd = simulate_crowd_bt(queries=20, items=8, annotators=12, pairs=20, annotators_per_pair=4, law="model", seed=1)
    run = aggregate(Request(str(crowd.write(tmp_path)["preferences"]), tmp_path / "out"), ray_engine, lambda _: None)
    (node,) = [node for node in ray.nodes() if node["Alive"]]
    address = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    deadline, wanted = time.monotonic() + 60.0, {f"ray_distrank_{name}" for name in GAUGES}
    lines: dict[str, float] = {}
    while wanted - lines.keys():
        assert time.monotonic() < deadline, f"missing: {wanted - lines.keys()}"
        with urllib.request.urlopen(address, timeout=10.0) as answer:
            text = answer.read().decode()
        found = [line for line in text.splitlines() if line.startswith("ray_distrank_") and 'method="crowd-bt"' in line]
        lines = {line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in found}
        time.sleep(1.0)
    assert lines["ray_distrank_shard_skew"] >= 1.0
    assert lines["ray_distrank_iteration"] == run.facts["convergence"]["iterations"]
    assert lines["ray_distrank_objective"] == pytest.approx(run.facts["convergence"]["trace"][-1]["objective"])
    assert lines["ray_distrank_judgments_per_second"] > 0.0
