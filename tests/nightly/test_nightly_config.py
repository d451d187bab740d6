"""The config of a night: every mistake is an error that names the key, the value and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from distrank.errors import UsageError
from distrank.nightly.config import parse_config, read_config

GOOD = "name: arena\ninput: judgments\nout: out\n"
BAD = {
    "unknown key": (GOOD + "inputs: x", r"c\.yaml: unknown key 'inputs'; known keys: .*columns"),
    "missing": ("name: a\ninput: b", r"the key 'out' is missing"),
    "not a mapping": ("- a\n- b", r"expected lines of the form `name: value`, found a list"),
    "empty": ("", "found nothing"),
    "name leaves its folder": (GOOD.replace("arena", "../etc"), r"name='\.\./etc': expected up to 40 letters"),
    "gate": (GOOD + "gates: {max_rejected: 2}", r"gates: max_rejected=2: expected a number, .*at most 1"),
    "gate name": (GOOD + "gates: {max_rejection: 0.1}", r"gates: unknown 'max_rejection'; known here"),
    "gate list": (GOOD + "gates: {min_judgments: [1]}", r"gates: min_judgments: expected one value, found a list"),
    "section": (GOOD + "keep: 3", r"keep: expected lines of the form"),
    "command is text": (GOOD + "on_failure: rm -rf /", r"on_failure: expected a list of texts"),
    "command of numbers": (GOOD + "on_failure: [1]", r"on_failure: expected a list of texts"),
    "input": (GOOD.replace("judgments", "{a: b}"), r"input: expected a path or a list of paths, found a mapping"),
    "twice": (GOOD + "seed: 1\nseed: 2", r"the key 'seed' is there twice \(line 1\)"),
    "object": (GOOD + "seed: !!python/object/apply:os.system ['true']", "is not plain YAML"),
    "broken": ("name: [", "is not plain YAML"),
    "NUL": (GOOD.replace("judgments", '"a\\0b"'), "NUL"),
    "seed": (GOOD + "seed: x", r"seed='x': expected a whole number"),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD.keys())
def test_a_mistake_is_named(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_config(text, "c.yaml", Path("/config"))


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "nightly.yaml"
    path.write_text(GOOD.replace("judgments", "[judgments, 's3://bucket/more', /absolute]"))
    config = read_config(path)
    assert config.input == (str(tmp_path / "judgments"), "s3://bucket/more", "/absolute")
    assert config.out == tmp_path / "out"


def test_a_file_that_is_not_there_or_huge_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_config(tmp_path / "none.yaml")
    (tmp_path / "huge.yaml").write_bytes(b" " * (1 << 21))
    with pytest.raises(UsageError, match="larger than"):
        read_config(tmp_path / "huge.yaml")


def test_aliases_do_not_multiply() -> None:
    laughs = "a: &a [x]\n" + "".join(f"{c}: &{c} [*{p}, *{p}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True))
    with pytest.raises(UsageError, match="unknown key"):
        parse_config(laughs, "c.yaml", Path("/config"))
