"""Rankings and queries where the units are items: what the shards give, put together query by query.

The items of one query may lie in several shards (a table without queries is one query with all the items), so ranks and
what is known of a query as a whole can only be made when all shards are together. Everything that needs no ids is codes
and numbers; the ids themselves are moved once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from distrank.kernels.grouping import count_runs, tally
from distrank.records import Array
from distrank.tables.judgments import Judgments
from distrank.tables.order import canonical_order
from distrank.tables.units import Layout, Units

_COUNTS = ("items", "annotators", "judgments", "components")


@dataclass(frozen=True)
class ItemLayout:
    """The order in which items come out of the shards, and what is known of their queries before any fit."""

    order: Array  # the number of every item, in code order of query and item, as shards hand them out
    query: Array  # the query of every item by number, counted from 0 without gaps
    annotators: Array  # distinct annotators of every query


def item_layout(judgments: Judgments, units: Units, layout: Layout) -> ItemLayout:
    """Remember where items went."""
    present, query = np.unique(units.query, return_inverse=True)
    row_query = np.zeros(len(judgments.queries), np.uint32)
    row_query[present] = np.arange(len(present), dtype=np.uint32)
    kinds = [len(present), len(judgments.annotators)]
    (ordered, annotator), _ = canonical_order([row_query[judgments.query], judgments.annotator], kinds, [])
    offsets = np.concatenate([[0], np.cumsum(tally(ordered, len(present)))])
    return ItemLayout(np.concatenate(layout.members), query, count_runs(offsets, annotator))


def merged_items(
    layout: ItemLayout, rankings: Sequence[pa.Table], queries: Sequence[pa.Table]
) -> tuple[pa.Table, pa.Table]:
    """The rankings of all items, best first within a query and equal scores by item id; and the table of the queries.

    Columns of a query that a model has by item are means over the judgments.
    """
    place = np.empty(len(layout.order), np.int64)
    place[layout.order] = np.arange(len(layout.order))  # items in code order
    ranking = pa.concat_tables(rankings).combine_chunks()
    score = ranking["score"].to_numpy()[place]
    by_rank = np.lexsort((-score, layout.query))  # stable: equal scores stay in code order
    first = np.searchsorted(layout.query, np.arange(len(layout.annotators)))
    rank = np.arange(len(place)) - first[layout.query] + 1
    ranked = ranking.take(pa.array(place[by_rank]))
    ranked = ranked.set_column(ranked.column_names.index("rank"), "rank", pa.array(rank))
    return ranked, _queries(layout, pa.concat_tables(queries).combine_chunks(), place, first)


def _queries(layout: ItemLayout, table: pa.Table, place: Array, first: Array) -> pa.Table:
    items = np.diff(np.append(first, len(place)))
    judgments = table["judgments"].to_numpy()[place]
    total = np.add.reduceat(judgments, first) if len(first) else judgments
    columns = {
        "query": table["query"].take(pa.array(place[first])),
        "items": items,
        "annotators": layout.annotators,
        "judgments": total,
    }
    for name in table.column_names:
        if name not in ("query", *_COUNTS):
            sums = np.add.reduceat(table[name].to_numpy()[place] * judgments, first) if len(first) else judgments
            columns[name] = sums / total
    return pa.table(columns)
