"""Run by a test in a process of its own: a fit on two nodes, one of which is killed and replaced on the way.

Prints the digest of the parameters. Arguments: folder of the shards' work files, and `calm` or `lose`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

os.environ.update(
    RAY_AUTH_MODE="token",
    RAY_AUTH_TOKEN=secrets.token_hex(32),
    RAY_USAGE_STATS_ENABLED="0",
    RAY_USAGE_STATS_REPORT_URL="http://127.0.0.1:9",
)
home = Path(tempfile.mkdtemp(prefix="dr-"))
(home / "ray_bootstrap_config.yaml").write_text("{}\n")
(home / "ray").mkdir()
os.environ.update(HOME=str(home), RAY_TMPDIR=str(home))

from ray.cluster_utils import Cluster  # after the environment is set

from distrank.engine.base import FileSource
from distrank.engine.ray.engine import RayEngine
from distrank.fit import fit
from distrank.models import make_model
from distrank.records import digest
from distrank.simulate import simulate_crowd_bt
from distrank.tables.read import judgments_from_frame
from distrank.tables.shards import build_shards

NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80_000_000}


def main(work: Path, lose: bool) -> None:
    crowd = {"queries": 40, "items": 12, "annotators": 30, "pairs": 40, "annotators_per_pair": 4}
    table = simulate_crowd_bt(**crowd, law="model", seed=5)["preferences"]
    sharded = build_shards(judgments_from_frame(table), form="preferences", rows_per_shard=1_000)
    head = {**NODE, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    node = cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    model, lost = make_model("crowd-bt", {}), []

    def report(entry: dict[str, Any]) -> None:
        if lose and entry.get("iteration") == 2 and not lost:
            lost.append(entry)
            cluster.remove_node(node, allow_graceful=False)
            cluster.add_node(**NODE)

    with RayEngine(cluster.address, workers=4, stall_seconds=60.0) as engine:
        assert engine.workers == 4
        source = FileSource.write(work, sharded.source)
        result = engine.execute(partial(fit, model=model, info=sharded.info), source, model, report)
    cluster.shutdown()
    shutil.rmtree(home, ignore_errors=True)
    assert bool(lost) == lose
    sys.stdout.write(f"digest {digest([result.theta])} {result.converged}\n")


main(Path(sys.argv[1]), sys.argv[2] == "lose")
