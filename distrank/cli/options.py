"""Options that several commands share, and how their text becomes values."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from distrank.errors import UsageError


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """--quiet, --json, --debug."""
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, for programs")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")


def add_input_options(parser: argparse.ArgumentParser, *, gold: bool = True) -> None:
    """The judgments and how to read them."""
    parser.add_argument(
        "judgments",
        nargs="+",
        help="a file (csv, csv.gz, parquet, jsonl, arrow), a folder of them, or a URI; several of them may be ratings, "
        "preferences and rankings of the same annotators",
    )
    parser.add_argument(
        "--columns", metavar="NAME=COLUMN,...", default="", help="rename columns, e.g. query=topic,annotator=worker"
    )
    parser.add_argument(
        "--max-rejected",
        type=_share,
        default=0.05,
        metavar="SHARE",
        help="fail if a larger share of the rows is rejected (default 0.05; dropped duplicates do not count)",
    )
    if gold:
        parser.add_argument(
            "--gold", metavar="FILE", help="what is known: query, item, relevance, or pairs: query, winner, loser"
        )


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Where a run is carried out, and how it is interrupted and resumed."""
    parser.add_argument("--engine", default="auto", choices=("auto", "local", "ray"), help="where to run")
    parser.add_argument("--address", help="a running Ray cluster; `auto` for the one on this machine")
    parser.add_argument("--workers", type=int, help="threads, or Ray CPUs, to use (default all)")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint of a run that was stopped")
    parser.add_argument(
        "--checkpoint-seconds", type=float, default=60.0, metavar="S", help="between checkpoints (default 60)"
    )
    parser.add_argument(
        "--checkpoint-iterations", type=int, default=0, metavar="N", help="checkpoint every N iterations instead"
    )
    parser.add_argument(
        "--stall-seconds", type=float, default=60.0, metavar="S", help="give up on Ray work that no node takes"
    )
    parser.add_argument("--csv", action="store_true", help="write CSV beside Parquet")


def parse_columns(text: str) -> dict[str, str]:
    """`query=topic,annotator=worker` as a dict."""
    return dict(_pair(part, "--columns") for part in text.split(",") if part)


def parse_set(values: Sequence[str], file: str | None) -> dict[str, Any]:
    """Settings from a YAML file, overridden by --set name=value."""
    settings: dict[str, Any] = {}
    if file is not None:
        settings.update(_read_yaml(Path(file)))
    settings.update(_pair(value, "--set") for value in values)
    return settings


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--settings {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"--settings {path} is not YAML: {error}") from error
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise UsageError(f"--settings {path}: expected lines of the form `name: value`")
    return content


def _pair(text: str, option: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found or not name.strip():
        raise UsageError(f"{option} {text!r}: expected name=value")
    return name.strip(), value.strip()


def _share(text: str) -> float:
    value = float(text)
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value
