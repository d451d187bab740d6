"""Chosen questions as a table that people and platforms read, with the reason for each."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from distrank.active.batch import Batch
from distrank.active.beliefs import RunBeliefs
from distrank.errors import StoreError, UsageError
from distrank.kernels.gain import pair_odds, score_gain
from distrank.tables.export import neutralised

SUFFIXES = (".csv", ".parquet")


def tasks_table(batch: Batch, source: RunBeliefs) -> pa.Table:
    """`query, left, right, annotator, expected_gain, reason`, in the order of choice; sides are at random."""
    return pa.table(
        {
            "query": source.queries.take(pa.array(batch.query)),
            "left": source.items.take(pa.array(batch.first)),
            "right": source.items.take(pa.array(batch.second)),
            "annotator": source.annotators.take(pa.array(batch.annotator)),
            "expected_gain": batch.gain,
            "reason": pa.array([reason_of(batch, source, row) for row in range(len(batch))], pa.string()),
        }
    )


def reason_of(batch: Batch, source: RunBeliefs, row: int) -> str:
    """Why this question: what the run believes of the pair and of the annotator."""
    (mean_i, variance_i), (mean_j, variance_j) = source.beliefs.items[[batch.first[row], batch.second[row]]]
    alpha, beta = source.beliefs.annotators[batch.annotator[row]]
    apart, deviation = abs(mean_i - mean_j), math.sqrt(variance_i + variance_j)
    pair = f"scores {apart:.2f} apart, +- {deviation:.2f}"
    quality = alpha / (alpha + beta)
    who = f"quality {quality:.2f} +- {math.sqrt(quality * (1.0 - quality) / (alpha + beta + 1.0)):.2f}"
    if batch.drawn[row]:
        return f"drawn at random: {pair}; {who}"
    of_items = score_gain(pair_odds(mean_i, mean_j), variance_i, variance_j, alpha, beta, source.kappa)[0]
    if batch.gain[row] > 2.0 * of_items:  # most of it is about the annotator
        return f"tests the annotator ({who}) on a clearer pair: {pair}"
    clearness = "order undecided" if apart < deviation else "order not certain"
    trust = "informative annotator" if abs(quality - 0.5) > 0.25 else "annotator of unclear quality"
    inverted = ", expected to report the reverse" if quality < 0.25 else ""
    return f"{clearness}: {pair}; {trust}: {who}{inverted}"


def check_target(path: Path) -> None:
    """Refuse a target that cannot be written before anything is computed."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"--out {path}: expected a file that ends in {' or '.join(SUFFIXES)}")
    if not path.absolute().parent.is_dir():
        raise StoreError(f"--out {path}: there is no folder {path.absolute().parent}")


def write_tasks(table: pa.Table, path: Path) -> None:
    """Write beside and rename; in CSV, ids that a spreadsheet would run get a leading apostrophe."""
    partial = path.with_name(path.name + ".partial")
    try:
        if path.suffix == ".parquet":
            pq.write_table(table, partial, compression="zstd")
        else:
            pa_csv.write_csv(neutralised(table), partial)
        partial.replace(path)
    except OSError as error:
        raise StoreError(f"--out {path} cannot be written: {error.strerror or error}") from error


def spread(batch: Batch) -> dict[str, int]:
    """How many different things a batch asks about."""
    pairs = np.unique(np.sort(np.column_stack([batch.first, batch.second]), axis=1), axis=0)
    return {
        "questions": len(batch),
        "queries": len(np.unique(batch.query)),
        "items": len(np.unique(np.concatenate([batch.first, batch.second]))),
        "pairs": len(pairs),
        "annotators": len(np.unique(batch.annotator)),
    }
