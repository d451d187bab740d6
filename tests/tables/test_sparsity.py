"""Preferences sampled from rankings: the same for all methods, row orders and shards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from distrank import Borda, BradleyTerry
from distrank.errors import UsageError
from distrank.tables.read import judgments_from_frame
from distrank.tables.shards import build_shards


def rankings(queries: int = 12, annotators: int = 10, items: int = 12) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        [
            {"query": f"q{q}", "annotator": f"a{k}", "item": f"i{item}", "rank": place + 1}
            for q in range(queries)
            for k in range(annotators)
            for place, item in enumerate(rng.permutation(items))
        ]
    )


def pairs(
    frame: pd.DataFrame, sparsity: float, *, seed: int = 0, rows_per_shard: int = 250_000
) -> set[tuple[int, ...]]:
    """(query hash, annotator, winner, loser) of all derived preferences; items by their place in the query."""
    judgments = replace(judgments_from_frame(frame), sparsity=sparsity, seed=seed)
    sharded = build_shards(judgments, form="preferences", rows_per_shard=rows_per_shard)
    found = set()
    for shard in (shard for kind in sharded.source.sets.values() for shard in kind):
        nodes, rows = shard["unit.nodes"], shard["unit.rows"]
        for unit, word in enumerate(shard["unit.hash"].tolist()):
            for r in range(rows[unit], rows[unit + 1]):
                row = (
                    shard["row.annotator"][r],
                    shard["row.winner"][r] - nodes[unit],
                    shard["row.loser"][r] - nodes[unit],
                )
                found.add((word, *(int(value) for value in row)))
    return found


def test_the_share_is_kept_and_nothing_is_invented() -> None:
    frame = rankings()
    everything, fifth = pairs(frame, 1.0), pairs(frame, 0.2)
    assert len(everything) == 12 * 10 * 66
    assert fifth < everything
    share = len(fifth) / len(everything)
    assert share == pytest.approx(0.2, abs=4 * (0.16 / len(everything)) ** 0.5)


def test_the_sample_is_nested_seeded_and_independent_of_order_and_cut() -> None:
    frame = rankings()
    fifth = pairs(frame, 0.2)
    assert fifth < pairs(frame, 0.5)
    assert fifth == pairs(frame.sample(frac=1.0, random_state=2), 0.2)
    assert fifth == pairs(frame, 0.2, rows_per_shard=900)  # several shards
    assert fifth == pairs(frame, 0.2, rows_per_shard=300)  # split queries
    assert fifth != pairs(frame, 0.2, seed=1)


def test_methods_see_the_same_preferences() -> None:
    """A win fraction of 0 or 1 shows which pairs an item was in: both methods must agree on the undefeated."""
    frame = rankings(queries=3, annotators=2)
    borda = Borda(sparsity=0.1).fit(frame, seed=5).rankings.set_index(["query", "item"])["score"]
    again = Borda(sparsity=0.1).fit(frame, seed=5).rankings.set_index(["query", "item"])["score"]
    scores = BradleyTerry(sparsity=0.1).fit(frame, seed=5).rankings.set_index(["query", "item"])["score"]
    assert (borda == again).all()
    assert (scores[borda.index][borda == 1.0] > 0).all()
    assert (scores[borda.index][borda == 0.0] < 0).all()


def test_preferences_cannot_be_thinned() -> None:
    frame = pd.DataFrame({"query": ["q"], "annotator": ["a"], "winner": ["x"], "loser": ["y"]})
    with pytest.raises(UsageError, match="sparsity"):
        Borda(sparsity=0.5).fit(frame)
    with pytest.raises(UsageError, match="sparsity"):
        Borda(sparsity=0.0)
