"""The rules that every row must obey: one short reason for each row that does not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distrank.records import Array
from distrank.tables.ids import id_bytes
from distrank.tables.values import Parsed, parse_numbers, parse_times, parse_truth

SELF_COMPARISON = "winner and loser are the same item"
NOT_TEXT = "not valid UTF-8 text"

Parser = Callable[[str, pa.Array], Parsed]
PARSERS: dict[str, Parser] = {"tie": parse_truth, "timestamp": parse_times}


class Reasons:
    """Why rows are rejected; the first reason that applies to a row is the one it gets."""

    def __init__(self, rows: int) -> None:
        self.code = np.zeros(rows, np.uint8)
        self.texts = [""]

    def add(self, mask: Array, text: str) -> None:
        """Reject the rows of the mask that were not rejected before."""
        fresh = mask & (self.code == 0)
        if fresh.any():
            self.texts.append(text)
            self.code[fresh] = len(self.texts) - 1

    def counts(self) -> dict[str, int]:
        """How many rows every reason has."""
        found = np.bincount(self.code, minlength=len(self.texts))
        return {text: int(found[place]) for place, text in enumerate(self.texts) if place}


def check_ids(reasons: Reasons, name: str, ids: pa.Array) -> None:
    """Ids must be there: not null, not empty, not infinite or NaN. Distinct ids are looked at once."""
    missing, infinite = _flaws(ids.dictionary if pa.types.is_dictionary(ids.type) else ids)
    if pa.types.is_dictionary(ids.type) and (missing is not None or infinite is not None):
        places = pc.fill_null(ids.indices, 0).to_numpy(zero_copy_only=False)
        missing = None if missing is None else missing[places]
        infinite = None if infinite is None else infinite[places]
    if ids.null_count:
        nulls = ids.is_null().to_numpy(zero_copy_only=False)
        missing = nulls if missing is None else missing | nulls
    if missing is not None:
        reasons.add(missing, f"{name} is null or empty")
    if infinite is not None:
        reasons.add(infinite, f"{name} is NaN or infinite")


def check_values(reasons: Reasons, name: str, place: str, column: pa.Array) -> Array:
    """The values of a column that holds no ids, with the rule of that column applied."""
    values, bad = PARSERS.get(name, parse_numbers)(place, column)
    words = {"tie": "tie is not a truth value", "timestamp": "timestamp is neither a number nor a date"}
    reasons.add(bad, words.get(name, f"{name} is not a finite number"))
    if name == "rank":
        reasons.add(values < 1.0, "rank is below 1")
    if name == "weight":
        reasons.add(values < 0.0, "weight is negative")
    return values


def _flaws(ids: pa.Array) -> tuple[Array | None, Array | None]:
    """Which ids are empty or null, and which are no finite numbers; None where there are none."""
    if pa.types.is_floating(ids.type):
        values = pc.fill_null(ids.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
        return _nulls(ids), _some(~np.isfinite(values))
    if pa.types.is_null(ids.type):
        return np.ones(len(ids), bool), None
    nulls = _nulls(ids)
    if pa.types.is_integer(ids.type):
        return nulls, None
    _, offsets = id_bytes(ids)
    empty = _some(np.diff(offsets) == 0) if len(ids) else None
    if nulls is None or empty is None:
        return (empty if nulls is None else nulls), None
    return nulls | empty, None


def _nulls(ids: pa.Array) -> Array | None:
    return ids.is_null().to_numpy(zero_copy_only=False) if ids.null_count else None


def _some(mask: Array) -> Array | None:
    return mask if mask.any() else None
