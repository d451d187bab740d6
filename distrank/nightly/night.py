"""One night, from the lock to the published run, or to the record of its failure.

    lock -> which partitions changed? -> read -> fit from the last result -> compare, gates -> publish -> retention

A night without changes ends before anything is read or started. A night that fails, at whatever point, leaves `latest`
as it was, writes the run.json of its failure and tells the command in the config.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq

from distrank.changes import Changes, Tables, compare_runs
from distrank.engine.base import Report
from distrank.engine.choose import open_engine
from distrank.errors import DistrankError, StoreError, UsageError
from distrank.identity import arithmetic_versions, code_digest
from distrank.nightly.config import NightlyConfig
from distrank.nightly.failures import record_failure, tell
from distrank.nightly.gates import check_gates, gold_agreement
from distrank.nightly.partitions import PartitionChanges, fingerprints, partition_changes
from distrank.runs import (
    ANNOTATORS,
    RANKINGS,
    Published,
    Request,
    Stages,
    carry_out,
    prepare,
    split_settings,
)
from distrank.settings import settings_dict
from distrank.store.owners import host
from distrank.store.progress import progress_file
from distrank.store.publish import OutputFolder, PublishedRun
from distrank.store.retention import prune
from distrank.tables.gold import read_gold

DAY = 24 * 3600.0
LOCK = ".nightly.lock"


@dataclass(frozen=True)
class Night:
    """What came of a night."""

    outcome: Literal["published", "unchanged"]
    published: Published | None  # the new run; of a night without changes the one that stays the latest
    partitions: PartitionChanges
    changes: Changes | None = None
    removed: tuple[str, ...] = ()  # what retention removed

    @property
    def exit_code(self) -> int:
        """3 for a published run that did not converge."""
        return 0 if self.outcome == "unchanged" or self.published is None or self.published.converged else 3


def nightly(config: NightlyConfig, report: Report) -> Night:
    """Carry out one night."""
    begun = datetime.now(UTC)
    output = OutputFolder(config.out)
    with _lock(output.root), progress_file(output.root, report, {"night": config.name}) as progress:
        stages = Stages(progress)
        try:
            return _night(config, output, stages, begun)
        except Exception as error:
            latest = output.latest()
            record = record_failure(
                output.root,
                {
                    "night": config.name,
                    "stage": stages.current,
                    "error": {"kind": type(error).__name__, "text": str(error)},
                    "exit_code": 2 if isinstance(error, UsageError) else 1,
                    "latest": latest.run_id if latest is not None else None,
                    "method": config.method,
                    "started": begun.isoformat(timespec="seconds"),
                    "finished": datetime.now(UTC).isoformat(timespec="microseconds"),
                    "seconds": stages.seconds,
                },
            )
            tell(config.on_failure, record, progress)
            if isinstance(error, DistrankError):
                error.add_note(f"recorded in {record}")
            raise


def _night(config: NightlyConfig, output: OutputFolder, stages: Stages, begun: datetime) -> Night:
    latest = output.latest()
    with stages("partitions"):
        files = fingerprints(config.source)
        last = latest.facts() if latest is not None else None
        partitions = partition_changes(last["execution"]["files"] if last is not None else [], files)
        stages.report({"stage": "partitions", "files": partitions.text()})
    if latest is not None and last is not None and not partitions and _settled(config, last):
        return Night("unchanged", Published(latest, last, reused=True), partitions)
    request = _request(config, latest, last)
    found: list[Changes] = []

    def inspect(folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
        """Look at the result where it was written, before it becomes the latest."""
        changes = None
        if latest is not None:
            changes = compare_runs(_tables(latest.path(RANKINGS), latest.path(ANNOTATORS)), _staged(folder))
            found.append(changes)
        agreement = gold_agreement(facts, folder / RANKINGS, config.gold)
        check_gates(config.gates, facts, agreement, changes)
        night = {"name": config.name, "columns": dict(config.columns), "partitions": partitions.facts()}
        since = {"run": latest.run_id, **changes.figures()} if latest is not None and changes is not None else None
        return {"night": {**night, "gold_agreement": agreement, "since": since}}

    choice = config.engine
    with (
        open_engine(
            choice.name, address=choice.address, workers=choice.workers, stall_seconds=choice.stall_seconds
        ) as engine,
        prepare(request, output, engine, stages) as task,
    ):
        if latest is not None and last is not None and _same_result(task.identity, last):
            return Night("unchanged", Published(latest, last, reused=True), partitions)
        published = carry_out(task, output, engine, stages, begun, inspect=inspect)
    with stages("retention"):
        keep = config.keep
        removed = prune(output, runs=keep.runs, failures=keep.failures, checkpoint_seconds=keep.checkpoint_days * DAY)
    return Night("published", published, partitions, found[0] if found else None, tuple(removed))


def _request(config: NightlyConfig, latest: PublishedRun | None, last: Mapping[str, Any] | None) -> Request:
    """The night as a run: from the last result, where the method can start there."""
    settings = dict(config.settings)
    model, _ = split_settings(config.method, settings)
    can_start = bool(model.start_words) and "start" not in settings
    if config.warm_start and can_start and latest is not None and last is not None and last["method"] == config.method:
        settings["start"] = str(latest.folder)
    return Request(
        source=config.source,
        out=config.out,
        method=config.method,
        settings=settings,
        seed=config.seed,
        columns=config.columns,
        gold=config.gold,
        max_rejected=config.gates.max_rejected,
        resume=True,
        refuse_stale=False,
        csv=config.csv,
    )


def _settled(config: NightlyConfig, last: Mapping[str, Any]) -> bool:
    """Whether the last run is what the config asks for, given that no partition changed."""
    model, input_settings = split_settings(config.method, config.settings)
    gold = read_gold(config.gold).content if config.gold is not None else None
    asked = {
        "method": model.name,
        "settings": {**settings_dict(input_settings), **settings_dict(model.settings)},
        "seed": config.seed,
        "gold": gold,
    }
    same_columns = last.get("night", {}).get("columns") == dict(config.columns)
    return same_columns and _same_demand(asked, last)


def _same_result(identity: Mapping[str, Any], last: Mapping[str, Any]) -> bool:
    """Whether a run would find what the last one found: the same judgments, whatever files they are in."""
    same_order = identity.get("order") == last["input"].get("order")
    return same_order and identity["content"] == last["input"]["content"] and _same_demand(identity, last)


def _same_demand(asked: Mapping[str, Any], last: Mapping[str, Any]) -> bool:
    """Everything that a result depends on but the judgments; where a fit started is not part of it."""
    return (
        asked["method"] == last["method"]
        and _without_start(asked["settings"]) == _without_start(last["settings"])
        and asked["seed"] == last["seed"]
        and asked["gold"] == last["input"]["gold"]
        and code_digest() == last["code"]
        and arithmetic_versions().items() <= last["versions"].items()
    )


def _without_start(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != "start"}


def _staged(folder: Path) -> Tables:
    return _tables(folder / RANKINGS, folder / ANNOTATORS)


def _tables(rankings: Path, annotators: Path) -> Tables:
    return Tables(
        pq.read_table(rankings, columns=["query", "item", "rank", "score"]),
        pq.read_table(annotators, columns=["annotator", "judgments", "quality", "kind"]),
    )


@contextmanager
def _lock(root: Path) -> Iterator[None]:
    """One night at a time on this folder."""
    with (root / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise StoreError(
                f"another night is at work in {root} ({file.read().strip() or 'who it is was not said'}); "
                "this one did nothing"
            ) from None
        file.seek(0)
        file.truncate()
        started = datetime.now(UTC).isoformat(timespec="seconds")
        file.write(json.dumps({"host": host(), "pid": os.getpid(), "started": started}))
        file.flush()
        yield
