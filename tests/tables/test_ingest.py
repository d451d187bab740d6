"""The ingest that is spread over an engine gives the shards of the one that reads everything, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distrank.contract import Form
from distrank.errors import InputError
from distrank.records import digest, frozen
from distrank.tables import blocks
from distrank.tables.gold import gold_from_frame
from distrank.tables.ingest import ingest, ingested_shards
from distrank.tables.outputs import annotators_table
from distrank.tables.read import read_judgments
from distrank.tables.shards import Sharded, build_shards
from distrank.tables.starts import Earlier, started


def here(function: Callable[[Any], Any], items: Any, what: str) -> list[Any]:
    return [function(item) for item in items]


def preferences(rows: int = 4000, seed: int = 0, queries: int = 40) -> pd.DataFrame:
    """Queries of very different sizes: one has a third of all rows."""
    random = np.random.default_rng(seed)
    query = np.where(random.random(rows) < 0.33, 7, random.integers(0, queries, rows))
    one, step = random.integers(0, 12, rows), random.integers(1, 12, rows)
    columns = {"query": query, "annotator": random.integers(0, 30, rows)}
    frame = pd.DataFrame({**columns, "winner": one, "loser": (one + step) % 12})
    return frame.assign(query="q" + frame["query"].astype(str), annotator="a" + frame["annotator"].astype(str))


def split_files(frame: pd.DataFrame, folder: Path, files: int = 5) -> Path:
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(frame)), files)):
        table = pa.Table.from_pandas(frame.iloc[part], preserve_index=False)
        pq.write_table(table, folder / f"{number:02d}.parquet", row_group_size=300)
    return folder


def records(sharded: Sharded) -> dict[str, list[str]]:
    source = sharded.source
    return {
        name: [digest([frozen(source.load(name, number))]) for number in range(len(counts))]
        for name, counts in source.rows.items()
    }


def assert_same(one: Sharded, other: Sharded) -> None:
    assert records(one) == records(other)
    assert one.source.rows == other.source.rows
    assert one.annotators.equals(other.annotators)
    assert (one.query_type, one.item_type, one.warnings) == (other.query_type, other.item_type, other.warnings)
    for name, value in vars(one.info).items():
        if isinstance(value, np.ndarray):
            assert np.array_equal(value, getattr(other.info, name)), name
        elif name != "start":
            assert value == getattr(other.info, name), name


def both(
    source: Path, work: Path, form: Form = "preferences", *, cut: int = 250_000, **options: Any
) -> tuple[Sharded, Sharded, Any, Any]:
    judgments = read_judgments(str(source))
    ingested = ingest(str(source), {}, work / "blocks", here)
    whole = build_shards(judgments, form=form, rows_per_shard=cut, **options)
    spread = ingested_shards(ingested, work / "shards", here, form=form, rows_per_shard=cut, **options)
    return whole, spread, judgments, ingested


@pytest.mark.parametrize("cut", [250_000, 500, 60])
@pytest.mark.parametrize("block", [1_000_000, 500])
def test_preferences(cut: int, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks.cut, "__defaults__", (block,))
    monkeypatch.setattr("distrank.tables.ingest.ROWS_PER_SHARD", 300)  # many buckets
    source = split_files(preferences(), tmp_path / "in")
    whole, spread, judgments, ingested = both(source, tmp_path, cut=cut)
    assert_same(spread, whole)
    assert ingested.content == judgments.content
    assert ingested.counts == judgments.counts
    assert list(ingested.files) == list(judgments.files)
    assert (whole.info.split_items != ()) == (cut < 2000)


@pytest.mark.parametrize("form", ["ratings", "rankings"])
@pytest.mark.parametrize("goal", ["own", "preferences"])
@pytest.mark.parametrize("cut", [250_000, 400])
def test_ratings_and_rankings(form: Form, goal: str, cut: int, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    frame = pd.DataFrame(
        [(f"q{q}", a, i) for q in range(20) for a in range(8) for i in random.permutation(9)[: random.integers(1, 9)]],
        columns=["query", "annotator", "item"],
    )
    frame["rating" if form == "ratings" else "rank"] = random.integers(1, 5, len(frame))
    source = split_files(frame.sample(frac=1.0, random_state=1), tmp_path / "in", 3)
    whole, spread, *_ = both(source, tmp_path, form if goal == "own" else "preferences", cut=cut)
    assert_same(spread, whole)


def test_files_that_differ_in_their_optional_columns_and_formats(tmp_path: Path) -> None:
    frame, folder = preferences(900), tmp_path / "in"
    folder.mkdir()
    frame = frame.astype(str)
    frame.iloc[:300].to_parquet(folder / "a.parquet")
    frame.iloc[300:600].assign(tie=np.arange(300) % 5 == 0).to_csv(folder / "b.csv", index=False)
    frame.iloc[600:].assign(weight=2.0).to_json(folder / "c.jsonl", orient="records", lines=True)
    whole, spread, judgments, ingested = both(folder, tmp_path, cut=100)
    assert_same(spread, whole)
    assert ingested.content == judgments.content


def test_rejected_rows_keep_their_places(tmp_path: Path) -> None:
    frame = preferences(2000)
    frame.loc[::97, "loser"] = frame.loc[::97, "winner"]
    frame.loc[::61, "annotator"] = None
    source = split_files(frame, tmp_path / "in", 2)
    whole, spread, judgments, ingested = both(source, tmp_path)
    assert_same(spread, whole)
    assert ingested.counts == judgments.counts
    assert ingested.rejected.equals(judgments.rejected)
    for one in (judgments, ingested):
        with pytest.raises(InputError, match="rows were rejected"):
            one.check_limit(0.001)


def test_gold_and_starts_find_their_items(tmp_path: Path) -> None:
    source = split_files(preferences(), tmp_path / "in")
    grades = pd.DataFrame(
        {"query": ["q1", "q7", "q2", "nobody"], "item": [1, 2, 3, 4], "relevance": [1.0, 2.0, 3.0, 4.0]}
    )
    pairs = pd.DataFrame({"query": ["q7", "q7", "x"], "winner": [1, 2, 3], "loser": [4, 5, 6]})
    for place, table in enumerate((grades, pairs)):
        gold = gold_from_frame(table)
        whole, spread, *_ = both(source, tmp_path / f"{place}", cut=500, gold=gold)
        assert whole.warnings
        assert_same(spread, whole)
    rankings = pa.table({"query": ["q7", "q3"], "item": [1, 2], "score": [0.5, -0.5]})
    people = annotators_table(pa.array(["a1"]), {"quality": np.array([0.9])}, _one_annotator())
    earlier = Earlier.of("run", rankings, people, {})
    judgments = read_judgments(str(source))
    whole = started(build_shards(judgments, form="preferences", rows_per_shard=500), earlier)
    ingested = ingest(str(source), {}, tmp_path / "blocks", here)
    spread = ingested_shards(
        ingested, tmp_path / "shards", here, form="preferences", rows_per_shard=500, earlier=earlier
    )
    assert_same(spread, whole)
    assert spread.info.start is not None
    assert whole.info.start is not None
    assert np.array_equal(
        spread.info.start.annotators["quality"], whole.info.start.annotators["quality"], equal_nan=True
    )


def _one_annotator() -> Any:
    from distrank.contract import Info

    return Info(1, 1, 1, 1, np.array([10]), {})


def test_what_cannot_be_used_is_refused_in_the_same_words(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    preferences(50).to_parquet(folder / "a.parquet")
    preferences(50).astype({"winner": str, "loser": str}).to_parquet(folder / "b.parquet")
    for read in (lambda: read_judgments(str(folder)), lambda: ingest(str(folder), {}, tmp_path / "blocks", here)):
        with pytest.raises(InputError, match=r"ids must have one type in all files and columns"):
            read()
    (folder / "b.parquet").write_bytes((folder / "a.parquet").read_bytes()[:-30])
    with pytest.raises(InputError, match=r"b\.parquet: not a complete Parquet file"):
        ingest(str(folder), {}, tmp_path / "blocks", here)
