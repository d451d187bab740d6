"""The same rows give the same judgments, whatever file, format, split or order they come in."""

from __future__ import annotations

import datetime as dt
import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables_help import FORMATS, bytes_of, preferences, shuffled, write, write_bytes

from distrank.errors import InputError, UsageError
from distrank.tables.formats import ParquetTable
from distrank.tables.gold import read_gold
from distrank.tables.read import judgments_from_frame, read_judgments, read_table
from distrank.tables.shards import build_shards
from distrank.tables.sources import find_files

TABLE = preferences(200)
EXPECTED = judgments_from_frame(TABLE)
SHARDS = bytes_of(build_shards(EXPECTED, form="preferences", rows_per_shard=30))


def same(judgments):
    assert judgments.content == EXPECTED.content
    assert bytes_of(build_shards(judgments, form="preferences", rows_per_shard=30)) == SHARDS
    assert judgments.counts.read == judgments.counts.accepted == 200


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_gives_the_same_judgments(tmp_path, ending):
    same(read_judgments(write(tmp_path / f"judgments{ending}", shuffled(TABLE))))


@pytest.mark.parametrize("endings", [[".csv"] * 7, [".parquet", ".csv.gz", ".jsonl", ".arrow"]])
def test_file_splits_and_mixed_formats_never_show(tmp_path, endings):
    rows = shuffled(TABLE)
    edges = np.linspace(0, rows.num_rows, len(endings) + 1).astype(int)
    for number, ending in enumerate(endings):
        write(tmp_path / f"part-{number}{ending}", rows.slice(edges[number], edges[number + 1] - edges[number]))
    (tmp_path / "_SUCCESS").write_bytes(b"")
    (tmp_path / ".hidden.csv").write_bytes(b"not,data\n")
    same(read_judgments(tmp_path))
    same(read_judgments(str(tmp_path)))
    same(read_judgments(tmp_path.as_uri()))
    same(read_judgments(sorted(path for path in tmp_path.iterdir() if path.name.startswith("part"))))


@pytest.mark.parametrize("column", ["query", "annotator", "weight"])
def test_partition_columns_are_columns(tmp_path, column):
    rows = shuffled(TABLE)
    for value in rows[column].unique().to_pylist():
        folder = tmp_path / f"{column}={value.replace(' ', '%20')}"
        folder.mkdir()
        mask = [other == value for other in rows[column].to_pylist()]
        write(folder / "part.parquet", rows.filter(pa.array(mask)).drop_columns([column]))
    same(read_judgments(tmp_path))


def test_a_missing_partition_value_is_a_missing_id(tmp_path):
    (tmp_path / "query=__HIVE_DEFAULT_PARTITION__").mkdir()
    (tmp_path / "query=q").mkdir()
    for folder in tmp_path.iterdir():
        write(folder / "part.csv", TABLE.drop_columns(["query"]).slice(0, 3))
    judgments = read_judgments(tmp_path)
    assert judgments.counts.by_reason == {"query is null or empty": 3}
    assert judgments.queries.to_pylist() == ["q"]


def test_row_groups_and_dictionaries_never_show(tmp_path):
    pq.write_table(TABLE, tmp_path / "small.parquet", row_group_size=7)
    same(read_judgments(tmp_path / "small.parquet"))
    pq.write_table(TABLE, tmp_path / "plain.parquet", use_dictionary=False)
    same(read_judgments(tmp_path / "plain.parquet"))
    encoded = pa.table({name: TABLE[name].dictionary_encode() for name in TABLE.column_names})
    same(judgments_from_frame(encoded))
    same(read_judgments(write(tmp_path / "dictionaries.arrow", encoded)))
    same(judgments_from_frame(TABLE.cast(pa.schema([(name, pa.large_string()) for name in TABLE.column_names]))))
    same(judgments_from_frame(TABLE.cast(pa.schema([(name, pa.string_view()) for name in TABLE.column_names]))))


def test_dictionaries_that_change_from_row_group_to_row_group(tmp_path):
    rows = 60_000
    ids = pa.array([f"item {(number * number // 7919) % (1 + number // 5000)}" for number in range(rows)])
    table = pa.table({"annotator": ids, "item": ids, "rating": np.arange(rows) % 5})
    path = tmp_path / "groups.parquet"
    pq.write_table(table, path, row_group_size=5000)
    (file,) = find_files(path)
    (batch, *_) = ParquetTable(file).batches(["item"], ["item"])
    assert pa.types.is_dictionary(batch.columns["item"].type)
    judgments = read_judgments(path)
    assert judgments.items.take(pa.array(judgments.item)).equals(ids)
    assert judgments.content == judgments_from_frame(table).content


def test_columns_without_any_value_have_no_type(tmp_path):
    ids = pa.table({"query": [1, 2], "annotator": ["x", "y"], "item": [3, 4], "rating": [1, 2]})
    write(tmp_path / "a.parquet", ids.set_column(2, "item", pa.nulls(2)).set_column(0, "query", pa.nulls(2)))
    write(tmp_path / "b.parquet", ids)
    judgments = read_judgments(tmp_path)
    assert judgments.items.to_pylist() == [3, 4]
    assert judgments.queries.type == pa.int64()
    assert judgments.counts.by_reason == {"query is null or empty": 2}


def test_frames_are_tables():
    same(judgments_from_frame(shuffled(TABLE).to_pandas()))
    same(judgments_from_frame(TABLE.to_pandas().astype("category")))
    with pytest.raises(UsageError, match="not int"):
        judgments_from_frame([1, 2])


def test_columns_are_renamed_and_others_ignored(tmp_path):
    renamed = TABLE.rename_columns(["topic", "worker", "left", "right", "weight"])
    renamed = renamed.append_column("winner", pa.array(range(200)))
    columns = {"query": "topic", "annotator": "worker", "winner": "left", "loser": "right"}
    for ending in (".csv", ".parquet", ".jsonl"):
        same(read_judgments(write(tmp_path / f"renamed{ending}", renamed), columns=columns))
    same(judgments_from_frame(renamed, columns=columns))


def test_without_queries_there_is_one(tmp_path):
    path = write(tmp_path / "judgments.csv", TABLE.drop_columns(["query"]))
    judgments = read_judgments(path)
    assert judgments.queries.to_pylist() == ["all"]
    assert not judgments.query.any()


def test_ids_in_text_files_are_text_byte_for_byte(tmp_path):
    ids = ["007", "7", "7.0", "NA", "null", "None", "nan", "true", " x ", "é", 'quo"te', "a,b", "line\nbreak", "=cmd()"]
    path = write_bytes(tmp_path / "ids.csv", _csv(ids))
    assert read_judgments(path).items.to_pylist() == sorted(ids, key=str.encode)
    lines = [f'{{"annotator": 1, "item": {number}, "rating": 1}}' for number in ("7", "7.10", "1e5", "true", '"007"')]
    path = write_bytes(tmp_path / "ids.jsonl", "\n".join(lines).encode())
    judgments = read_judgments(path)
    assert judgments.items.to_pylist() == ["007", "1e5", "7", "7.10", "true"]
    assert judgments.annotators.to_pylist() == ["1"]


def _csv(ids):
    quoted = ['"' + name.replace('"', '""') + '"' for name in ids]
    return b"\xef\xbb\xbfannotator,item,rating\r\n" + "".join(f"x,{name},1\r\n" for name in quoted).encode()


@pytest.mark.parametrize(
    "values",
    [
        pa.array([3, -1, 2], pa.int16()),
        pa.array([2**63, 1, 2], pa.uint64()),
        pa.array([0.5, -1.5, 2.0]),
        pa.array([b"\xff", b"a", b"\x00"]),
        pa.array([dt.date(2020, 1, 2), dt.date(1969, 1, 1), dt.date(2020, 1, 1)]),
        pa.array([dt.datetime(2020, 1, 2), dt.datetime(1969, 1, 1), dt.datetime(2020, 1, 1)], pa.timestamp("ms")),
        pa.array(["2.50", "-1.00", "10.00"]).cast(pa.decimal128(9, 2)),
    ],
)
@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_typed_ids_keep_their_type_and_their_order(tmp_path, values, ending):
    table = pa.table({"annotator": ["x"] * 3, "item": values, "rating": [1, 2, 3]})
    judgments = read_judgments(write(tmp_path / f"typed{ending}", table))
    assert judgments.items.type == values.type
    assert judgments.items.to_pylist() == sorted(values.to_pylist())
    assert judgments.items.take(pa.array(judgments.item)).equals(values)


def test_negative_zero_is_zero():
    judgments = judgments_from_frame(pa.table({"annotator": [0.0, -0.0], "item": ["a", "b"], "rating": [1, 2]}))
    assert len(judgments.annotators) == 1
    ratings = [pa.table({"annotator": [1, 1], "item": [1, 1], "rating": pair}) for pair in ([0.0, -0.0], [-0.0, 0.0])]
    one, other = (build_shards(judgments_from_frame(table), form="ratings") for table in ratings)
    assert bytes_of(one) == bytes_of(other)
    assert len(judgments_from_frame(ratings[0], duplicates="drop")) == 1


def test_forms_are_recognised(tmp_path):
    ratings = pa.table({"item": ["a", "b"], "annotator": ["x", "x"], "rating": ["1", "2.5"]})
    assert read_judgments(write(tmp_path / "a.csv", ratings)).rating.tolist() == [1.0, 2.5]
    rankings = pa.table({"item": ["a", "b"], "annotator": ["x", "x"], "rank": [1, 2]})
    assert read_judgments(write(tmp_path / "b.csv", rankings)).form == "rankings"
    both = ratings.append_column("rank", pa.array([1, 2]))
    with pytest.raises(InputError, match="fit ratings and rankings alike"):
        judgments_from_frame(both)
    assert judgments_from_frame(both, form="rankings").rank.tolist() == [1.0, 2.0]


def test_values_are_understood_in_every_writing():
    table = pa.table(
        {
            "annotator": ["x"] * 6,
            "winner": list("abcdef"),
            "loser": list("bcdefa"),
            "tie": ["true", "0", "No", None, "", " YES "],
            "weight": ["1", " 2.5", "+3", "1e-1", "0", "4"],
            "timestamp": ["1970-01-02", "1970-01-01T00:00:01Z", "12.5", None, "", "1970-01-01 00:00:00+01:00"],
        }
    )
    judgments = judgments_from_frame(table)
    assert judgments.counts.accepted == 6
    assert judgments.tie.tolist() == [True, False, False, False, False, True]
    assert judgments.weight.tolist() == [1.0, 2.5, 3.0, 0.1, 0.0, 4.0]
    assert np.array_equal(judgments.timestamp, [86400.0, 1.0, 12.5, np.nan, np.nan, -3600.0], equal_nan=True)
    dates = table.set_column(5, "timestamp", pa.array([dt.datetime(1970, 1, 2)] * 6))
    assert judgments_from_frame(dates).timestamp.tolist() == [86400.0] * 6


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_numbers_in_text_are_read_exactly(values):
    table = pa.table({"annotator": ["x"] * len(values), "item": list(range(len(values))), "rating": values})
    text = table.set_column(2, "rating", pa.array([repr(value) for value in values]))
    assert np.array_equal(judgments_from_frame(text).rating, np.array(values) + 0.0)
    assert judgments_from_frame(text).content == judgments_from_frame(table).content


def test_files_may_lack_optional_columns(tmp_path):
    write(tmp_path / "a.csv", TABLE.slice(0, 5))
    write(tmp_path / "b.csv", TABLE.slice(5, 5).drop_columns(["weight"]))
    judgments = read_judgments(tmp_path)
    assert judgments.weight[5:].tolist() == [1.0] * 5


def test_json_lines_may_lack_optional_keys(tmp_path):
    lines = ['{"annotator": "x", "winner": "a", "loser": "b"}', '{"annotator":"x","winner":"b","loser":"a","weight":3}']
    judgments = read_judgments(write_bytes(tmp_path / "a.jsonl", b"\xef\xbb\xbf" + "\r\n\r\n".join(lines).encode()))
    assert judgments.weight.tolist() == [1.0, 3.0]


def test_a_row_more_or_another_value_changes_the_fingerprint():
    prints = {EXPECTED.content, judgments_from_frame(TABLE.slice(1)).content}
    for column in TABLE.column_names:
        values = TABLE[column].to_pylist()
        values[0] = "77"
        place = TABLE.column_names.index(column)
        prints.add(judgments_from_frame(TABLE.set_column(place, column, pa.array(values))).content)
    twice = pa.concat_tables([TABLE, TABLE.slice(0, 1)])
    prints.add(judgments_from_frame(twice).content)
    swapped = TABLE.rename_columns(["query", "annotator", "loser", "winner", "weight"])
    prints.add(judgments_from_frame(swapped).content)
    assert len(prints) == 9
    assert all(len(fingerprint) == 32 for fingerprint in prints)


def test_the_fingerprint_never_changes():
    table = pa.table({"query": ["q"], "annotator": ["x"], "winner": ["a"], "loser": ["b"]})
    assert judgments_from_frame(table).content == "743c57ec237d9fb964ae30da48b360d9"


def test_files_have_fingerprints(tmp_path):
    path = write(tmp_path / "a.csv.gz", TABLE)
    (facts,) = read_judgments(path).files
    content = path.read_bytes()
    assert facts == {"path": str(path), "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def test_progress_is_reported(tmp_path):
    write(tmp_path / "a.csv", TABLE)
    write(tmp_path / "b.csv", TABLE)
    seen = []
    read_judgments(tmp_path, report=seen.append)
    assert seen[-1] == {"stage": "read", "file": 2, "files": 2, "rows": 400}


def test_large_files_are_read_in_pieces(tmp_path):
    rows = 1_200_000
    table = pa.table(
        {
            "annotator": np.arange(rows) % 7,
            "item": pa.array((np.arange(rows) % 100_003).astype(str)),
            "rating": np.arange(rows) % 5,
        }
    )
    judgments = read_judgments(write(tmp_path / "large.parquet", table))
    assert judgments.content == judgments_from_frame(table).content
    assert judgments.items.take(pa.array(judgments.item)).equals(table["item"].combine_chunks())
    assert judgments.annotators.to_pylist() == list(range(7))


def test_pandas_strings_and_missing_values():
    frame = pd.DataFrame({"annotator": ["x", None, "y"], "item": ["a", "b", None], "rating": [1.0, 2.0, np.nan]})
    judgments = judgments_from_frame(frame)
    assert judgments.counts.by_reason == {"annotator is null or empty": 1, "item is null or empty": 1}
    assert judgments.items.to_pylist() == ["a"]


@pytest.mark.parametrize("ending", FORMATS)
def test_whole_tables_are_read_with_all_their_columns(tmp_path, ending):
    table = read_table(write(tmp_path / f"ranking{ending}", TABLE))
    assert table.to_pydict() == TABLE.to_pydict()


def test_bad_tables_are_refused(tmp_path):
    write_bytes(tmp_path / "a.csv", b"item,score\na,1\nb\n")
    with pytest.raises(InputError, match=r"a\.csv row 2: malformed CSV row"):
        read_table(tmp_path / "a.csv")
    write_bytes(tmp_path / "b.csv", b"item,score\na,1\n\xff,2\n")
    with pytest.raises(InputError, match=r"b\.csv row 2: 'item' is not valid UTF-8 text"):
        read_table(tmp_path / "b.csv")
    write_bytes(tmp_path / "a.csv", b"item,rank\n")
    with pytest.raises(InputError, match="there are no rows"):
        read_table(tmp_path / "a.csv")
    write_bytes(tmp_path / "a.csv", b"item,rank\na,1\n")
    write_bytes(tmp_path / "b.csv", b"item,score\na,1\n")
    with pytest.raises(InputError, match="do not have the same columns"):
        read_table(tmp_path)


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.uint8()])
def test_gold_from_csv_matches_whole_numbers_from_parquet(kind: pa.DataType, tmp_path: Path) -> None:
    columns = {"query": [1, 1], "annotator": [3, 4], "winner": [10, 11], "loser": [11, 10]}
    pq.write_table(pa.table({name: pa.array(values, kind) for name, values in columns.items()}), tmp_path / "p.parquet")
    (tmp_path / "gold.csv").write_text("query,item,relevance\n1,10,2\n1,11,0\n")
    sharded = build_shards(
        read_judgments(tmp_path / "p.parquet"), form="preferences", gold=read_gold(tmp_path / "gold.csv")
    )
    assert sharded.warnings == ()
    assert sharded.source.sets["units"][0]["node.gold"].tolist() == [2.0, 0.0]
    (tmp_path / "gold.csv").write_text("query,item,relevance\n1,010,2\n")
    with pytest.raises(InputError, match="ids must have one type"):
        build_shards(read_judgments(tmp_path / "p.parquet"), form="preferences", gold=read_gold(tmp_path / "gold.csv"))
