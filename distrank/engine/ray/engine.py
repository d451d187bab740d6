"""The parameter actor and its driver.

The loop runs inside the actor, next to the global parameters, and the driver only asks for progress. The actor takes
no CPU: a coordinator that holds a fraction of the only CPU would leave its own tasks pending for ever. If the actor
itself is lost, the driver starts it again, and the loop goes on from the newest checkpoint of the same run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from distrank.contract import Model
from distrank.engine.base import A, Engine, Placement, Report, Source, T
from distrank.engine.ray.environment import joined_cluster, own_cluster, set_environment
from distrank.engine.threads import one_numerical_thread_for_good
from distrank.errors import DistrankError, EngineError

set_environment()

import ray  # noqa: E402 (after the environment is set)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: E402

from distrank.engine.ray.gauges import Gauges  # noqa: E402
from distrank.engine.ray.placement import RayPlacement  # noqa: E402
from distrank.engine.ray.tasks import call, unseen  # noqa: E402
from distrank.engine.ray.waiting import collected  # noqa: E402

ATTEMPTS = 3  # of the parameter actor
PROGRESS_SECONDS = 0.2


class RayEngine(Engine):
    """A Ray cluster: the one at `address`, the one this job runs on ("auto"), or one of our own ("local")."""

    name = "ray"
    shares_memory = False

    def __init__(
        self,
        address: str = "local",
        workers: int | None = None,
        stall_seconds: float = 60.0,
        object_store_bytes: int | None = None,
    ) -> None:
        self.stack, self.stall_seconds = ExitStack(), stall_seconds
        self.actor: Any = None  # kept for further fits: its kernels are loaded
        self.fits = 0
        clock = time.perf_counter()
        try:
            if address == "local":
                self.cluster = self.stack.enter_context(own_cluster(workers or os.cpu_count() or 1, object_store_bytes))
            else:
                self.cluster = self.stack.enter_context(joined_cluster(None if address == "auto" else address))
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise EngineError(f"cannot use the Ray cluster at {address!r}: {error}") from error
        self.workers = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.startup_seconds = time.perf_counter() - clock

    def execute(self, main: Callable[[Placement, Report], T], source: Source, model: Model, report: Report) -> T:
        for attempt in range(ATTEMPTS):
            if self.actor is None:
                self.actor = _ParameterActor.remote()  # type: ignore[attr-defined]
            try:
                return self._follow(self.actor, main, source, model, report, attempt)
            except (ray.exceptions.RayActorError, ray.exceptions.OwnerDiedError):  # dead, or not to be reached
                report({"stage": "engine", "lost": "the parameter actor", "attempt": attempt + 1})
                self._drop_actor()
            except BaseException:
                self._drop_actor()  # it may still be at work
                raise
        raise EngineError(f"the parameter actor was lost {ATTEMPTS} times; --resume goes on from the last checkpoint")

    def each(self, function: Callable[[A], Any], items: Sequence[A], what: str) -> list[Any]:
        shared = ray.put(function)  # may hold ids of all annotators; one copy per node
        return collected([call.remote(shared, item) for item in items], what, self.stall_seconds)

    def check_sees(self, paths: Sequence[Path]) -> None:
        names = [str(path.absolute()) for path in paths]
        nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        asked = [
            unseen.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(names)
            for node in nodes
        ]
        for node, answer in zip(nodes, asked, strict=True):
            try:
                found = ray.get(answer, timeout=self.stall_seconds)
            except ray.exceptions.RayError:
                continue  # the node is gone or hangs; whoever gets its work is asked here, too
            if found:
                raise EngineError(
                    f"node {node['NodeManagerAddress']} cannot see {', '.join(found)}: on several nodes input and "
                    "output must be on storage that all of them share, under the same path"
                )

    def close(self) -> None:
        self._drop_actor()
        self.stack.close()

    def _drop_actor(self) -> None:
        if self.actor is not None:
            ray.kill(self.actor)
            self.actor = None

    def _follow(
        self,
        actor: Any,
        main: Callable[[Placement, Report], T],
        source: Source,
        model: Model,
        report: Report,
        attempt: int,
    ) -> T:
        """Run main in the actor and pass its progress on, until it ends."""
        self.fits += 1
        result = actor.run.remote(self.fits, main, source, model, self.workers, self.stall_seconds, attempt)
        seen, ended = 0, False
        while not ended:
            ended = bool(ray.wait([result], timeout=PROGRESS_SECONDS)[0])
            seen += self._pass_on(actor, seen, report)
        try:
            value: T = ray.get(result)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, DistrankError):
                raise error.cause from None
            raise
        return value

    def _pass_on(self, actor: Any, seen: int, report: Report) -> int:
        """Report what is new, and say how much that was."""
        try:
            news = ray.get(actor.progress.remote(self.fits, seen), timeout=30.0)
        except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
            return 0  # the loop's own result says what happened
        for entry in news:
            report(entry)
        return len(news)


@ray.remote(num_cpus=0, max_concurrency=2, max_restarts=0)
class _ParameterActor:
    """Holds the global parameters by running the loop; answers who asks for progress meanwhile."""

    def __init__(self) -> None:
        self.fit, self.entries = 0, list[dict[str, Any]]()

    def run(
        self,
        fit: int,
        main: Callable[[Placement, Report], Any],
        source: Source,
        model: Model,
        workers: int,
        stall_seconds: float,
        attempt: int,
    ) -> Any:
        one_numerical_thread_for_good()
        self.fit, self.entries = fit, []
        clock = time.perf_counter()
        placement = RayPlacement(source, model, workers, stall_seconds, attempt)
        self.entries.append({"stage": "placed", "seconds": time.perf_counter() - clock})
        gauges = Gauges(model.name)
        gauges.placed(placement.range_rows, attempt)

        def report(entry: dict[str, Any]) -> None:
            self.entries.append(entry)
            gauges.progress(entry, placement.rows_seen)

        return main(placement, report)

    def progress(self, fit: int, since: int) -> list[dict[str, Any]]:
        return self.entries[since:] if fit == self.fit else []
