"""The command line: every command is a thin layer over a function that Python users can call.

Exit codes: 0 fine, 1 error, 2 usage, 3 ended without convergence (the result is still published, and says so).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from distrank.cli import (
    aggregate,
    evaluate,
    inspect,
    learn,
    next,  # noqa: A004
    nightly,
    remap,
    score,
    simulate,
    simulate_active,
    stress,
    submit,
    update,
)
from distrank.errors import DistrankError, UsageError
from distrank.identity import versions
from distrank.text import shown

EXIT_OK, EXIT_ERROR, EXIT_USAGE, EXIT_NOT_CONVERGED, EXIT_INTERRUPTED = 0, 1, 2, 3, 130

_DESCRIPTION = """\
Consensus rankings and annotator quality from crowd judgments.

  distrank simulate crowd-bt --out crowd/                      make a crowd to try things on
  distrank validate crowd/preferences.parquet                  look at the data before anything runs
  distrank aggregate crowd/preferences.parquet --out out/      aggregate it (method crowd-bt), publish a run
  distrank show out/                                           read the result
  distrank evaluate out/ --gold crowd/gold.csv                 compare it with the truth
  distrank update out/ new.csv                                 continue an online run with new judgments
  distrank next out/ --budget 500 --out tasks.csv              what to ask next, and whom
"""


class _Version(argparse.Action):
    """Looks the version up only when asked: it reads the installed packages."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        parser.exit(message=f"distrank {versions()['distrank']}\n")


def build_parser() -> argparse.ArgumentParser:
    """All commands with their options."""
    parser = argparse.ArgumentParser(
        prog="distrank", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    running = (aggregate, update, nightly, submit, learn, remap, score)
    for module in (*running, inspect, simulate, evaluate, stress, next, simulate_active):
        module.register(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; errors are one line each, tracebacks only with --debug."""
    options = build_parser().parse_args(arguments)
    try:
        code: int = options.command(options)
    except UsageError as error:
        return _fail(error, options, EXIT_USAGE)
    except DistrankError as error:
        return _fail(error, options, EXIT_ERROR)
    except KeyboardInterrupt:
        sys.stderr.write("distrank: interrupted; --resume goes on from the last checkpoint, if there was one\n")
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        return EXIT_OK
    return code


def _fail(error: DistrankError, options: argparse.Namespace, code: int) -> int:
    if getattr(options, "debug", False):
        raise error
    for text in (f"error: {error}", *getattr(error, "__notes__", [])):
        sys.stderr.write(f"distrank: {shown(text)}\n")
    return code
