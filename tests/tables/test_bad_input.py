"""Every bad input gets a clear error or a reason, and every row is accounted for."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables_help import preferences, write, write_bytes

from distrank.errors import InputError, UsageError
from distrank.tables.gold import gold_from_frame, read_gold
from distrank.tables.jsonlines import NESTED
from distrank.tables.judgments import DUPLICATE
from distrank.tables.read import judgments_from_frame, read_judgments
from distrank.tables.sources import scrub, source_name

GOOD = {"query": "q", "annotator": "x", "winner": "a", "loser": "b", "tie": "0", "weight": "1", "timestamp": "5"}
BAD = {
    "query is null or empty": {"query": ""},
    "annotator is null or empty": {"annotator": None},
    "winner is null or empty": {"winner": ""},
    "loser is null or empty": {"loser": None},
    "winner and loser are the same item": {"loser": "a"},
    "tie is not a truth value": {"tie": "perhaps"},
    "weight is negative": {"weight": "-1"},
    "weight is not a finite number": {"weight": "much"},
    "timestamp is neither a number nor a date": {"timestamp": "yesterday"},
}


def table_of(rows):
    return pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in GOOD})


@pytest.mark.parametrize(("reason", "change"), BAD.items())
def test_a_bad_row_is_set_aside_with_its_reason(reason, change):
    row = {**GOOD, **change}
    judgments = judgments_from_frame(table_of([GOOD, row, GOOD]))
    assert judgments.counts.accepted == 2
    (kept,) = judgments.rejected.to_pylist()
    assert kept == {"source": "frame", "row": 2, "reason": reason, **row, "text": None}


@pytest.mark.parametrize("weight", ["nan", "inf", "-inf", "", None, "1_0", "0x10", "1,5"])
def test_weights_that_are_no_numbers_are_set_aside(weight):
    judgments = judgments_from_frame(table_of([GOOD, {**GOOD, "weight": weight}]))
    assert judgments.counts.by_reason == {"weight is not a finite number": 1}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_ids_that_are_no_numbers_are_set_aside(value):
    frame = pd.DataFrame({"annotator": [1.0, value, 3.0], "item": [1.0, 2.0, value], "rating": [1, 2, 3]})
    judgments = judgments_from_frame(frame)
    assert judgments.counts.by_reason == {"annotator is NaN or infinite": 1, "item is NaN or infinite": 1}
    assert judgments.items.to_pylist() == [1.0]
    assert judgments.annotators.to_pylist() == [1.0]


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("rating", "good", "rating is not a finite number"),
        ("rating", None, "rating is not a finite number"),
        ("rank", "first", "rank is not a finite number"),
        ("rank", "0.5", "rank is below 1"),
        ("rank", "-3", "rank is below 1"),
    ],
)
def test_bad_ratings_and_ranks_are_set_aside(column, value, reason):
    table = pa.table({"annotator": ["x", "x"], "item": ["a", "b"], column: ["1", value]})
    assert judgments_from_frame(table).counts.by_reason == {reason: 1}


cells = {
    "query": st.sampled_from(["q", "r", "", None]),
    "annotator": st.sampled_from(["x", "y", "", None]),
    "winner": st.sampled_from(["a", "b", "c", "", None]),
    "loser": st.sampled_from(["a", "b", "c", "", None]),
    "tie": st.sampled_from(["true", "0", "maybe", None]),
    "weight": st.sampled_from(["1", "2", "-1", "nan", "x", None]),
    "timestamp": st.sampled_from(["1", "2020-01-01", "soon", None]),
}


@given(st.lists(st.fixed_dictionaries(cells), max_size=30), st.sampled_from(["keep", "drop"]))
def test_every_row_is_accepted_or_rejected(rows, duplicates):
    judgments = judgments_from_frame(table_of([GOOD, *rows]), duplicates=duplicates)
    counts = judgments.counts
    assert counts.read == len(rows) + 1
    assert counts.accepted + counts.rejected == counts.read
    assert counts.accepted == len(judgments)
    assert counts.rejected == judgments.rejected.num_rows == sum(counts.by_reason.values())
    assert counts.duplicates == counts.by_reason.get(DUPLICATE, 0)
    for row in judgments.rejected.to_pylist():
        if row["reason"] != DUPLICATE:
            original = [GOOD, *rows][row["row"] - 1]
            assert {name: row[name] for name in GOOD} == original
    used = {
        name: set(judgments.items.take(pa.array(getattr(judgments, name))).to_pylist()) for name in ("winner", "loser")
    }
    assert judgments.items.to_pylist() == sorted(used["winner"] | used["loser"])


clean = st.fixed_dictionaries(
    {
        "query": st.sampled_from(["q", "r"]),
        "annotator": st.sampled_from(["x", "y"]),
        "winner": st.sampled_from(["a", "b"]),
        "loser": st.just("c"),
        "tie": st.sampled_from(["true", "no"]),
        "weight": st.sampled_from(["1", "2"]),
        "timestamp": st.sampled_from(["1", None]),
    }
)


@given(st.lists(clean, min_size=1, max_size=60))
def test_dropping_duplicates_leaves_the_first_of_equal_rows(rows):
    again = [number for number, row in enumerate(rows, start=1) if row in rows[: number - 1]]
    judgments = judgments_from_frame(table_of(rows), duplicates="drop")
    assert judgments.rejected["row"].to_pylist() == again
    assert set(judgments.rejected["reason"].to_pylist()) <= {DUPLICATE}
    first = [row for number, row in enumerate(rows, start=1) if number not in again]
    assert judgments.content == judgments_from_frame(table_of(first)).content
    for row in judgments.rejected.to_pylist():
        ids = ("query", "annotator", "winner", "loser")
        assert [row[name] for name in ids] == [rows[row["row"] - 1][name] for name in ids]


def test_duplicates_do_not_count_against_the_limit():
    table = table_of([GOOD] * 10)
    dropped = judgments_from_frame(table, duplicates="drop")
    assert (dropped.counts.accepted, dropped.counts.rejected, dropped.counts.duplicates) == (1, 9, 9)
    dropped.check_limit(0.0)
    assert dropped.rejected.to_pylist()[0]["winner"] == "a"
    kept = judgments_from_frame(table)
    assert kept.counts.accepted == 10


def test_too_many_bad_rows_are_an_error_with_reasons_and_places():
    rows = [GOOD] * 18 + [{**GOOD, "loser": "a"}, {**GOOD, "weight": "-1"}]
    judgments = judgments_from_frame(table_of(rows))
    judgments.check_limit(0.1)
    with pytest.raises(InputError) as caught:
        judgments.check_limit(0.05)
    text = str(caught.value)
    assert "2 of 20 rows were rejected (10.0%), more than the limit of 5.0%" in text
    assert "winner and loser are the same item: 1 rows, first frame row 19" in text
    assert "weight is negative: 1 rows, first frame row 20" in text


def test_malformed_csv_rows_are_set_aside_with_their_text(tmp_path):
    lines = ["annotator,winner,loser", "x,a,b", "x,a", "", "x,c,c", "x,a,b,c", 'x,"e\nf",a', "x,a,a", "x"]
    judgments = read_judgments(write_bytes(tmp_path / "bad.csv", "\n".join(lines).encode()))
    assert judgments.counts.read == 7
    found = [(row["row"], row["reason"], row["text"]) for row in judgments.rejected.to_pylist()]
    assert found == [
        (2, "malformed CSV row (wrong number of fields)", "x,a"),
        (3, "winner and loser are the same item", None),
        (4, "malformed CSV row (wrong number of fields)", "x,a,b,c"),
        (6, "winner and loser are the same item", None),
        (7, "malformed CSV row (wrong number of fields)", "x"),
    ]


def test_malformed_json_lines_are_set_aside_with_their_text(tmp_path):
    good = b'{"annotator": "x", "item": "a", "rating": 1}'
    bad = {
        b"{nonsense": "unparsable JSON line",
        b'{"annotator": "x", "item": "\xff", "rating": 1}': "unparsable JSON line",
        b'{"annotator": "x", "item": "\\ud800", "rating": 1}': "unparsable JSON line",
        b'{"annotator": "x", "item": "a", "rating": NaN}': "unparsable JSON line",
        b"[" * 100_000: "unparsable JSON line",
        b"[1, 2]": "JSON line is not an object",
        b'{"annotator": ["x"], "item": "a", "rating": 1}': NESTED,
    }
    path = write_bytes(tmp_path / "bad.jsonl", b"\n".join([good, *bad]) + b"\n")
    judgments = read_judgments(path)
    assert judgments.counts.accepted == 1
    rows = judgments.rejected.to_pylist()
    assert [row["reason"] for row in rows] == list(bad.values())
    assert [row["row"] for row in rows] == list(range(2, 9))
    assert rows[0]["text"] == "{nonsense"


def test_text_that_is_not_utf8_is_set_aside(tmp_path):
    path = write_bytes(tmp_path / "latin.csv", "annotator,item,rating\nx,caf\xe9,1\nx,b,2\n".encode("latin-1"))
    judgments = read_judgments(path)
    assert judgments.counts.by_reason == {"item is not valid UTF-8 text": 1}
    assert judgments.items.to_pylist() == ["b"]


def file_of(tmp_path, name, content):
    return write_bytes(tmp_path / name, content)


def truncated(tmp_path, name):
    path = write(tmp_path / name, preferences(5000))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path


CASES = {
    "a file that does not exist": (lambda tmp: tmp / "none.csv", "none.csv: no such file or folder"),
    "an empty file": (lambda tmp: file_of(tmp, "a.csv", b""), "a.csv: the file is empty"),
    "an empty gzip": (lambda tmp: file_of(tmp, "a.csv.gz", b""), "a.csv.gz: not a complete CSV file"),
    "an empty folder": (lambda tmp: tmp, "the folder holds no files"),
    "a header alone": (lambda tmp: file_of(tmp, "a.csv", b"annotator,item,rating\n"), "a.csv: there are no rows"),
    "no rows in Parquet": (lambda tmp: write(tmp / "a.parquet", preferences(9).slice(0, 0)), "there are no rows"),
    "blank JSON lines": (lambda tmp: file_of(tmp, "a.jsonl", b"\n\n"), "the form cannot be recognised"),
    "truncated Parquet": (lambda tmp: truncated(tmp, "a.parquet"), "a.parquet: not a complete Parquet file"),
    "truncated CSV gzip": (lambda tmp: truncated(tmp, "a.csv.gz"), "a.csv.gz: not a complete CSV file"),
    "truncated JSON gzip": (lambda tmp: truncated(tmp, "a.jsonl.gz"), "a.jsonl.gz: not a complete JSON Lines file"),
    "truncated Arrow": (lambda tmp: truncated(tmp, "a.arrow"), "a.arrow: not a complete Arrow file"),
    "no Parquet at all": (lambda tmp: file_of(tmp, "a.parquet", b"annotator,item\n"), "not a complete Parquet file"),
    "no gzip at all": (lambda tmp: _plain(tmp / "a.csv.gz", b"annotator,item\n"), "not a complete CSV file"),
    "an unknown ending": (lambda tmp: file_of(tmp, "a.xlsx", b"x"), "a.xlsx: unknown kind of file"),
    "a missing column": (
        lambda tmp: file_of(tmp, "a.csv", b"annotator,winner\nx,a\n"),
        "Found the columns: 'annotator', 'winner'. preferences need annotator, winner, loser; ratings need",
    ),
    "a column twice": (
        lambda tmp: file_of(tmp, "a.csv", b"item,item,annotator\n1,2,3\n"),
        "'item' occurs more than once",
    ),
    "nothing to accept": (
        lambda tmp: file_of(tmp, "a.csv", b"annotator,winner,loser\nx,a,a\n"),
        "none of the 1 rows can be used: winner and loser are the same item",
    ),
    "an unknown filesystem": (lambda _: "nowhere://bucket/a.csv", "not a location that can be opened"),
}


def _plain(path, content):
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("case", CASES)
def test_a_bad_file_is_refused_by_name(tmp_path, case):
    make, message = CASES[case]
    with pytest.raises(InputError) as caught:
        read_judgments(make(tmp_path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_corrupted_pages_are_refused(tmp_path):
    path = write(tmp_path / "a.parquet", preferences(5000))
    content = bytearray(path.read_bytes())
    content[100 : len(content) // 2] = bytes(len(content) // 2 - 100)
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a complete Parquet file"):
        read_judgments(path)


def test_types_that_differ_between_files_are_named(tmp_path):
    table = pa.table({"annotator": ["x"], "item": [1], "rating": [1]})
    write(tmp_path / "a.parquet", table)
    write(tmp_path / "b.parquet", table.set_column(1, "item", pa.array(["1"])))
    with pytest.raises(InputError, match=r"b\.parquet.*'item' holds string, but .*a\.parquet \(item\) holds int64"):
        read_judgments(tmp_path)
    mixed = pa.table({"annotator": ["x"], "winner": [1], "loser": ["2"]})
    with pytest.raises(InputError, match=r"'loser' holds string, but frame \(winner\) holds int64"):
        judgments_from_frame(mixed)


def test_a_file_of_a_folder_that_lacks_a_column_is_named(tmp_path):
    write(tmp_path / "a.parquet", preferences(5))
    write(tmp_path / "b.parquet", preferences(5).drop_columns(["loser"]))
    with pytest.raises(InputError, match=r"b\.parquet: the column 'loser' is missing .* found: 'query', 'annotator'"):
        read_judgments(tmp_path)


def test_types_that_make_no_sense_are_refused():
    lists = pa.table({"annotator": ["x"], "item": [["a"]], "rating": [1]})
    with pytest.raises(InputError, match="'item' holds list"):
        judgments_from_frame(lists)
    with pytest.raises(InputError, match="'rating' holds list"):
        judgments_from_frame(lists.rename_columns(["annotator", "rating", "item"]))
    mixed = pd.DataFrame({"annotator": ["x", "y"], "item": ["a", 1], "rating": [1, 2]})
    with pytest.raises(InputError, match="'item' cannot be read"):
        judgments_from_frame(mixed)


def test_renames_are_checked():
    with pytest.raises(UsageError, match="no column 'worker' to rename; the columns are: query, annotator"):
        judgments_from_frame(preferences(5), columns={"worker": "annotator"})
    with pytest.raises(InputError, match="the column 'topic' is missing"):
        judgments_from_frame(preferences(5), columns={"query": "topic"})


class Hostile(pa.ExtensionType):
    def __init__(self) -> None:
        super().__init__(pa.string(), "distrank.test.hostile")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"payload"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls()


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
@pytest.mark.parametrize("registered", [True, False])
def test_extension_types_are_refused_wherever_they_are(tmp_path, ending, registered):
    hostile = pa.ExtensionArray.from_storage(Hostile(), pa.array(["payload"]))
    table = pa.table({"annotator": ["x"], "item": ["a"], "rating": [1], "extra": hostile})
    path = write(tmp_path / f"a{ending}", table)
    if registered:
        pa.register_extension_type(Hostile())
    try:
        with pytest.raises(InputError, match="'extra' has an extension type"):
            read_judgments(path)
    finally:
        if registered:
            pa.unregister_extension_type("distrank.test.hostile")


def test_nested_extension_types_are_refused(tmp_path):
    field = pa.field("inner", pa.string(), metadata={b"ARROW:extension:name": b"evil"})
    nested = pa.array([{"inner": "x"}], pa.struct([field]))
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"annotator": ["x"], "item": ["a"], "rating": [1], "extra": nested}), path)
    with pytest.raises(InputError, match="'extra' has an extension type"):
        read_judgments(path)


SIGNED = "s3://key:pass%2Fword@bucket/folder?access_key=hidden&region=x"


def test_credentials_never_show():
    assert source_name(SIGNED) == "s3://bucket/folder"
    assert source_name([SIGNED, "a.csv"]) == "s3://bucket/folder, a.csv"
    text = scrub(f"cannot open {SIGNED}: bad key key, pass/word, hidden", SIGNED)
    assert not any(word in text for word in ("pass", "word", "hidden", ": bad key key"))
    with pytest.raises(InputError) as caught:
        read_judgments("nowhere://user:topsecret@host/a.csv?token=alsosecret")
    assert "topsecret" not in str(caught.value)
    assert "alsosecret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert "nowhere://host/a.csv" in str(caught.value)


def test_one_annotator_and_one_item_are_warned_about():
    one = judgments_from_frame(pa.table({"annotator": ["\x1b[31m"], "item": ["a"], "rating": [1]}))
    assert len(one.warnings) == 2
    assert "one annotator" in one.warnings[0]
    assert "\x1b" not in one.warnings[0]
    assert "one item" in one.warnings[1]
    assert not judgments_from_frame(preferences(50)).warnings


GOLD = pa.table({"query": ["q", "q"], "item": ["a", "b"], "relevance": ["2", "0"]})


def test_gold_is_read_like_judgments(tmp_path):
    for ending in (".csv", ".jsonl.gz", ".parquet"):
        gold = read_gold(write(tmp_path / f"gold{ending}", GOLD))
        assert gold.query.to_pylist() == ["q", "q"]
        assert gold.item.to_pylist() == ["a", "b"]
        assert gold.relevance.tolist() == [2.0, 0.0]
        assert gold.content == gold_from_frame(GOLD.take([1, 0])).content
        assert len(gold.files) == 1
    assert gold_from_frame(GOLD.drop_columns(["query"])).query.to_pylist() == ["all", "all"]
    renamed = gold_from_frame(
        GOLD.rename_columns(["query", "doc", "grade"]), columns={"item": "doc", "relevance": "grade"}
    )
    assert renamed.content == gold_from_frame(GOLD).content
    assert gold_from_frame(pa.concat_tables([GOLD, GOLD])).content == gold_from_frame(GOLD).content


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"query": ["q"], "item": [None], "relevance": ["1"]}, "gold row 1: item is null or empty"),
        ({"query": ["q", "q"], "item": ["a", "b"], "relevance": ["1", "x"]}, "gold row 2: relevance is not a finite"),
        (
            {"query": ["q", "q"], "item": ["a", "a"], "relevance": ["1", "2"]},
            "query 'q', item 'a' has two grades, 1 and 2",
        ),
        ({"query": ["q"], "item": ["a"]}, "the column 'relevance' is missing"),
        ({"query": [], "item": [], "relevance": []}, "there are no rows"),
    ],
)
def test_bad_gold_is_an_error(rows, message):
    with pytest.raises(InputError, match=message):
        gold_from_frame(pa.table({name: pa.array(values, pa.string()) for name, values in rows.items()}))


def test_malformed_gold_names_its_row(tmp_path):
    path = write_bytes(tmp_path / "gold.csv", b"item,relevance\na,1\nb\n")
    with pytest.raises(InputError, match=r"gold\.csv row 2: malformed CSV row"):
        read_gold(path)


def test_gzip_with_several_members_is_one_file(tmp_path):
    header = b"annotator,item,rating\n"
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(header + b"x,a,1\n") + gzip.compress(b"x,b,2\n"))
    assert read_judgments(tmp_path / "a.csv.gz").items.to_pylist() == ["a", "b"]
