"""Runs of `distrank remap` and `distrank score`: from tables to a published ranker, and from a ranker to scores."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from distrank.contract import Info
from distrank.engine.base import Engine, Report
from distrank.errors import UsageError
from distrank.identity import arithmetic_versions, code_digest, machine, short_hash, versions
from distrank.kernels.remapping import values_of
from distrank.models._labels import order_quality
from distrank.records import Array
from distrank.remap.baselines import consensus_labels, label_counts
from distrank.remap.compare import compare
from distrank.remap.extension import extend
from distrank.remap.model import RemapSettings
from distrank.remap.pipeline import Crowd, PipelineSettings, Ranker, apply, prepare, tune
from distrank.remap.saved import read_ranker, write_ranker
from distrank.remap.train import average_score
from distrank.runs import MAX_REJECTED, RUN_SCHEMA, Published, Stages
from distrank.settings import parse_settings, settings_dict
from distrank.store.files import write_json
from distrank.store.publish import OutputFolder, resolve_run
from distrank.tables.feature_shards import build_feature_shards
from distrank.tables.features import Features, read_features, read_label_columns
from distrank.tables.gold import Gold, read_gold
from distrank.tables.outputs import IdTypes, annotators_table, rankings_table, write_table
from distrank.tables.read import read_judgments

METHODS = ("both", "reweight", "remap")


@dataclass(frozen=True)
class RemapRequest:
    """What a user asks for: a target to tune on, or a run whose tuning is used again (`tuned`)."""

    source: str
    features: str
    out: Path
    target: str | None = None
    target_features: str | None = None
    tuned: str | None = None
    gold: str | None = None
    label_features: str | None = None
    method: str = "both"
    settings: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    max_rejected: float = MAX_REJECTED


@dataclass(frozen=True)
class _Inputs:
    crowd: Crowd
    target: Gold | None
    target_features: Features | None
    settings: PipelineSettings


def remap(request: RemapRequest, engine: Engine, report: Report) -> Published:
    """Tune (or use a tuning of before), train, publish; the same request again publishes nothing new."""
    started, stages = datetime.now(UTC), Stages(report)
    output = OutputFolder(request.out)
    with stages("read"):
        inputs = _read(request)
    parent = resolve_run(request.tuned) if request.tuned is not None else None
    identity = _identity(request, inputs, None if parent is None else parent.run_id)
    run_id = f"{request.method}-{short_hash(identity)}"
    known = output.find(run_id)
    if known is not None:
        output.point_to(known)
        return Published(known, known.facts(), reused=True)
    crowd, settings, method = inputs.crowd, inputs.settings, request.method
    with output.staging(run_id) as folder:
        work = folder / "work" if not engine.shares_memory else None
        if inputs.target is not None:
            with stages("target"):
                target = build_feature_shards(inputs.target_features or crowd.features, inputs.target)
            ranker = tune(crowd, target, method, settings, engine, report, work, stages)  # type: ignore[arg-type]
        elif parent is not None:
            ranker = apply(crowd, read_ranker(parent).processing, settings, engine, report, work, stages)
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)
        with stages("publish"):
            rows = _write(folder, crowd, ranker)
            facts = {
                "run": run_id,
                "schema": RUN_SCHEMA,
                "method": method,
                "settings": identity["settings"],
                "input": identity["input"] | _counts(crowd, ranker),
                "parent": None if parent is None else parent.run_id,
                "code": code_digest(),
                "versions": versions(),
                "machine": machine(),
                "convergence": {
                    "converged": ranker.consensus.converged,
                    "iterations": max(len(ranker.trace) - 1, 0),
                    **ranker.facts,
                    "trace": ranker.trace,
                },
                "warnings": [*crowd.judgments.warnings, *ranker.consensus.warnings],
                "execution": {
                    "engine": engine.name,
                    "started": started.isoformat(timespec="seconds"),
                    "finished": datetime.now(UTC).isoformat(timespec="seconds"),
                    "seconds": stages.seconds,
                },
            }
            write_json(folder / "run.json", facts)
            run = output.publish(folder, run_id, {**rows, "run.json": 0})
    return Published(run, facts)


def compare_methods(request: RemapRequest, engine: Engine, report: Report, folds: int = 5) -> list[dict[str, Any]]:
    """Table 4 on one's own data: all baselines and the framework, by cross-validation over the target's queries."""
    inputs = _read(request)
    if inputs.target is None:
        raise UsageError("--compare needs a target (--target): methods are compared on its queries")
    crowd, settings = inputs.crowd, inputs.settings
    target = build_feature_shards(inputs.target_features or crowd.features, inputs.target)
    samples, consensus, y = prepare(crowd, engine, report, soft=settings.soft)
    label, weight = consensus_labels(samples, consensus)["dawid-skene soft"], label_counts(samples)
    extended = {"linear": extend(samples.values, samples.query_hash, label, weight, how="none")}
    if settings.trees and settings.extension != "none":
        how: Any = settings.extension
        extended["trees"] = extend(
            samples.values, samples.query_hash, label, weight, how=how, folds=settings.folds, trees=settings.trees
        )
    own = RemapSettings(
        settings.ridge or 1e-3,
        settings.measure_at,
        settings.scale_free,
        settings.steps,
        settings.step_size or 0.3,
        settings.patience,
    )
    found = compare(
        samples, y, consensus, target, own, engine, report, extended=extended, folds=folds, trees=settings.trees,
        boosted=settings.trees > 0,
    )  # fmt: skip
    return found.table()


def _read(request: RemapRequest) -> _Inputs:
    if request.method not in METHODS:
        raise UsageError(f"unknown method {request.method!r}; known: {', '.join(METHODS)}")
    if (request.target is None) == (request.tuned is None):
        raise UsageError("give either a target to tune on (--target) or a run whose tuning is used again (--tuned)")
    judgments = read_judgments(request.source, columns=dict(request.columns))
    judgments.check_limit(request.max_rejected)
    features = read_features(request.features)
    honeypots, target = _graded(request.gold), _graded(request.target)
    own = read_label_columns(request.label_features) if request.label_features is not None else None
    more = read_features(request.target_features) if request.target_features is not None else None
    settings = parse_settings(PipelineSettings, request.settings)
    return _Inputs(Crowd(judgments, features, honeypots, own), target, more, settings)


def _graded(source: str | None) -> Gold | None:
    """Gold with grades; pairs of known order are of no use here."""
    gold = None if source is None else read_gold(source)
    if gold is not None and not isinstance(gold, Gold):
        raise UsageError(f"{source}: remapping takes graded gold (query, item, relevance), not pairs")
    return gold


def _identity(request: RemapRequest, inputs: _Inputs, parent: str | None) -> dict[str, Any]:
    """Everything that a result depends on."""
    crowd = inputs.crowd
    content = {
        "content": crowd.judgments.content,
        "features": crowd.features.content,
        "gold": crowd.honeypots.content if crowd.honeypots is not None else None,
        "target": inputs.target.content if inputs.target is not None else None,
        "target_features": inputs.target_features.content if inputs.target_features is not None else None,
        "label_features": crowd.own.content if crowd.own is not None else None,
    }
    return {
        "schema": RUN_SCHEMA,
        "input": content,
        "method": request.method,
        "settings": settings_dict(inputs.settings),
        "parent": parent,
        "code": code_digest(),
        "versions": arithmetic_versions(),
    }


def _counts(crowd: Crowd, ranker: Ranker) -> dict[str, Any]:
    counts = crowd.judgments.counts
    return {
        "form": crowd.judgments.form,
        "read": counts.read,
        "accepted": counts.accepted,
        "rejected": counts.rejected,
        "rejected_by_reason": dict(sorted(counts.by_reason.items())),
        "judgments": len(ranker.samples),
        "items": len(ranker.samples.query),
        "queries": len(np.unique(ranker.samples.query)),
        "annotators": len(crowd.judgments.annotators),
    }


def _write(folder: Path, crowd: Crowd, ranker: Ranker) -> dict[str, int]:
    """All tables and the model; rows by file name."""
    scores = average_score(ranker.blocks, ranker.weights, crowd.features.values)
    ranked = _rankings(crowd.features, scores)
    queries = ranked.group_by("query", use_threads=False).aggregate([("item", "count")])
    tables = {
        "rankings": ranked,
        "queries": queries.rename_columns(["query", "items"]),
        "annotators": _annotators(crowd, ranker),
        "label_features": _labels(crowd, ranker),
        "rejected": crowd.judgments.rejected,
    }
    rows = {f"{name}.parquet": write_table(folder / f"{name}.parquet", [table]) for name, table in tables.items()}
    return rows | dict.fromkeys(write_ranker(folder, ranker, crowd.features.names), 0)


def _rankings(features: Features, scores: Array) -> pa.Table:
    """`query, item, rank, score` of all items, queries in the order of their ids."""
    number = Features(features.query, features.item, ("row",), np.arange(len(features), dtype=float)[:, None])
    built = build_feature_shards(number)
    types = IdTypes(built.query_type, built.item_type)
    parts = [
        rankings_table(shard, {"score": scores[shard["node.features"][:, 0].astype(np.int64)]}, types)
        for shard in built.shards
    ]
    return pa.concat_tables(parts).sort_by([("query", "ascending"), ("rank", "ascending")])


def _annotators(crowd: Crowd, ranker: Ranker) -> pa.Table:
    consensus = ranker.consensus
    share = float(consensus.dawid_skene.mean())
    columns = {
        "quality": order_quality(consensus.confusion, np.array([1.0 - share, share])),
        "ability": consensus.ability,
        "honeypots_right": consensus.honeypots,
        "confusion": consensus.confusion.reshape(len(consensus.ability), -1),
    }
    count = len(consensus.judgments)
    info = Info(int(consensus.judgments.sum()), 0, 0, count, consensus.judgments, {})
    return annotators_table(crowd.judgments.annotators, columns, info)


def _labels(crowd: Crowd, ranker: Ranker) -> pa.Table:
    """Every label of the source with its features, the weight and the relevance value that it was given."""
    samples, y = ranker.samples, ranker.y
    weight, value = values_of(y.values, ranker.processing.alpha, ranker.processing.beta)
    table = {
        "query": crowd.judgments.queries.take(pa.array(samples.query[samples.item])),
        "item": crowd.judgments.items.take(pa.array(samples.code[samples.item])),
        "annotator": crowd.judgments.annotators.take(pa.array(samples.annotator)),
        "rating": samples.rating,
        "weight": weight,
        "relevance": value,
    }
    return pa.table({**table, **{name: y.values[:, k] * y.scale[k] for k, name in enumerate(y.names)}})
