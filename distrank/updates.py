"""A run that goes on from an earlier one with new judgments, and without the old ones.

Methods that read judgments in time order save their state with the run (`store.learned`). An update reads it, reads the
new judgments, takes them as later than all before, and publishes a new run that names its parent. What it costs grows
with the new judgments and with the size of the state, not with the judgments that went into it.

Rankings and annotators' beliefs of a run over A that is updated with B are, byte for byte, those of one run over A
followed by B. So are all counts. Agreement is not: every judgment is compared with the order at the end of the run
that read it, because later the old judgments are gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from distrank.contract import Model
from distrank.engine.base import Engine, Report
from distrank.errors import StoreError, UsageError
from distrank.identity import code_digest
from distrank.records import Array
from distrank.runs import (
    CHECKPOINT_SECONDS,
    MAX_REJECTED,
    Published,
    Request,
    Stages,
    Task,
    carry_out,
    identity_of,
    split_settings,
)
from distrank.store.learned import SavedModel
from distrank.store.publish import RUN_FILE, OutputFolder, PublishedRun, resolve_run
from distrank.tables.continuation import KEPT, Past, past_warnings
from distrank.tables.read import read_judgments


@dataclass(frozen=True)
class UpdateRequest:
    """What a user asks for: settings and seed are those of the run that goes on."""

    run: str  # RUN, as `store.publish.resolve_run` takes it
    source: str  # the new judgments
    out: Path | None = None  # None: the output folder in which the run lies
    columns: Mapping[str, str] = field(default_factory=dict)
    max_rejected: float = MAX_REJECTED
    resume: bool = False
    csv: bool = False
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    checkpoint_iterations: int = 0


@dataclass(frozen=True)
class Parent:
    """The run that goes on: its facts and what it saved."""

    run: PublishedRun
    facts: dict[str, Any]
    saved: SavedModel

    @staticmethod
    def open(text: str) -> Parent:
        """RUN as users give it; a run that cannot go on is an error that says why."""
        run = resolve_run(text)
        run.verify(RUN_FILE)
        facts = run.facts()
        model, _ = split_settings(facts["method"], facts["settings"])
        check_ordered(model)
        saved = SavedModel.open(run)
        for name in ("method", "settings"):
            if saved.facts[name] != facts[name]:
                raise StoreError(
                    f"the saved state of run {run.run_id} has {name} {saved.facts[name]!r}, but the run has "
                    f"{facts[name]!r}: the state belongs to another run and was not used"
                )
        return Parent(run, facts, saved)

    def past(self) -> Past:
        """What the run left of the judgments that it had read."""
        units = self.saved.units()
        if len(units) != 1:
            raise StoreError(f"run {self.run.run_id} saved {len(units)} shards where there is one; it is damaged")
        annotators = self.saved.annotators()
        past = Past(
            queries=units[0].queries,
            items=units[0].items,
            annotators=annotators["annotator"].combine_chunks(),
            units=units[0].record,
            parameters=self.saved.parameters(),
            annotator_judgments=annotators["judgments"].to_numpy(),
            judgments=int(self.saved.facts["judgments"]),
            last_timestamp=self.saved.facts["last_timestamp"],
        )
        _check_sizes(self.run, past)
        return past


def update(request: UpdateRequest, engine: Engine, report: Report) -> Published:
    """Continue a run and publish the result; the same update again publishes nothing new."""
    started = datetime.now(UTC)
    stages = Stages(report)
    with stages("state"):
        parent = Parent.open(request.run)
        output = OutputFolder(request.out or _home(parent.run))
    facts = parent.facts
    model, input_settings = split_settings(facts["method"], facts["settings"])
    with stages("read"):
        judgments = read_judgments(
            request.source, columns=dict(request.columns), duplicates=input_settings.duplicates, report=report
        )
        judgments.check_limit(request.max_rejected)
    with stages("identify"):
        identity = {**identity_of(judgments, None, model, input_settings, facts["seed"]), "parent": parent.run.run_id}
    if _read_before(parent, identity):
        if output.find(parent.run.run_id) is not None:
            output.point_to(parent.run)
        return Published(parent.run, facts, reused=True)
    with stages("beliefs"):
        past = parent.past()
    warnings = [*_warnings(facts), *past_warnings(past, judgments, input_settings.duplicates)]
    judgments = replace(judgments, warnings=warnings)  # what is said of few annotators or items is not so of all
    shared = {name: getattr(request, name) for name in ("source", "columns", "max_rejected", "resume", "csv")}
    intervals = {name: getattr(request, name) for name in ("checkpoint_seconds", "checkpoint_iterations")}
    whole = Request(
        out=output.root, method=model.name, settings=facts["settings"], seed=facts["seed"], **shared, **intervals
    )
    lineage = tuple(parent.saved.facts["lineage"])
    return carry_out(Task(whole, judgments, None, model, identity, past, lineage), output, engine, stages, started)


def check_ordered(model: Model) -> None:
    """Refuse methods whose runs cannot go on."""
    if not model.traits.ordered:
        raise UsageError(
            f"{model.name} looks at all judgments together, so its runs cannot be continued with new ones alone: "
            "aggregate old and new judgments again, or use a method that reads them in time order (crowd-bt-online)"
        )


def _read_before(parent: Parent, identity: Mapping[str, Any]) -> bool:
    """Whether the run is this very update already; judgments that went into it earlier are refused."""
    *earlier, last = parent.saved.facts["lineage"]
    same = [entry for entry in (*earlier, last) if all(entry[name] == identity[name] for name in ("content", "order"))]
    if not same:
        return False
    if same[-1] is last and earlier:
        return True
    raise UsageError(
        f"run {parent.run.run_id} has read these judgments before (in run {same[-1]['run']}); no judgment is read "
        "twice: give the new ones only"
    )


def _warnings(facts: Mapping[str, Any]) -> list[str]:
    if facts["code"] == code_digest():
        return []
    other = (
        f"run {facts['run']} was made by another version of the code; its beliefs were taken as they are, but one run "
        "of this version over all judgments may give other numbers"
    )
    return [other]


def _home(run: PublishedRun) -> Path:
    """The output folder in which a run lies."""
    if run.folder.parent.name != "runs":
        raise UsageError(f"{run.folder} does not lie in an output folder: say with --out where the new run should go")
    return run.folder.parent.parent


def _check_sizes(run: PublishedRun, past: Past) -> None:
    """Arrays and ids must speak of the same things: numbers from a file are never trusted to stay inside an array."""
    arrays = {**past.parameters, **past.units, "annotator.judgments": past.annotator_judgments}
    nodes, queries, people = len(past.items), len(past.queries), len(past.annotators)
    sizes = {"item": nodes, "node.component": nodes, "unit.judgments": queries, "unit.agreed": queries}
    sizes |= {"annotator": people, "annotator.agreed": people, "annotator.judgments": people}
    sizes |= {"unit.nodes": queries + 1}
    limits = {"node.component": nodes, "pair.unit": queries, "pair.annotator": people}
    fits = (
        arrays.keys() >= {*KEPT, *sizes, "updates", "weights.cut"}
        and all(len(arrays[name]) == size for name, size in sizes.items())
        and all(_below(arrays[name], limit) for name, limit in limits.items())
        and np.array_equal(arrays["unit.nodes"][[0, -1]], [0, nodes])
        and bool((np.diff(arrays["unit.nodes"]) >= 0).all())
    )
    if not fits:
        raise StoreError(f"the saved state of run {run.run_id} contradicts itself; the run is damaged")


def _below(codes: Array, count: int) -> bool:
    return len(codes) == 0 or bool(0 <= codes.min() <= codes.max() < count)
