"""Ratings, preferences and rankings of the same annotators together: all of them as preferences.

Files are read by the form that each has, into one numbering of ids. Then the ratings and rankings of an annotator in a
query become preferences (`kernels.forms`): the items of a list say nothing of items that are not in it, so a top-k list
gives the pairs among its items only. What was read and rejected is counted in rows as given, judgments in preferences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from distrank.contract import Form
from distrank.errors import InputError
from distrank.kernels.forms import count_pairs, group_starts, write_pairs
from distrank.records import Array
from distrank.tables.duplicates import drop_duplicates
from distrank.tables.encode import Duplicates, Encoder, refuse_empty, small_data_warnings
from distrank.tables.judgments import Counts, Judgments
from distrank.tables.threads import each

MOST_DERIVED = 2_000_000_000


def finish_together(
    encoders: Sequence[Encoder], *, duplicates: Duplicates, files: Sequence[dict[str, Any]], name: str
) -> Judgments:
    """The judgments of several encoders that share their ids, as preferences."""
    read, accepted = sum(encoder.read for encoder in encoders), sum(encoder.accepted for encoder in encoders)
    reasons: Counter[str] = sum((encoder.rejected.counts for encoder in encoders), Counter())
    refuse_empty(name, read, accepted, reasons)
    tables = [encoder.columns() for encoder in encoders]
    first = encoders[0]
    ids: dict[str, pa.Array] = dict(each(lambda domain: first.sort_ids(domain, tables), list(first.interners)))
    dropped, given, rows = 0, dict[str, int](), []
    for encoder, columns in zip(encoders, tables, strict=True):
        if duplicates == "drop" and encoder.places is not None:
            columns, again = drop_duplicates(encoder.form, ids, columns, encoder.places, encoder.rejected)  # noqa: PLW2901
            dropped += again
        given[encoder.form] = len(columns["query"])
        rows.append(columns if encoder.form == "preferences" else _derived(encoder.form, columns))
    joined: dict[str, Any] = dict(_joined(rows))
    counts = Counts(
        read=read,
        accepted=accepted - dropped,
        rejected=read - accepted + dropped,
        duplicates=dropped,
        by_reason=dict(sum((encoder.rejected.counts for encoder in encoders), Counter())),
    )
    rejected = pa.concat_tables([encoder.rejected.table() for encoder in encoders], promote_options="default")
    return Judgments(
        "preferences",
        **ids,
        **joined,
        counts=counts,
        rejected=rejected,
        files=files,
        derived=sum(len(table["query"]) for table, form in zip(rows, given, strict=True) if form != "preferences"),
        warnings=[_explained(given, len(joined["query"])), *_never_compared(tables, joined), *small_data_warnings(ids)],
    )


def _derived(form: Form, columns: dict[str, Array]) -> dict[str, Array]:
    """The preferences of ratings or rankings, annotator by annotator."""
    order = np.lexsort((columns["item"], columns["annotator"], columns["query"]))
    query, annotator, item = (columns[name][order] for name in ("query", "annotator", "item"))
    value = columns["rating"][order] if form == "ratings" else -columns["rank"][order]
    weight = columns["weight"][order] if "weight" in columns else np.empty(0)
    starts = group_starts(query, annotator)
    sizes = np.diff(starts)
    if (most := int((sizes * (sizes - 1) // 2).sum())) > MOST_DERIVED:
        raise InputError(
            f"the {form} would give up to {most:,} preferences, more than {MOST_DERIVED:,}: some annotators judged "
            "very many items of one query. Aggregate them alone, with a method that takes the form as it is"
        )
    count = count_pairs(starts, item, value)
    row, winner, loser = np.empty(count, np.int64), np.empty(count, np.uint32), np.empty(count, np.uint32)
    pair_weight = np.empty(count if len(weight) else 0)
    write_pairs(starts, item, value, weight, row, winner, loser, pair_weight)
    found = {"query": query[row], "annotator": annotator[row], "winner": winner, "loser": loser}
    return {**found, "weight": pair_weight} if len(weight) else found


def _joined(tables: Sequence[dict[str, Array]]) -> dict[str, Array]:
    """One table; a column that only some have gets what its absence means. Derived preferences have no time."""
    absent = {"tie": False, "weight": 1.0}
    names = ["query", "annotator", "winner", "loser", *(name for name in absent if any(name in t for t in tables))]
    return {
        name: np.concatenate(
            [table[name] if name in table else np.full(len(table["query"]), absent[name]) for table in tables]
        )
        for name in names
    }


def _explained(given: dict[str, int], preferences: int) -> str:
    parts = ", ".join(f"{count:,} {form}" for form, count in given.items())
    return f"judgments of several forms were given together: {parts} became {preferences:,} preferences"


def _never_compared(tables: Sequence[dict[str, Array]], joined: dict[str, Array]) -> list[str]:
    """What to say about items that were judged, but by nobody beside another one of another value."""

    def items(columns: dict[str, Array], *names: str) -> Array:
        return np.unique(
            np.concatenate([(columns["query"].astype(np.uint64) << np.uint64(32)) | columns[name] for name in names])
        )

    judged = [items(table, *(name for name in ("winner", "loser", "item") if name in table)) for table in tables]
    lost = len(np.unique(np.concatenate(judged))) - len(items(joined, "winner", "loser"))
    if not lost:
        return []
    return [f"{lost:,} items are in no preference: nobody judged them with another item of another value. Not ranked"]
