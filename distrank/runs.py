"""One run, from input to published folder.

    read -> validate -> encode -> shard -> fit -> finalize -> publish

`fit_judgments` is the part that every front door shares; `carry_out` puts a store around it; `aggregate` is the whole.
"""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from distrank.contract import PARTS, UNITS, Info, Model
from distrank.engine.base import Engine, FileSource, Placement, Report
from distrank.errors import StoreError, UsageError
from distrank.fit import CheckpointStore, Fit, fit
from distrank.identity import arithmetic_versions, code_digest, machine, short_hash, versions
from distrank.models import make_model
from distrank.records import Record
from distrank.settings import parse_settings, setting, settings_dict
from distrank.store.checkpoints import CheckpointFolder
from distrank.store.files import write_json
from distrank.store.learned import FOLDER as MODEL_FOLDER
from distrank.store.learned import LearnedUnits, write_learned
from distrank.store.progress import progress_file
from distrank.store.publish import RUN_FILE, OutputFolder, PublishedRun, resolve_run
from distrank.tables.continuation import Past, continued, last_timestamp
from distrank.tables.evidence import collect_evidence
from distrank.tables.export import write_csv
from distrank.tables.gold import AnyGold, read_gold
from distrank.tables.items import merged_items
from distrank.tables.judgments import Judgments
from distrank.tables.outputs import IdTypes, annotators_table, shard_tables, write_table
from distrank.tables.read import read_judgments
from distrank.tables.sequence import order_fingerprint
from distrank.tables.shards import Sharded, build_shards
from distrank.tables.sources import Location, source_name
from distrank.tables.starts import Earlier, started

RUN_SCHEMA = 1
MAX_REJECTED = 0.05
CHECKPOINT_SECONDS = 60.0
RANKINGS, ANNOTATORS = "rankings.parquet", "annotators.parquet"


# Looks at a result that is about to be published (its folder, its facts): more facts, or an error that stops it.
Inspect: TypeAlias = Callable[[Path, dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class InputSettings:
    """Settings of every method that act before the model sees the data."""

    duplicates: Literal["keep", "drop"] = setting(
        "keep", "exact duplicates of a row: keep them or drop them", choices=("keep", "drop")
    )


@dataclass(frozen=True)
class Request:
    """What a user asks for."""

    source: Location | Sequence[Location]
    out: Path
    method: str = "crowd-bt"
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    columns: Mapping[str, str] = field(default_factory=dict)
    gold: str | None = None
    max_rejected: float = MAX_REJECTED
    resume: bool = False
    refuse_stale: bool = True  # to resume where there are checkpoints of something else only is an error
    csv: bool = False
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    checkpoint_iterations: int = 0


@dataclass(frozen=True)
class Published:
    """A run that lies in its folder; `reused` if the same request had been published before."""

    run: PublishedRun
    facts: dict[str, Any]
    reused: bool = False

    @property
    def converged(self) -> bool:
        return bool(self.facts["convergence"]["converged"])


@dataclass(frozen=True)
class Task:
    """A run that is settled: what is fitted, on what, and all that its result depends on."""

    request: Request
    judgments: Judgments
    gold: AnyGold | None
    model: Model
    identity: dict[str, Any]
    past: Past | None = None  # what an earlier run left, if this one goes on from it with new judgments alone
    lineage: tuple[dict[str, Any], ...] = ()  # the judgments that went into that: run, content, order, count
    earlier: Earlier | None = None  # what an earlier run found, if this one looks at all judgments but starts there

    @property
    def run_id(self) -> str:
        return f"{self.model.name}-{short_hash(self.identity)}"


class Stages:
    """Seconds per stage, and a line of progress when one begins and ends."""

    def __init__(self, report: Report) -> None:
        self.report, self.seconds = report, dict[str, float]()
        self.current = ""

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self.current = name
        self.report({"stage": name, "state": "begin"})
        clock = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - clock
        self.report({"stage": name, "state": "end", "seconds": self.seconds[name]})


def aggregate(request: Request, engine: Engine, report: Report) -> Published:
    """Run a method on judgments and publish the result; the same request again publishes nothing new."""
    begun = datetime.now(UTC)
    output = OutputFolder(request.out)
    with progress_file(output.root, report, {"method": request.method}) as progress:
        stages = Stages(progress)
        return carry_out(prepare(request, stages), output, engine, stages, begun)


def prepare(request: Request, stages: Stages) -> Task:
    """Read what a request is about, and settle what its result depends on."""
    model, input_settings = split_settings(request.method, request.settings)
    model, earlier = started_model(model)
    with stages("read"):
        judgments = read_judgments(
            request.source, columns=dict(request.columns), duplicates=input_settings.duplicates, report=stages.report
        )
        gold = read_gold(request.gold) if request.gold is not None else None
        judgments.check_limit(request.max_rejected)
    with stages("identify"):
        identity = identity_of(judgments, gold, model, input_settings, request.seed)
    return Task(request, judgments, gold, model, identity, earlier=earlier)


def carry_out(
    task: Task,
    output: OutputFolder,
    engine: Engine,
    stages: Stages,
    begun: datetime,
    inspect: Inspect | None = None,
) -> Published:
    """Fit and publish; a task that was published before is found again, and becomes the latest run."""
    request, judgments, model, identity, run_id = task.request, task.judgments, task.model, task.identity, task.run_id
    known = output.find(run_id)
    if known is not None:
        output.point_to(known)
        return Published(known, known.facts(), reused=True)
    interval = request.checkpoint_seconds, request.checkpoint_iterations
    checkpoints = CheckpointFolder(output.root / "checkpoints", run_id, identity, *interval)
    if request.resume and request.refuse_stale:
        checkpoints.refuse_stale()
    with output.staging(run_id) as folder, _space_needed(output):
        sharded, result = fit_judgments(
            judgments,
            task.gold,
            model,
            engine,
            stages,
            seed=request.seed,
            past=task.past,
            earlier=task.earlier,
            work=folder / "work",
            parts=folder / "parts",
            checkpoints=checkpoints,
            resume=request.resume,
        )
        with stages("publish"):
            rows = write_outputs(folder, judgments, sharded, model, result, csv=request.csv)
            rows |= save_learned(folder, task, sharded, result)
            facts = run_facts(run_id, identity, judgments, sharded, model, result)
            facts["execution"] = {
                "engine": engine.name,
                "shards": sharded.info.shards,
                **{name: value for name, value in result.facts.items() if name != "seconds"},
                "started": begun.isoformat(timespec="seconds"),
                "finished": datetime.now(UTC).isoformat(timespec="seconds"),
                "seconds": {**stages.seconds, **result.facts["seconds"]},
                "source": source_name(request.source),
                "files": list(judgments.files),
            }
            facts |= inspect(folder, facts) if inspect is not None else {}
            write_json(folder / "run.json", facts)
            run = output.publish(folder, run_id, {**rows, "run.json": 0})
            checkpoints.remove()
    return Published(run, facts)


@contextmanager
def _space_needed(output: OutputFolder) -> Iterator[None]:
    """A disk that is full, or gone, ends a run by name."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO):
            raise
        raise StoreError(
            f"the output folder {output.root} cannot be written: {error.strerror}. Nothing was published, and the "
            "latest run is the one that it was; make room and run again with --resume"
        ) from error


def fit_judgments(
    judgments: Judgments,
    gold: AnyGold | None,
    model: Model,
    engine: Engine,
    stages: Stages,
    *,
    seed: int,
    past: Past | None = None,
    earlier: Earlier | None = None,
    work: Path | None = None,
    parts: Path | None = None,
    checkpoints: CheckpointStore | None = None,
    resume: bool = False,
) -> tuple[Sharded, Fit]:
    """Shard, place and fit. `past` and `earlier` are what an earlier run left (see `Task`); `work` where shards go if
    the engine cannot see this process's memory; `parts` where result tables go, or None to have them returned."""
    with stages("shard"):
        form = model.form_for(judgments.form)
        sharded = build_shards(judgments, form=form, unit=model.unit, split=model.split, gold=gold, graded=model.graded)
        if past is not None:
            sharded = continued(sharded, past)
        if earlier is not None:
            sharded = started(sharded, earlier)
        source: Any = sharded.source
        if not engine.shares_memory:
            if work is None:
                raise UsageError(f"the {engine.name} engine needs a folder for its shards")
            source = FileSource.write(work, source)
    if parts is not None:
        parts.mkdir()
    types = IdTypes(sharded.query_type, sharded.item_type)
    main: Callable[[Placement, Report], Fit] = partial(
        fit,
        model=model,
        info=sharded.info,
        seed=seed,
        checkpoints=checkpoints,
        resume=resume,
        finish=partial(finish_tables, model, types, parts),
        collect=partial(collect_evidence, model, sharded.info, types),
    )
    with stages("engine"):
        result = engine.execute(main, source, model, stages.report)
    if work is not None:
        shutil.rmtree(work, ignore_errors=True)
    return sharded, result


def split_settings(method: str, values: Mapping[str, Any]) -> tuple[Model, InputSettings]:
    """The model with its settings, and the settings that act on its input."""
    names = [entry.name for entry in fields(InputSettings)]
    own = {name: value for name, value in values.items() if name in names}
    model = make_model(method, {name: value for name, value in values.items() if name not in own}, names)
    return model, parse_settings(InputSettings, own)


def started_model(model: Model) -> tuple[Model, Earlier | None]:
    """A model that starts from a RUN names it by its id from here on; what that run found comes with it."""
    if not model.start_words or model.settings.start in model.start_words:
        return model, None
    start = model.settings.start
    try:
        run = resolve_run(start)
    except StoreError as error:
        words = ", ".join(model.start_words)
        raise UsageError(f"setting start={start!r}: expected {words} or a RUN to start from; {error}") from error
    for name in (RANKINGS, ANNOTATORS, RUN_FILE):
        run.verify(name)
    rankings, annotators = (pq.read_table(run.path(name)) for name in (RANKINGS, ANNOTATORS))
    earlier = Earlier.of(run.run_id, rankings, annotators, run.facts()["convergence"])
    return type(model)(replace(model.settings, start=run.run_id)), earlier


def identity_of(
    judgments: Judgments, gold: AnyGold | None, model: Model, input_settings: InputSettings, seed: int
) -> dict[str, Any]:
    """Everything that a result depends on: its hash is the run id, and checkpoints are bound to it."""
    return {
        "schema": RUN_SCHEMA,
        "content": judgments.content,
        **({"order": order_fingerprint(judgments)} if model.traits.ordered else {}),
        "gold": gold.content if gold is not None else None,
        "method": model.name,
        "settings": {**settings_dict(input_settings), **settings_dict(model.settings)},
        "seed": seed,
        "code": code_digest(),
        "versions": arithmetic_versions(),
    }


def all_warnings(judgments: Judgments, sharded: Sharded, model: Model, result: Fit) -> list[str]:
    """What a user should know before trusting the result: part of it, not lost in a log."""
    warnings = [*judgments.warnings, *sharded.warnings, *model.warnings(result.theta, sharded.info)]
    if not result.converged:
        warnings.append(
            f"{model.name} stopped at the limit of {model.max_iterations} iterations without converging; "
            "raise max_iterations or look at the trace in run.json"
        )
    return warnings


def run_facts(
    run_id: str, identity: Mapping[str, Any], judgments: Judgments, sharded: Sharded, model: Model, result: Fit
) -> dict[str, Any]:
    """run.json without its `execution` block: the same bytes wherever the run ran."""
    counts, info = judgments.counts, sharded.info
    return {
        "run": run_id,
        "schema": RUN_SCHEMA,
        **({"parent": identity["parent"]} if "parent" in identity else {}),
        "method": model.name,
        "settings": identity["settings"],
        "seed": identity["seed"],
        "input": {
            "form": judgments.form,
            "content": judgments.content,
            **({"order": identity["order"]} if "order" in identity else {}),
            "gold": identity["gold"],
            "read": counts.read,
            "accepted": counts.accepted,
            "rejected": counts.rejected,
            "duplicates": counts.duplicates,
            "rejected_by_reason": dict(sorted(counts.by_reason.items())),
            "queries": info.queries,
            "items": info.items,
            "annotators": info.annotators,
            "judgments": info.judgments,
            **({"new_judgments": len(judgments)} if "parent" in identity else {}),
        },
        "code": code_digest(),
        "versions": versions(),
        "machine": machine(),
        "convergence": {
            "converged": result.converged,
            "iterations": result.iterations,
            **model.diagnosis(result.theta),
            "trace": result.trace,
        },
        "warnings": all_warnings(judgments, sharded, model, result),
    }


def write_outputs(
    folder: Path, judgments: Judgments, sharded: Sharded, model: Model, result: Fit, *, csv: bool
) -> dict[str, int]:
    """The run's tables from the parts that the workers wrote; rows by file name."""
    rows: dict[str, int] = {}
    for table, content in result_tables(sharded, result, folder / "parts").items():
        rows[f"{table}.parquet"] = write_table(folder / f"{table}.parquet", content)
    rows[ANNOTATORS] = write_table(folder / ANNOTATORS, [annotators_of(sharded, model, result)])
    rows["rejected.parquet"] = write_table(folder / "rejected.parquet", [judgments.rejected])
    if csv:
        for name in list(rows):
            target = name.replace(".parquet", ".csv")
            write_csv(folder / target, folder / name)
            rows[target] = rows[name]
    return rows


def save_learned(folder: Path, task: Task, sharded: Sharded, result: Fit) -> dict[str, int]:
    """`model/` of the run, if the model saves what it learned; its files."""
    model, info = task.model, sharded.info
    learned = model.learned(result.theta, info)
    if learned is None:
        return {}
    (folder / MODEL_FOLDER).mkdir()
    units = [name for part in result.results for name in part.get("learned", [])]
    for name in units:
        (folder / "parts" / name).rename(folder / MODEL_FOLDER / name)
    read = {"content": task.judgments.content, "order": task.identity.get("order"), "judgments": len(task.judgments)}
    facts = {
        "method": model.name,
        "settings": task.identity["settings"],
        "judgments": info.judgments,
        "last_timestamp": last_timestamp(task.past, task.judgments.timestamp),
        "lineage": [*task.lineage, {"run": task.run_id, **read}],
    }
    annotators = pa.table({"annotator": sharded.annotators, "judgments": info.annotator_judgments})
    names = write_learned(folder / MODEL_FOLDER, learned, annotators=annotators, facts=facts, units=units)
    return {f"{MODEL_FOLDER}/{name}": 0 for name in names}


def result_tables(sharded: Sharded, result: Fit, parts: Path | None = None) -> dict[str, Iterable[pa.Table]]:
    """The tables `rankings` and `queries` as pieces in their order, from what the shards gave (files in `parts`)."""

    def pieces(table: str) -> Iterator[pa.Table]:
        return (part[table] if parts is None else pq.read_table(parts / part[table]) for part in result.results)

    if sharded.items is None:
        return {table: pieces(table) for table in ("rankings", "queries")}
    rankings, queries = merged_items(sharded.items, list(pieces("rankings")), list(pieces("queries")))
    return {"rankings": [rankings], "queries": [queries]}


def annotators_of(sharded: Sharded, model: Model, result: Fit) -> pa.Table:
    """annotators.parquet as a table."""
    info: Info = sharded.info
    return annotators_table(sharded.annotators, model.annotators(result.theta, info), info, result.evidence)


def finish_tables(model: Model, types: IdTypes, folder: Path | None, placement: Placement, theta: Record) -> list[Any]:
    """Tables (or the names of the files they were written to) in shard order; a split unit comes once."""
    results = [
        result
        for name in (UNITS, PARTS)
        if placement.shard_counts.get(name)
        for result in placement.map(partial(_finish_shard, model, types, folder, name), theta, on=name)
    ]
    return [result for result in results if result is not None]


def _finish_shard(
    model: Model,
    types: IdTypes,
    folder: Path | None,
    name: str,
    number: int,
    shard: Record,
    local: Record,
    theta: Record,
) -> dict[str, Any] | None:
    if name == PARTS and not bool(shard["part.first"]):
        return None
    tables = shard_tables(shard, model.finalize(shard, local, theta), types)
    saved = model.learned_units(shard, local, theta)
    units = LearnedUnits.of(shard, saved, types) if saved else None
    if folder is None:
        return {**tables, **({"learned": units} if units is not None else {})}
    names: dict[str, Any] = {table: f"{table}-{name}-{number:05d}.parquet" for table in tables}
    for table, content in tables.items():
        pq.write_table(content, folder / names[table], compression="zstd")
    if units is not None:
        names["learned"] = units.write(folder, f"{name}-{number:05d}")
    return names
