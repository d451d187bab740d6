"""Judgments on their way to shards: read by this process, or by the workers of an engine that has its own machines.

Where the engine shares this process's memory, reading here is all there is to it. On a cluster the files are read where
the workers are (`tables.ingest`) and this process sees counts only, for every method that works query by query. What
needs all rows in one order (methods in time order, dropped duplicates), works item by item, or samples the preferences
of every annotator, is read here; so are files of several forms, and what a ranker learns from, beside its features.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from distrank.contract import Model
from distrank.engine.base import Engine, FileSource, Report
from distrank.errors import UsageError
from distrank.store.owners import owned_name
from distrank.tables.continuation import Past, continued
from distrank.tables.encode import Duplicates
from distrank.tables.feature_nodes import Training, with_training
from distrank.tables.gold import AnyGold
from distrank.tables.ingest import Ingested, SeveralFormsError, ingest, ingested_shards
from distrank.tables.judgments import Judgments
from distrank.tables.read import read_judgments
from distrank.tables.shards import Sharded, build_shards
from distrank.tables.sources import Location, find_files
from distrank.tables.starts import Earlier, started

AnyJudgments: TypeAlias = Judgments | Ingested


@dataclass(frozen=True)
class Reading:
    """What is read, and how."""

    source: Location | Sequence[Location]
    columns: Mapping[str, str]
    duplicates: Duplicates = "keep"
    sparsity: float = 1.0  # share of the preferences to keep where they are made from ratings or rankings


def take_in(reading: Reading, model: Model, engine: Engine, root: Path, seed: int, report: Report) -> AnyJudgments:
    """Read the judgments; `root` is the output folder, which all workers must see."""
    source, columns, duplicates = reading.source, reading.columns, reading.duplicates
    by_query = model.unit == "query" and model.split != "ordered" and not model.features
    if engine.shares_memory or not by_query or duplicates != "keep" or reading.sparsity < 1.0:
        judgments = read_judgments(source, columns=dict(columns), duplicates=duplicates, report=report)
        return replace(judgments, sparsity=reading.sparsity, seed=seed)
    find_files(source)  # a path that does not exist anywhere is an error of its own
    local = [Path(one) for one in ([source] if isinstance(source, str | Path) else source) if "://" not in str(one)]
    engine.check_sees([root, *local])
    folder = root / "staging" / owned_name("ingest")
    try:
        return ingest(source, columns, folder, engine.each)
    except SeveralFormsError:
        shutil.rmtree(folder, ignore_errors=True)
        return read_judgments(source, columns=dict(columns), report=report)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def place(
    judgments: AnyJudgments,
    gold: AnyGold | None,
    model: Model,
    engine: Engine,
    work: Path | None,
    past: Past | None,
    earlier: Earlier | None,
    training: Training | None = None,
) -> Sharded:
    """Shards where the engine can take them: in memory, or in the folder `work`."""
    form = model.form_for(judgments.form)
    if isinstance(judgments, Ingested):
        if work is None:
            raise UsageError(f"the {engine.name} engine needs a folder for its shards")
        return ingested_shards(judgments, work, engine.each, form=form, split=model.split, gold=gold, earlier=earlier)
    layout: dict[str, Any] = {"form": form, "unit": model.unit, "split": model.split}
    if training is None:
        sharded = build_shards(judgments, gold=gold, graded=model.graded, **layout)
    else:
        size = training.rows_per_shard(len(judgments))
        sharded = with_training(build_shards(judgments, rows_per_shard=size, **layout), training, gold)
    if past is not None:
        sharded = continued(sharded, past)
    if earlier is not None:
        sharded = started(sharded, earlier)
    if engine.shares_memory:
        return sharded
    if work is None:
        raise UsageError(f"the {engine.name} engine needs a folder for its shards")
    return replace(sharded, source=FileSource.write(work, sharded.source))


def discard(judgments: AnyJudgments) -> None:
    """Remove what reading on a cluster left."""
    if isinstance(judgments, Ingested):
        shutil.rmtree(judgments.folder, ignore_errors=True)
