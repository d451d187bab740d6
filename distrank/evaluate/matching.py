"""A ranking and gold, brought together by (query, item).

Both are tables in memory (pandas or pyarrow). Ids are matched by value: whole numbers of any width are one type, text
of any kind is one type. Where one side is text and the other whole numbers (gold from CSV, a ranking from Parquet), the
text is read as numbers if that loses nothing: `7` is 7, but `007` is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distrank.errors import InputError
from distrank.metrics import JudgedQueries, judged_queries
from distrank.records import Array
from distrank.tables.ids import show_id, whole_numbers

ALL = "all"  # the one query of a table without a query column


@dataclass(frozen=True)
class Matched:
    """The queries that are both ranked and judged, in the order of their ids."""

    ids: Any  # pa.Array: the query ids, whole numbers or text as in the ranking
    queries: JudgedQueries
    missing: Array  # judged items that are not ranked, per query
    judged: Array  # ranked items that are judged, per query
    unjudged_queries: int  # queries of the ranking without gold: not evaluated
    unranked_queries: int  # queries of gold that the ranking does not have: not evaluated


def match(rankings: Any, gold: Any) -> Matched:
    """Join a table `[query], item, [rank], [score]` with a table `[query], item, relevance`."""
    ranked = _table(rankings, "the ranking", ("query", "item", "rank", "score"), required=("item",))
    truth = _table(gold, "gold", ("query", "item", "relevance"), required=("item", "relevance"))
    score, rank = _score_and_rank(ranked)
    relevance = _numbers(truth, "relevance", "gold")
    ranked_query, truth_query, query_ids = _codes(ranked, truth, "query")
    ranked_item, truth_item, item_ids = _codes(ranked, truth, "item")
    ranked_key = ranked_query * len(item_ids) + ranked_item
    truth_key = truth_query * len(item_ids) + truth_item
    _refuse_repeated(ranked_key, ranked, "the ranking")
    _refuse_repeated(truth_key, truth, "gold")

    # Queries are renumbered in the order of their ids, those that only one side has are left out.
    number, ids = _evaluated(ranked_query, truth_query, query_ids)
    ranked_rows, offsets = _grouped(number[ranked_query], len(ids))
    found = pc.index_in(pa.array(ranked_key[ranked_rows]), value_set=pa.array(truth_key))
    matched = found.is_valid().to_numpy(zero_copy_only=False)
    position = found.fill_null(0).to_numpy()
    if not matched.any():
        raise InputError(
            f"no item of the ranking is in gold: the ranking has items such as {_example(ranked['item'])}, "
            f"gold such as {_example(truth['item'])}; check that both use the same ids"
        )
    used = np.zeros(len(truth_key), bool)
    used[position[matched]] = True
    unranked_number = np.where(used, -1, number[truth_query])
    unranked_rows, unranked_offsets = _grouped(unranked_number, len(ids))
    queries = judged_queries(
        offsets,
        score[ranked_rows],
        np.where(matched, relevance[position], np.nan),
        None if rank is None else rank[ranked_rows],
        unranked=(unranked_offsets, relevance[unranked_rows]),
    )
    return Matched(
        ids=ids.cast(ranked["query"].type),
        queries=queries,
        missing=np.diff(unranked_offsets),
        judged=np.diff(np.concatenate(([0], np.cumsum(matched)))[offsets]),
        unjudged_queries=int(len(np.unique(ranked_query)) - len(ids)),
        unranked_queries=int(len(np.unique(truth_query)) - len(ids)),
    )


def _table(source: Any, name: str, columns: tuple[str, ...], *, required: tuple[str, ...]) -> pa.Table:
    """The columns that matter, as a pyarrow table with plain (not dictionary) values and a query column."""
    table = source
    if not isinstance(table, pa.Table):
        try:
            wanted = [column for column in columns if column in source]
            table = pa.Table.from_pandas(source[wanted], preserve_index=False)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InputError(f"{name} has a column of mixed types: {error}") from error
    for column in required:
        if column not in table.column_names:
            raise InputError(f"{name} has no column {column!r}: it has {', '.join(table.column_names)}")
    if table.num_rows == 0:
        raise InputError(f"{name} has no rows")
    plain = {column: _plain(table[column], name, column) for column in columns if column in table.column_names}
    if "query" not in plain:
        plain["query"] = pa.chunked_array([pa.repeat(pa.scalar(ALL, pa.large_string()), table.num_rows)])
    return pa.table(plain)


def _plain(column: Any, name: str, label: str) -> Any:
    """The values without dictionary, text and whole numbers in their widest type, and no nulls."""
    if column.null_count:
        raise InputError(f"{name}, row {_first(column.is_null())}: {label} is missing")
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        kind = pa.large_string()
    elif pa.types.is_integer(kind):
        kind = pa.int64()
    try:
        return column.cast(kind)
    except pa.ArrowInvalid as error:
        raise InputError(f"{name}, column {label!r}: {error}") from error


def _score_and_rank(ranked: pa.Table) -> tuple[Array, Array | None]:
    """Scores, and ranks where there are any; a ranking that has only ranks is scored by them."""
    rank = _numbers(ranked, "rank", "the ranking") if "rank" in ranked.column_names else None
    if "score" in ranked.column_names:
        return _numbers(ranked, "score", "the ranking"), rank
    if rank is None:
        raise InputError(f"the ranking has neither 'score' nor 'rank': it has {', '.join(ranked.column_names)}")
    return -rank, rank


def _numbers(table: pa.Table, column: str, name: str) -> Array:
    try:
        values = table[column].cast(pa.float64(), safe=False).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"{name}, column {column!r} must hold numbers: {error}") from error
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(bad.argmax())
        raise InputError(f"{name}, row {row + 1}: {column} is {values[row]}, but must be a finite number")
    return values


def _codes(ranked: pa.Table, truth: pa.Table, column: str) -> tuple[Array, Array, Any]:
    """One numbering of the ids of both tables: codes of the ranking, codes of gold, and the ids by code."""
    left, right = ranked[column], truth[column]
    if left.type != right.type:
        left, right = _same_type(left, right, column)
    both = pa.chunked_array([*left.chunks, *right.chunks]).combine_chunks().dictionary_encode()
    codes = both.indices.to_numpy().astype(np.int64)
    return codes[: len(left)], codes[len(left) :], both.dictionary


def _same_type(left: Any, right: Any, column: str) -> tuple[Any, Any]:
    """Both columns as whole numbers, if one of them is and the other is text that says the same."""
    names = {pa.int64(): "whole numbers", pa.large_string(): "text"}
    if {left.type, right.type} == set(names):
        text = left if left.type == pa.large_string() else right
        numbers = whole_numbers(text)
        if numbers is not None:
            return (numbers, right) if text is left else (left, numbers)
        hint = "the text is not plain whole numbers throughout (007 is not 7), so it cannot be matched with them"
    else:
        hint = "write them with one type"
    raise InputError(
        f"{column} ids are {names.get(left.type, left.type)} in the ranking (such as {_example(left)}) and "
        f"{names.get(right.type, right.type)} in gold (such as {_example(right)}): {hint}"
    )


def _refuse_repeated(keys: Array, table: pa.Table, name: str) -> None:
    """One row per item of a query: more would count it twice."""
    order = np.argsort(keys, kind="stable")
    repeated = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if len(repeated):
        first, second = sorted(order[repeated[0] : repeated[0] + 2].tolist())
        query, item = table["query"][first].as_py(), table["item"][first].as_py()
        raise InputError(
            f"{name}, rows {first + 1} and {second + 1}: item {show_id(item)} of query {show_id(query)} is there twice"
        )


def _evaluated(ranked_query: Array, truth_query: Array, ids: Any) -> tuple[Array, Any]:
    """The new number of every query code (-1: on one side only), and the ids of the queries that stay."""
    counts = [np.bincount(codes, minlength=len(ids)) > 0 for codes in (ranked_query, truth_query)]
    by_id = pc.sort_indices(ids).to_numpy()
    stay = by_id[(counts[0] & counts[1])[by_id]]
    if not len(stay):
        raise InputError(
            f"no query of the ranking is in gold: the ranking has queries such as {_example(ids.filter(counts[0]))}, "
            f"gold such as {_example(ids.filter(counts[1]))}"
        )
    number = np.full(len(ids), -1, np.int64)
    number[stay] = np.arange(len(stay))
    return number, ids.take(pa.array(stay))


def _grouped(group: Array, groups: int) -> tuple[Array, Array]:
    """Rows by group (those of group -1 left out, the others in their order), and the offsets of the groups."""
    order = np.argsort(group, kind="stable")
    counts = np.bincount(group + 1, minlength=groups + 1)
    return order[counts[0] :], np.concatenate(([0], np.cumsum(counts[1:])))


def _first(flags: Any) -> int:
    """The number of the first row that is flagged, counted from 1."""
    return int(pc.index(flags, pa.scalar(True)).as_py()) + 1


def _example(ids: Any) -> str:
    return show_id(ids[0].as_py())
