"""Small crowds with known laws, and degenerate tables that a night can bring."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd


def crowd(seed: int, *, queries: int = 6, items: int = 8, annotators: int = 12, rows: int = 600) -> pd.DataFrame:
    """Preferences of annotators of mixed quality: most are good, a few guess, one lies."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(queries, items))
    quality = np.clip(rng.beta(6, 2, annotators), 0.5, 0.97)
    quality[0] = 0.1
    query = rng.integers(queries, size=rows)
    first = rng.integers(items, size=rows)
    second = (first + rng.integers(1, items, size=rows)) % items
    annotator = rng.integers(annotators, size=rows)
    better = 1.0 / (1.0 + np.exp(scores[query, second] - scores[query, first]))
    chance = quality[annotator] * better + (1.0 - quality[annotator]) * (1.0 - better)
    wins = rng.random(rows) < chance
    return pd.DataFrame(
        {
            "query": [f"q{q}" for q in query],
            "annotator": [f"a{a:02d}" for a in annotator],
            "winner": [f"i{i}" for i in np.where(wins, first, second)],
            "loser": [f"i{i}" for i in np.where(wins, second, first)],
        }
    )


def rated_crowd(
    seed: int, *, queries: int = 6, items: int = 30, annotators: int = 12, rows: int = 600, grades: int = 3
) -> pd.DataFrame:
    """Ratings of annotators of mixed quality: a rating is the true grade, or any; one turns the scale around."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(grades, size=(queries, items))
    quality = np.clip(rng.beta(6, 2, annotators), 0.4, 0.95)
    query, item = rng.integers(queries, size=rows), rng.integers(items, size=rows)
    annotator = rng.integers(annotators, size=rows)
    rating = np.where(rng.random(rows) < quality[annotator], truth[query, item], rng.integers(grades, size=rows))
    return pd.DataFrame(
        {
            "query": [f"q{q}" for q in query],
            "annotator": [f"a{a:02d}" for a in annotator],
            "item": [f"i{i}" for i in item],
            "rating": np.where(annotator == 0, grades - 1 - rating, rating).astype(float),
        }
    )


def rated(*judgments: str) -> pd.DataFrame:
    """`rated("q a x 2", ...)`: in query q, annotator a gives x the rating 2."""
    frame = pd.DataFrame([line.split() for line in judgments], columns=["query", "annotator", "item", "rating"])
    return frame.assign(rating=frame["rating"].astype(float))


def degenerate_ratings() -> dict[str, pd.DataFrame]:
    """The same for ratings."""
    disagree = rated(*(f"q a{k} x{i} {(k + i) % 2}" for k in range(4) for i in range(6)))
    return {
        "one judgment": rated("q a x 1"),
        "one annotator": rated("q a x 1", "q a y 0", "q a z 1"),
        "one label per item": rated(*(f"q a{i % 3} x{i} {i % 2}" for i in range(12))),
        "all the same": rated(*(f"q a{k} x{i} 3" for k in range(3) for i in range(5))),
        "all agree": rated(*(f"q a{k} x{i} {i % 4}" for k in range(4) for i in range(8))),
        "everyone contradicts": disagree,
        "an annotator twice": rated("q a x 1", "q a x 1", "q a x 0", "q b x 0", "q b y 1"),
        "many on one item": rated(*(f"q a{k} x {k % 2}" for k in range(3000)), "q a1 y 1", "q a2 y 0"),
        "many values": rated(*(f"q a{k} x{i} {i + 0.1 * k}" for k in range(5) for i in range(20))),
        "no weight": rated("q a x 1", "q b y 0").assign(weight=0.0),
        "huge weights": rated("q a x 1", "q b x 0", "q c y 1").assign(weight=[1e12, 1.0, 1e6]),
        "tiny weights": rated("q a x 1", "q b x 0", "q c y 1").assign(weight=1e-12),
        "a lonely query": pd.concat([rated_crowd(1, rows=100), rated("lonely a00 x 1")]),
    }


def ranked_crowd(
    seed: int, *, queries: int = 6, items: int = 8, annotators: int = 12, rows: int = 600, most: int = 7
) -> pd.DataFrame:
    """Partial rankings of annotators of mixed quality, with a tie now and then; about so many rows."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(queries, items))
    noise = rng.uniform(0.3, 2.0, annotators)
    lists = []
    for place in range(max(rows // most, 1)):
        query, annotator = place % queries, (place // queries) % annotators
        ranked = rng.permutation(items)[: min(most, items)]
        order = ranked[np.argsort(-(scores[query, ranked] + noise[annotator] * rng.normal(size=len(ranked))))]
        rank = np.arange(1, len(order) + 1)
        rank[1:] -= rng.random() < 0.2  # the first two share a place
        names = {"query": f"q{query}", "annotator": f"a{annotator:02d}"}
        lists += [{**names, "item": f"i{item}", "rank": int(at)} for item, at in zip(order, rank, strict=True)]
    return pd.DataFrame(lists).drop_duplicates(["query", "annotator", "item"])


def ranked(*judgments: str) -> pd.DataFrame:
    """`ranked("q a x y z", ...)`: in query q, annotator a ranks x, y, z from the best to the worst."""
    split = [line.split() for line in judgments]
    return pd.DataFrame(
        [
            {"query": query, "annotator": annotator, "item": item, "rank": place + 1}
            for query, annotator, *items in split
            for place, item in enumerate(items)
        ]
    )


def degenerate_rankings() -> dict[str, pd.DataFrame]:
    """The same for rankings."""
    long = " ".join(f"i{k:03d}" for k in range(200))
    return {
        "one item": ranked("q a x"),
        "one annotator": ranked("q a x y z"),
        "everyone agrees": ranked(*(f"q a{k} u v x y z" for k in range(8))),
        "everyone contradicts": ranked("q a x y z", "q b z y x"),
        "a cycle": ranked("q a x y", "q b y z", "q c z x"),
        "disconnected": ranked("q a x y", "q b u v"),
        "all in one place": ranked("q a x y z", "q b x y").assign(rank=1),
        "a long list": ranked(f"q a {long}", f"q b {long}"),
        "no weight": ranked("q a x y", "q b y x").assign(weight=0.0),
        "a lonely query": pd.concat([ranked_crowd(1, rows=100), ranked("lonely a00 x y")]),
    }


def rows(*judgments: str) -> pd.DataFrame:
    """`rows("q a x y", ...)`: in query q, annotator a prefers x to y."""
    return pd.DataFrame([line.split() for line in judgments], columns=["query", "annotator", "winner", "loser"])


def degenerate() -> dict[str, pd.DataFrame]:
    """Data on which a careless model gives infinities, NaN or an endless loop."""
    chain = [f"i{k:02d}" for k in range(12)]
    return {
        "one judgment": rows("q a x y"),
        "one annotator": rows("q a x y", "q a y z", "q a x z"),
        "separable": pd.concat([rows(*(f"q a{k} {x} {y}" for x, y in pairwise(chain))) for k in range(5)]),
        "a cycle": rows("q a x y", "q a y z", "q a z x", "q b x y", "q b y z", "q b z x"),
        "disconnected": rows("q a x y", "q b x y", "q a u v", "q b v u"),
        "undefeated and winless": rows(
            *(f"q a{k} top i{k}" for k in range(6)), *(f"q a{k} i{k} bottom" for k in range(6))
        ),
        "everyone contradicts": rows(*(f"q a{k} x y" for k in range(4)), *(f"q a{k} y x" for k in range(4))),
        "all ties": rows("q a x y", "q b y z", "q c x z").assign(tie=True),
        "no weight": rows("q a x y", "q b y z").assign(weight=0.0),
        "huge weights": rows("q a x y", "q b y x", "q c x z").assign(weight=[1e12, 1.0, 1e6]),
        "tiny weights": rows("q a x y", "q b y x", "q c x z").assign(weight=1e-12),
        "a lonely query": pd.concat([crowd(1, rows=100), rows("lonely a00 x y")]),
    }
