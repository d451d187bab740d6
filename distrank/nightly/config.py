"""The YAML file of a night: every key checked, every error says which key, which value and what was expected.

    name: arena                        # letters, digits, dots, dashes; part of the submission id
    input: judgments/                  # a file, a folder, a URI, or a list of them
    out: out/
    method: crowd-bt                   # the default
    settings: {regularization: 0.5}    # of the method
    columns: {query: topic}            # our name: the file's name
    gold: gold.csv
    seed: 0
    csv: false
    warm_start: true                   # begin at the last run's result
    gates: {max_rejected: 0.05, min_judgments: 1000, min_gold_agreement: 0.8, max_rank_change: 50,
            require_converged: true}
    engine: {name: auto, address: null, workers: null, stall_seconds: 60}
    keep: {runs: 30, failures: 30, checkpoint_days: 7}
    on_failure: [/usr/local/bin/page, --team, crowd]    # an argument list; the failure's run.json is put after it

Relative paths are relative to the file itself, so that a schedule may start it from anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from distrank.errors import UsageError
from distrank.settings import parse_settings, setting

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,39}")
LARGEST = 1 << 20  # bytes of a config file
S = TypeVar("S")


@dataclass(frozen=True)
class Gates:
    """What a result must fulfil before it is published."""

    max_rejected: float = setting(0.05, "largest share of rejected rows", low=0.0, high=1.0)
    min_judgments: int = setting(1, "fewest judgments", low=0)
    min_gold_agreement: float | None = setting(None, "smallest share of gold pairs in the true order", low=0.0, high=1)
    max_rank_change: int | None = setting(None, "largest change of a rank since the last run", low=0)
    require_converged: bool = setting(True, "a fit that did not converge is not published")


@dataclass(frozen=True)
class Keep:
    """What is kept: older runs, records of failures, and checkpoints of runs that nobody resumed are removed."""

    runs: int = setting(30, "published runs, the latest among them", low=1)
    failures: int = setting(30, "records of failed nights", low=0)
    checkpoint_days: float = setting(7.0, "days after which a checkpoint counts as abandoned", low=0.0)


@dataclass(frozen=True)
class EngineChoice:
    """Where a night runs."""

    name: str = setting("auto", "engine", choices=("auto", "local", "ray"))
    address: str | None = setting(None, "a running Ray cluster")
    workers: int | None = setting(None, "threads, or Ray CPUs", low=1)
    stall_seconds: float = setting(60.0, "after which Ray work that no node takes is an error", above=0.0)


@dataclass(frozen=True)
class NightlyConfig:
    """What to do every night."""

    name: str
    input: tuple[str, ...]
    out: Path
    method: str = "crowd-bt"
    settings: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    gold: str | None = None
    seed: int = 0
    csv: bool = False
    warm_start: bool = True
    gates: Gates = field(default_factory=Gates)
    engine: EngineChoice = field(default_factory=EngineChoice)
    keep: Keep = field(default_factory=Keep)
    on_failure: tuple[str, ...] = ()

    @property
    def source(self) -> Any:
        """The input as the readers take it."""
        return self.input[0] if len(self.input) == 1 else list(self.input)


@dataclass(frozen=True)
class _Scalars:
    """The keys that hold one value each."""

    name: str = setting("", "of the nights")
    out: str = setting("", "output folder")
    method: str = setting("crowd-bt", "see `distrank methods`")
    gold: str | None = setting(None, "what is known")
    seed: int = setting(0, "same seed, same bytes")
    csv: bool = setting(False, "CSV beside Parquet")
    warm_start: bool = setting(True, "begin at the last run's result")


def read_config(path: Path) -> NightlyConfig:
    """The config in a file."""
    try:
        if path.stat().st_size > LARGEST:
            raise UsageError(f"{path}: larger than {LARGEST:,} bytes; a config of a night is a page")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: {error}") from error
    return parse_config(text, str(path), path.absolute().parent)


def parse_config(text: str, where: str, folder: Path) -> NightlyConfig:
    """The config in a text; `where` names it in messages, `folder` is where relative paths begin."""
    content = _mapping(_load_yaml(text, where), where)
    known = {entry.name for entry in fields(NightlyConfig)}
    for key in content:
        if key not in known:
            raise UsageError(f"{where}: unknown key {key!r}; known keys: {', '.join(sorted(known))}")
    for key in ("name", "input", "out"):
        if not content.get(key):
            raise UsageError(f"{where}: the key {key!r} is missing; a night needs name, input and out")
    names = {entry.name for entry in fields(_Scalars)}
    scalars = _section(_Scalars, {key: content[key] for key in content if key in names}, where)
    if not NAME.fullmatch(scalars.name):
        raise UsageError(
            f"{where}: name={scalars.name!r}: expected up to 40 letters, digits, dots and dashes, beginning with a "
            "letter or digit; it becomes part of file names and submission ids"
        )
    return NightlyConfig(
        name=scalars.name,
        input=tuple(_placed(text, folder) for text in _texts(content["input"], "input", where)),
        out=Path(_placed(scalars.out, folder)),
        method=scalars.method,
        settings=_mapping(content.get("settings") or {}, f"{where}: settings"),
        columns={
            name: str(value) for name, value in _mapping(content.get("columns") or {}, f"{where}: columns").items()
        },
        gold=None if scalars.gold is None else _placed(scalars.gold, folder),
        seed=scalars.seed,
        csv=scalars.csv,
        warm_start=scalars.warm_start,
        gates=_section(Gates, content.get("gates") or {}, f"{where}: gates"),
        engine=_section(EngineChoice, content.get("engine") or {}, f"{where}: engine"),
        keep=_section(Keep, content.get("keep") or {}, f"{where}: keep"),
        on_failure=_command(content.get("on_failure") or [], where),
    )


def _load_yaml(text: str, where: str) -> Any:
    import yaml  # noqa: PLC0415 (only nights need it)

    class Strict(yaml.SafeLoader):  # type: ignore[misc]
        """The safe loader; a key that is there twice is an error, not a silent choice."""

    def mapping(loader: Any, node: Any, deep: bool = False) -> Any:
        keys = [loader.construct_object(key, deep=deep) for key, _ in node.value]
        twice = sorted({str(key) for key in keys if isinstance(key, str) and keys.count(key) > 1})
        if twice:
            raise UsageError(f"{where}: the key {twice[0]!r} is there twice (line {node.start_mark.line + 1})")
        return yaml.SafeLoader.construct_mapping(loader, node, deep)

    Strict.add_constructor("tag:yaml.org,2002:map", mapping)
    try:
        return Strict(text).get_single_data()
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{where} is not plain YAML: {' '.join(str(error).split())}") from error


def _mapping(content: Any, where: str) -> dict[str, Any]:
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise UsageError(f"{where}: expected lines of the form `name: value`, found {_kind(content)}")
    return content


def _section(kind: type[S], content: Any, where: str) -> S:
    values = _mapping(content, where)
    for name, value in values.items():
        if isinstance(value, dict | list):
            raise UsageError(f"{where}: {name}: expected one value, found {_kind(value)}")
    try:
        return parse_settings(kind, values)
    except UsageError as error:
        raise UsageError(f"{where}: {str(error).replace('setting ', '', 1)}") from None


def _texts(value: Any, key: str, where: str) -> list[str]:
    values = value if isinstance(value, list) else [value]
    for one in values:
        if not isinstance(one, str) or not one:
            raise UsageError(f"{where}: {key}: expected a path or a list of paths, found {_kind(one)}")
        if "\0" in one:
            raise UsageError(f"{where}: {key}: a path cannot hold a NUL character")
    return values


def _command(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise UsageError(
            f"{where}: on_failure: expected a list of texts, the command and its arguments, found {_kind(value)}; "
            "no shell is involved, so nothing is split or expanded"
        )
    return tuple(value)


def _placed(text: str, folder: Path) -> str:
    """A path that does not depend on where the process was started."""
    return text if "://" in text else str(folder / Path(text).expanduser())


def _kind(value: Any) -> str:
    names = {dict: "a mapping", list: "a list", str: "text", type(None): "nothing", bool: "true or false"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else type(value).__name__)
