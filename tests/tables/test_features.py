"""The features table: every format gives the same numbers, bad ones are named, and shards carry what is theirs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from distrank.errors import InputError
from distrank.tables.feature_shards import build_feature_shards
from distrank.tables.features import features_from_frame, read_features
from distrank.tables.gold import gold_from_frame
from distrank.tables.ids import unpack_ids
from distrank.tables.read import judgments_from_frame, read_judgments
from distrank.tables.shards import build_shards


def table(seed: int = 1, queries: int = 7, items: int = 5) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = [(f"q{q}", f"i{i}") for q in range(queries) for i in range(items)]
    frame = pd.DataFrame(rows, columns=["query", "item"])
    return frame.assign(**{f"f{k}": rng.normal(size=len(rows)).round(6) for k in (1, 2, 3)})


def write(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in frame.to_dict("records")))
    else:
        lines = [
            f"{place % 3} qid:{row['query']} 1:{row['f1']} 2:{row['f2']} 3:{row['f3']} # {row['item']} more\n"
            for place, row in enumerate(frame.to_dict("records"))
        ]
        with gzip.open(path, "wt") as file:
            file.writelines(lines)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.jsonl", "t.svm.gz"])
def test_every_format_gives_the_same_features(name: str, tmp_path: Path) -> None:
    frame = table()
    features = read_features(write(frame, tmp_path / name))
    assert features.names == ("f1", "f2", "f3")
    assert features.query.to_pylist() == frame["query"].tolist()
    assert features.item.to_pylist() == frame["item"].tolist()
    np.testing.assert_array_equal(features.values, frame[["f1", "f2", "f3"]])
    if name.endswith("svm.gz"):
        assert features.relevance is not None
        np.testing.assert_array_equal(features.relevance, np.arange(len(frame)) % 3)
    else:
        assert features.content == features_from_frame(frame.sample(frac=1.0, random_state=1)).content


def test_files_may_have_their_columns_in_any_order(tmp_path: Path) -> None:
    frame = table()
    write(frame[:20], tmp_path / "a.csv")
    write(frame[20:][["f3", "item", "f1", "query", "f2"]], tmp_path / "b.csv")
    np.testing.assert_array_equal(read_features(tmp_path).values, frame[["f1", "f2", "f3"]])
    write(frame[20:].drop(columns="f2"), tmp_path / "b.csv")
    with pytest.raises(InputError, match=r"b.csv: the feature 'f2' is not in all files"):
        read_features(tmp_path)


def test_letor_names_items_in_comments_and_leaves_zeros_out(tmp_path: Path) -> None:
    path = tmp_path / "x.letor"
    path.write_text("2 qid:7 1:0.5 4:-1e-3 #docid = GX01 inc = 1\n\n0 qid:7 2:3\n# all comment\n1 qid:8 3:1 #\n")
    features = read_features(path)
    assert features.query.to_pylist() == ["7", "7", "8"]
    assert features.item.to_pylist() == ["GX01", "2", "1"]
    np.testing.assert_array_equal(features.values, [[0.5, 0, 0, -1e-3], [0, 3, 0, 0], [0, 0, 1, 0]])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 1:2", "row 2: '1 1:2' has no grade and query"),
        ("1 qid: 1:2", "row 2"),
        ("1 qid:7 0:2", "row 2: '0' is no number of a feature"),
        ("1 qid:7 1.5:2", "row 2: '1.5' is no number of a feature"),
        ("1 qid:7 1:x", "row 2: 'x' is not a finite number"),
        ("1 qid:7 1:nan", "row 2: 'nan' is not a finite number"),
        ("1 qid:7 12", "row 2: '' is not a finite number"),
        ("a qid:7 1:2", "row 2: 'a' is not a finite number"),
        ("1 qid:7 2:1 1:1 2:5", "row 2: feature 2 is given twice"),
    ],
)
def test_bad_lines_are_named(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.svm"
    path.write_text(f"1 qid:7 1:1\n{line}\n")
    with pytest.raises(InputError) as caught:
        read_features(path)
    assert message in str(caught.value)


@pytest.mark.parametrize(("value", "shown"), [("", "''"), ("much", "'much'"), ("inf", "'inf'"), ("nan", "'nan'")])
def test_bad_numbers_are_named(value: str, shown: str, tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text(f"query,item,length\nq,a,1\nq,b,{value}\n")
    with pytest.raises(InputError) as caught:
        read_features(path)
    assert f"f.csv row 2: the feature 'length' is {shown}, not a finite number" in str(caught.value)


def test_two_rows_for_one_item_must_be_equal() -> None:
    frame = table()
    assert len(features_from_frame(pd.concat([frame, frame[:3]]))) == len(frame)
    odd = frame[:1].assign(f2=9.0)
    with pytest.raises(InputError, match=r"query 'q0', item 'i0' has two rows of features, which differ in 'f2'"):
        features_from_frame(pd.concat([frame, odd]))


def test_a_table_without_features_or_items_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no features"):
        features_from_frame(pd.DataFrame({"query": ["q"], "item": ["a"]}))
    with pytest.raises(InputError, match="'item' is missing"):
        features_from_frame(pd.DataFrame({"query": ["q"], "length": [1.0]}))
    with pytest.raises(InputError, match="hold features of items, not judgments"):
        read_judgments(write(table(), tmp_path / "t.svm.gz"))


def ratings(frame: pd.DataFrame, seed: int = 2) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    judged = pd.concat([frame[["query", "item"]].assign(annotator=f"a{w}") for w in range(3)])
    return judged.assign(rating=rng.integers(2, size=len(judged)).astype(float))


@pytest.mark.parametrize("cut", [250_000, 20])
@pytest.mark.parametrize("unit", ["query", "item"])
def test_every_node_has_its_features(unit: str, cut: int) -> None:
    frame = table()
    expected = {(row["query"], row["item"]): [row["f1"], row["f2"], row["f3"]] for row in frame.to_dict("records")}
    judgments = judgments_from_frame(ratings(frame[:-4]).sample(frac=1.0, random_state=3))
    shuffled = features_from_frame(frame.sample(frac=1.0, random_state=4))
    sharded = build_shards(judgments, form="ratings", unit=unit, features=shuffled, rows_per_shard=cut)  # type: ignore[arg-type]
    assert sharded.info.features == ("f1", "f2", "f3")
    assert any("4 of 35 items with features are not judged" in warning for warning in sharded.warnings)
    seen = 0
    for shard in sharded.source.sets["units"]:
        queries = unpack_ids(shard, "unit.id", sharded.query_type).to_pylist()
        unit_of = np.repeat(np.arange(len(queries)), np.diff(shard["unit.nodes"]))
        items = unpack_ids(shard, "node.id", sharded.item_type).to_pylist()
        for node, item in enumerate(items):
            assert shard["node.features"][node].tolist() == expected[queries[unit_of[node]], item]
            seen += 1
    assert seen == 31


def test_judged_items_without_features_are_named() -> None:
    frame = table()
    with pytest.raises(
        InputError, match=r"1 of 35 judged items have no features, such as \(query / item\) 'q6' / 'i4'"
    ):
        build_shards(judgments_from_frame(ratings(frame)), form="ratings", features=features_from_frame(frame[:-1]))


@pytest.mark.parametrize("size", [32_768, 6])
def test_items_without_judgments_are_shards_too(size: int) -> None:
    frame = table()
    gold = frame[["query", "item"]].assign(relevance=np.arange(35.0))[:30]
    truth = gold_from_frame(gold.sample(frac=1.0, random_state=1))
    built = build_feature_shards(features_from_frame(frame), truth, items_per_shard=size)
    assert (built.queries, built.items) == (6, 30)
    found = {}
    for shard in built.shards:
        queries = unpack_ids(shard, "unit.id", built.query_type).to_pylist()
        unit_of = np.repeat(np.arange(len(queries)), np.diff(shard["unit.nodes"]))
        for node, item in enumerate(unpack_ids(shard, "node.id", built.item_type).to_pylist()):
            found[queries[unit_of[node]], item] = (shard["node.gold"][node], shard["node.features"][node].tolist())
    for row, relevance in zip(frame[:30].to_dict("records"), range(30), strict=True):
        assert found[row["query"], row["item"]] == (relevance, [row["f1"], row["f2"], row["f3"]])
    more = pd.concat([gold, pd.DataFrame({"query": ["q9"], "item": ["i0"], "relevance": [1.0]})])
    with pytest.raises(InputError, match=r"1 of 31 graded items have no features in features, such as query 'q9'"):
        build_feature_shards(features_from_frame(frame), gold_from_frame(more))
