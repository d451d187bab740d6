"""Models that kill the process they run in, once: what a lost worker, or a lost parameter actor, looks like."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np

from distrank.contract import Info, Run
from distrank.models.crowd_bt import CrowdBT
from distrank.records import Array, Record


class KillOnce:
    """A step that kills its own process the first time it runs, and adds nothing afterwards."""

    __name__ = "kill_once"

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __call__(self, shard: Record, local: Record, theta: Record, key: Array) -> tuple[None, Record]:
        kill_once(self.mark)
        return None, {"nothing": np.zeros(1)}


def kill_once(mark: Path) -> None:
    """SIGKILL, unless the mark says that it happened before."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


class LosesAWorker(CrowdBT):
    """Loses the worker that runs the first step of its second iteration."""

    mark: Path

    def iterate(self, run: Run, theta: Record) -> Record:
        if int(theta["seen"]) == 1:
            run(KillOnce(self.mark), theta)
        return {**super().iterate(run, theta), "seen": theta["seen"] + 1}

    def begin(self, run: Run, info: Info) -> Record:
        return {**super().begin(run, info), "seen": np.asarray(0)}


class LosesTheActor(LosesAWorker):
    """Loses the process that holds the parameters in its third iteration."""

    def iterate(self, run: Run, theta: Record) -> Record:
        if int(theta["seen"]) == 2:
            kill_once(self.mark)
        return {**CrowdBT.iterate(self, run, theta), "seen": theta["seen"] + 1}
