"""Preferences of a crowd of mixed quality over items with a true order.  [Chen13], section 5.1

s_i    true score of item i          eta_k  P(annotator k reports the true order of a pair)

    law=truth   s is a permutation of 1..items; i over j is reported with probability eta_k where s_i > s_j
    law=model   s ~ N(0, 1); P(k reports i over j) = eta_k p + (1 - eta_k)(1 - p), p = e^s_i / (e^s_i + e^s_j); Eq. (5)

Every query has its own items; annotators are shared by all queries. Either every query gets `pairs` distinct pairs,
each judged by `annotators_per_pair` distinct annotators, or there are `judgments` rows with query, pair and annotator
drawn uniformly. The paper's Table 1 is one query, items=100, annotators=100, pairs=400, annotators_per_pair=10,
law=truth, with quality=beta:2,1 for its third column.

[Chen13] Chen, Bennett, Collins-Thompson, Horvitz: Pairwise ranking aggregation in a crowdsourced setting. WSDM 2013.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distrank.errors import UsageError
from distrank.kernels import kernel
from distrank.records import Array
from distrank.settings import parse_settings, setting, settings_dict
from distrank.simulate.output import Simulated, Simulator, id_column, text_ids
from distrank.simulate.quality import draw_quality, kinds_of
from distrank.simulate.sampling import Purpose, distinct_samples, pair_of, stream

BLOCK = 1 << 20  # rows that are drawn at a time
MOST_ROWS = 200_000_000
MOST_ITEMS = 2**31 - 1  # item codes are 32-bit


@dataclass(frozen=True)
class CrowdBTSimulation:
    """What `distrank simulate crowd-bt` takes."""

    queries: int = setting(1, "number of queries", low=1)
    items: int = setting(100, "items of every query", low=2)
    annotators: int = setting(100, "number of annotators", low=1)
    pairs: int | None = setting(None, "distinct pairs judged in every query (none: all of them)", low=1)
    annotators_per_pair: int = setting(5, "distinct annotators who judge each pair", low=1)
    judgments: int | None = setting(
        None, "total number of preferences, of random pairs by random annotators; pairs is then not given", low=1
    )
    quality: str = setting("beta:5,1", "annotator quality: beta:A,B or fixed:Q or mixture[:expert=0.3,average=...]")
    malicious: float = setting(0.0, "share of annotators whose quality is turned into 1 - quality", low=0.0, high=1.0)
    law: str = setting(
        "truth", "truth: right with probability quality; model: scores N(0,1), equation 5", choices=("truth", "model")
    )
    ids: str = setting("text", "ids as text (q07, q07-i03, a12) or as whole numbers", choices=("text", "int"))
    seed: int = setting(0, "seed of all random numbers", low=0)


@dataclass(frozen=True)
class CrowdBTCodes:
    """The data as 32-bit codes, for whoever needs no tables. Items of query q are q * items + 0..items-1."""

    query: Array
    annotator: Array
    winner: Array
    loser: Array
    score: Array  # true score of every item
    quality: Array  # true quality of every annotator


def simulate_crowd_bt(**settings: Any) -> Simulated:
    """Simulate with the settings of `CrowdBTSimulation`; tables preferences, gold and annotators.

    preferences   query, annotator, winner, loser
    gold          query, item, relevance: the true score
    annotators    annotator, quality, kind: the true quality, and its kind by the limits that the results use
    """
    return simulated_tables(parse_settings(CrowdBTSimulation, settings))


def simulated_tables(settings: CrowdBTSimulation) -> Simulated:
    """The simulation as tables with ids."""
    codes = crowd_bt_codes(settings)
    queries, annotators, items = _ids(settings) if settings.ids == "text" else (None, None, None)
    preferences = pa.table(
        {
            "query": id_column(codes.query, queries),
            "annotator": id_column(codes.annotator, annotators),
            "winner": id_column(codes.winner, items),
            "loser": id_column(codes.loser, items),
        }
    )
    gold = pa.table(
        {
            "query": id_column(np.repeat(np.arange(settings.queries), settings.items), queries),
            "item": id_column(np.arange(len(codes.score)), items),
            "relevance": codes.score.astype(np.int64) if settings.law == "truth" else codes.score,
        }
    )
    truth = pa.table(
        {
            "annotator": id_column(np.arange(settings.annotators), annotators),
            "quality": codes.quality,
            "kind": pa.array(kinds_of(codes.quality), pa.string()),
        }
    )
    return Simulated({"preferences": preferences, "gold": gold, "annotators": truth})


def crowd_bt_codes(settings: CrowdBTSimulation) -> CrowdBTCodes:
    """The simulation as codes: 16 bytes per preference."""
    settings = parse_settings(CrowdBTSimulation, settings_dict(settings))  # also if it was built by hand
    rows = _checked_rows(settings)
    quality = draw_quality(
        settings.quality, settings.annotators, settings.malicious, stream(settings.seed, Purpose.QUALITY)
    )
    score = _true_scores(settings)
    query, annotator, winner, loser = (np.empty(rows, np.int32) for _ in range(4))
    outcomes = stream(settings.seed, Purpose.OUTCOMES)
    start = 0
    for block in _random_rows(settings, rows) if settings.judgments is not None else _designed_rows(settings):
        end = start + len(block.query)
        query[start:end], annotator[start:end] = block.query, block.annotator
        chance = outcomes.random(end - start)
        answers = winner[start:end], loser[start:end]
        _answer(block.left, block.right, block.annotator, chance, score, quality, settings.law == "model", *answers)
        start = end
    return CrowdBTCodes(query, annotator, winner, loser, score, quality)


@dataclass(frozen=True)
class _Asked:
    """Who was asked about which pair; left and right are items of the whole simulation."""

    query: Array
    annotator: Array
    left: Array
    right: Array


def _checked_rows(settings: CrowdBTSimulation) -> int:
    """The number of preferences, if the settings fit together."""
    possible = settings.items * (settings.items - 1) // 2
    if settings.queries * settings.items > MOST_ITEMS:
        raise UsageError(f"queries={settings.queries} x items={settings.items}: at most {MOST_ITEMS:,} items in all")
    if settings.judgments is not None:
        if settings.pairs is not None:
            raise UsageError("give judgments (random rows) or pairs (a design), not both")
        rows = settings.judgments
    else:
        if settings.pairs is not None and settings.pairs > possible:
            raise UsageError(f"pairs={settings.pairs}: {settings.items} items have only {possible} distinct pairs")
        if settings.annotators_per_pair > settings.annotators:
            raise UsageError(
                f"annotators_per_pair={settings.annotators_per_pair}: there are only {settings.annotators} annotators"
            )
        rows = settings.queries * (settings.pairs or possible) * settings.annotators_per_pair
    if rows > MOST_ROWS:
        raise UsageError(f"this makes {rows:,} preferences, above {MOST_ROWS:,}: set pairs or judgments lower")
    return rows


def _true_scores(settings: CrowdBTSimulation) -> Array:
    generator = stream(settings.seed, Purpose.SCORES)
    if settings.law == "model":
        return generator.standard_normal(settings.queries * settings.items)
    ordered = np.tile(np.arange(1.0, settings.items + 1), (settings.queries, 1))
    return generator.permuted(ordered, axis=1).ravel()


def _designed_rows(settings: CrowdBTSimulation) -> Iterator[_Asked]:
    """Distinct pairs, distinct annotators for each; the rows of a query in random order, queries one after another."""
    possible, asked = settings.items * (settings.items - 1) // 2, settings.annotators_per_pair
    pairs = settings.pairs or possible
    generators = [stream(settings.seed, purpose) for purpose in (Purpose.PAIRS, Purpose.ANNOTATORS, Purpose.ORDER)]
    step = max(1, BLOCK // (pairs * asked))  # whole queries
    for first in range(0, settings.queries, step):
        count = min(step, settings.queries - first)
        low, high = pair_of(distinct_samples(generators[0], count, pairs, possible).ravel())
        annotator = distinct_samples(generators[1], count * pairs, asked, settings.annotators).ravel()
        places = np.arange(count * pairs * asked).reshape(count, pairs * asked)
        order = generators[2].permuted(places, axis=1).ravel()
        pair = order // asked
        query = first + pair // pairs
        yield _Asked(query, annotator[order], query * settings.items + low[pair], query * settings.items + high[pair])


def _random_rows(settings: CrowdBTSimulation, rows: int) -> Iterator[_Asked]:
    """Query, pair and annotator of every row drawn uniformly; the same question may come again."""
    purposes = (Purpose.QUERIES, Purpose.PAIRS, Purpose.ANNOTATORS)
    queries, pairs, annotators = (stream(settings.seed, purpose) for purpose in purposes)
    for start in range(0, rows, BLOCK):
        count = min(BLOCK, rows - start)
        query = queries.integers(0, settings.queries, count)
        # One draw per row, so that the size of a block is no part of the result.
        left, right = np.divmod(pairs.integers(0, settings.items * (settings.items - 1), count), settings.items - 1)
        right += right >= left
        annotator = annotators.integers(0, settings.annotators, count)
        yield _Asked(query, annotator, query * settings.items + left, query * settings.items + right)


@kernel
def _answer(
    left: Array,
    right: Array,
    annotator: Array,
    chance: Array,  # uniform in [0, 1)
    score: Array,
    quality: Array,
    by_model: bool,
    winner: Array,
    loser: Array,
) -> None:
    """Fill in winner and loser of every row."""
    for row in range(len(left)):
        i, j, eta = left[row], right[row], quality[annotator[row]]
        difference = score[i] - score[j]
        if by_model:
            p = 1.0 / (1.0 + np.exp(-difference))
            reports_left = eta * p + (1.0 - eta) * (1.0 - p)  # [Chen13] Eq. (5)
        else:
            reports_left = eta if difference > 0.0 else 1.0 - eta
        if chance[row] < reports_left:
            winner[row], loser[row] = i, j
        else:
            winner[row], loser[row] = j, i


def _ids(settings: CrowdBTSimulation) -> tuple[Any, Any, Any]:
    """Ids of queries, annotators and items; an item carries its query's id where there are several queries."""
    queries, annotators = text_ids("q", settings.queries), text_ids("a", settings.annotators)
    items = text_ids("i", settings.items)
    if settings.queries > 1:
        query = queries.take(pa.array(np.repeat(np.arange(settings.queries), settings.items)))
        item = items.take(pa.array(np.tile(np.arange(settings.items), settings.queries)))
        items = pc.binary_join_element_wise(query, item, "-")
    return queries, annotators, items


SIMULATOR = Simulator(
    title="preferences of annotators of mixed quality over items with a true order",
    paper="Chen et al., WSDM 2013",
    Settings=CrowdBTSimulation,
    run=simulated_tables,
)
