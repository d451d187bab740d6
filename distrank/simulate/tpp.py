"""Preferences of a crowd whose expertise depends on the domain of the query.  [Wang16], section V.A

s_li     true score of item i in query l         delta_l^2   difficulty: variance of what annotators perceive
m_l      domain of query l                       tau_km      expertise of annotator k in domain m, < 0: malicious

    perceived  p_lik ~ N(s_li, delta_l^2)                                            once per annotator, query and item
    noisy      n_i ~ N(sgn(tau_km) p_lik, tau_km^-2), i over j where n_i > n_j       anew for every comparison; Eq. (2)

A data set has a name in the paper: DOC5SR0.5DEMO1 is 5 items per query, half of all pairs judged by everyone, crowd
demo1; ANNO100SR0.01 is DOC30 and demo1 with 100 annotators. The names of Tables II and III are in DATASETS; settings
that are given change what the name says. Every annotator judges int(sparsity * pairs) distinct pairs of every query.

    version=released   scores are sums of gaps U[0, 1], spammers have tau 0.1: what the authors' program does
    version=text       scores U[0, 1], spammers have tau 1: what the text says, and what cannot give its numbers

Deviation: the authors' "5 runs" are restarts on one data set; here another seed is another data set.

[Wang16] Wang, Wang, Jie, Zhai, Chang: Blind men and the elephant: Thurstonian pairwise preference for ranking in
         crowdsourcing. ICDM 2016.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distrank.errors import UsageError
from distrank.records import Array
from distrank.settings import parse_settings, setting, settings_dict
from distrank.simulate.output import Simulated, Simulator, id_column, text_ids
from distrank.simulate.sampling import Purpose, distinct_samples, pair_of, stream

KINDS = ("expert", "average", "spammer", "malicious")
EXPERTISE = {"released": (10.0, 5.0, 0.1, -10.0), "text": (10.0, 5.0, 1.0, -10.0)}  # by kind
CROWDS = {"demo1": (0.2, 0.6, 0.1, 0.1), "demo2": (0.2, 0.4, 0.3, 0.1), "demo3": (0.2, 0.4, 0.1, 0.3)}
HARDEST = 0.1  # delta^2 ~ U[0, this]
TABLE_2 = (
    *("DOC5SR1.0DEMO1", "DOC5SR0.5DEMO1", "DOC5SR0.5DEMO2", "DOC5SR0.5DEMO3"),
    *("DOC30SR0.1DEMO1", "DOC30SR0.05DEMO1", "DOC30SR0.05DEMO2", "DOC30SR0.05DEMO3"),
)
TABLE_3 = ("ANNO100SR0.01", "ANNO100SR0.02", "ANNO200SR0.01", "ANNO200SR0.02")
DATASETS = (*TABLE_2, *TABLE_3)
MOST_ROWS = 100_000_000


@dataclass(frozen=True)
class TPPSimulation:
    """What `distrank simulate tpp` takes; what is none follows from `dataset`."""

    dataset: str = setting("DOC5SR0.5DEMO1", "a data set of Table II or III, to start from", choices=DATASETS)
    queries: int = setting(100, "number of queries", low=1)
    items: int | None = setting(None, "items of every query (DOC)", low=2)
    annotators: int | None = setting(None, "number of annotators (ANNO; 10 in Table II)", low=1)
    domains: int = setting(10, "number of domains", low=1)
    sparsity: float | None = setting(
        None, "share of a query's pairs that every annotator judges (SR)", above=0.0, high=1.0
    )
    crowd: str | None = setting(None, "shares of experts, average, spammers, malicious (DEMO)", choices=tuple(CROWDS))
    version: str = setting("released", "the authors' program, or the text of the paper", choices=tuple(EXPERTISE))
    domain_law: str = setting("drawn", "domains of queries: drawn uniformly, or even shares", choices=("drawn", "even"))
    ids: str = setting("text", "ids as text (q07, q07-i03, a12) or as whole numbers", choices=("text", "int"))
    seed: int = setting(0, "seed of all random numbers", low=0)


@dataclass(frozen=True)
class TPPCodes:
    """The data as codes. Items of query l are l * items + 0..items-1."""

    query: Array
    annotator: Array
    winner: Array
    loser: Array
    score: Array  # by item
    difficulty: Array  # delta^2 by query
    domain: Array  # by query
    tau: Array  # by annotator and domain
    kind: Array  # by annotator and domain: a number of KINDS


@dataclass(frozen=True)
class _Size:
    """The settings with everything that the name of the data set said."""

    items: int
    annotators: int
    pairs: int  # judged by every annotator in every query
    shares: tuple[float, ...]


def simulate_tpp(**settings: Any) -> Simulated:
    """Simulate with the settings of `TPPSimulation`; tables preferences, gold, expertise and queries.

    preferences   query, annotator, winner, loser
    gold          query, item, relevance: the true score
    expertise     annotator, domain, tau, kind
    queries       query, domain, difficulty
    """
    return simulated_tables(parse_settings(TPPSimulation, settings))


def simulated_tables(settings: TPPSimulation) -> Simulated:
    """The simulation as tables with ids."""
    codes, size = tpp_codes(settings), _size(settings)
    queries, annotators, items = _ids(settings, size) if settings.ids == "text" else (None, None, None)
    numbers = np.arange(settings.queries)
    preferences = {
        "query": id_column(codes.query, queries),
        "annotator": id_column(codes.annotator, annotators),
        "winner": id_column(codes.winner, items),
        "loser": id_column(codes.loser, items),
    }
    gold = {
        "query": id_column(np.repeat(numbers, size.items), queries),
        "item": id_column(np.arange(len(codes.score)), items),
        "relevance": codes.score,
    }
    expertise = {
        "annotator": id_column(np.repeat(np.arange(size.annotators), settings.domains), annotators),
        "domain": np.tile(np.arange(settings.domains), size.annotators),
        "tau": codes.tau.ravel(),
        "kind": pa.array([KINDS[kind] for kind in codes.kind.ravel()], pa.string()),
    }
    about = {"query": id_column(numbers, queries), "domain": codes.domain, "difficulty": codes.difficulty}
    tables = {"preferences": preferences, "gold": gold, "expertise": expertise, "queries": about}
    return Simulated({name: pa.table(columns) for name, columns in tables.items()})


def tpp_codes(settings: TPPSimulation) -> TPPCodes:
    """The simulation as codes."""
    settings = parse_settings(TPPSimulation, settings_dict(settings))  # also if it was built by hand
    size = _size(settings)
    queries, domains = settings.queries, settings.domains
    kind = stream(settings.seed, Purpose.QUALITY).choice(len(KINDS), (size.annotators, domains), p=size.shares)
    tau = np.array(EXPERTISE[settings.version])[kind]
    parts = stream(settings.seed, Purpose.QUERIES)
    difficulty = parts.uniform(0.0, HARDEST, queries)
    domain = parts.permutation(np.arange(queries) % domains)
    if settings.domain_law == "drawn":
        domain = parts.integers(0, domains, queries)
    score = stream(settings.seed, Purpose.SCORES).random((queries, size.items))
    if settings.version == "released":
        score = np.cumsum(score, axis=1)
    score = stream(settings.seed, Purpose.ORDER).permuted(score, axis=1)
    query, annotator, winner, loser = _answers(settings, size, score, difficulty, tau[:, domain].T)
    return TPPCodes(query, annotator, winner, loser, score.ravel(), difficulty, domain, tau, kind)


def _size(settings: TPPSimulation) -> _Size:
    """What the name says, unless a setting says something else."""
    named = re.fullmatch(r"(?:DOC(\d+)|ANNO(\d+))SR([\d.]+)(?:(DEMO\d))?", settings.dataset)
    if named is None:
        raise UsageError(f"dataset={settings.dataset!r}: expected one of {', '.join(DATASETS)}")
    doc, anno, sparsity, demo = named.groups()
    items = settings.items or int(doc or 30)
    annotators = settings.annotators or int(anno or 10)
    possible = items * (items - 1) // 2
    pairs = int(possible * (settings.sparsity or float(sparsity)) + 1e-9)
    if pairs == 0:
        raise UsageError(
            f"sparsity={settings.sparsity or sparsity}: less than one of {possible} pairs; use a larger one"
        )
    if settings.queries * annotators * pairs > MOST_ROWS:
        raise UsageError(f"this makes {settings.queries * annotators * pairs:,} preferences, above {MOST_ROWS:,}")
    return _Size(items, annotators, pairs, CROWDS[settings.crowd or (demo or "DEMO1").lower()])


def _answers(settings: TPPSimulation, size: _Size, score: Array, difficulty: Array, tau: Array) -> list[Array]:
    """query, annotator, winner, loser of every preference; `tau` by query and annotator. Queries one after another."""
    streams = [stream(settings.seed, purpose) for purpose in (Purpose.ANNOTATORS, Purpose.PAIRS, Purpose.OUTCOMES)]
    perceiving, choosing, comparing = streams
    possible, each = size.items * (size.items - 1) // 2, size.annotators * size.pairs
    columns = [np.empty(settings.queries * each, np.int32) for _ in range(4)]
    for query in range(settings.queries):
        spread = np.sqrt(difficulty[query])
        perceived = score[query] + spread * perceiving.standard_normal((size.annotators, size.items))
        low, high = pair_of(distinct_samples(choosing, size.annotators, size.pairs, possible).ravel())
        annotator = np.repeat(np.arange(size.annotators), size.pairs)
        mine = tau[query, annotator]
        difference = np.sign(mine) * (perceived[annotator, low] - perceived[annotator, high])
        noise = comparing.standard_normal((each, 2)) / np.abs(mine)[:, None]
        wins = difference + noise[:, 0] - noise[:, 1] >= 0.0  # Eq. (1)
        here, first = slice(query * each, (query + 1) * each), query * size.items
        columns[0][here], columns[1][here] = query, annotator
        columns[2][here], columns[3][here] = first + np.where(wins, low, high), first + np.where(wins, high, low)
    return columns


def _ids(settings: TPPSimulation, size: _Size) -> tuple[Any, Any, Any]:
    """Ids of queries, annotators and items; an item carries its query's id."""
    queries, annotators = text_ids("q", settings.queries), text_ids("a", size.annotators)
    query = queries.take(pa.array(np.repeat(np.arange(settings.queries), size.items)))
    item = text_ids("i", size.items).take(pa.array(np.tile(np.arange(size.items), settings.queries)))
    return queries, annotators, pc.binary_join_element_wise(query, item, "-")


SIMULATOR = Simulator(
    title="preferences of annotators with expertise by domain, on queries of different difficulty",
    paper="Wang et al., ICDM 2016",
    Settings=TPPSimulation,
    run=simulated_tables,
)
