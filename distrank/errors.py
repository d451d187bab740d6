"""The errors that people see: one line that says what was found, which rule it broke and what to do."""

from __future__ import annotations


class DistrankError(Exception):
    """Anything that ends a command with exit code 1 and a message instead of a traceback."""


class UsageError(DistrankError):
    """The command or a setting was not understood (exit code 2)."""


class InputError(DistrankError):
    """A file or table that cannot be used: the message names the file, the row or column, and the rule."""


class StoreError(DistrankError):
    """A run, a checkpoint or an output folder that cannot be read or written."""


class EngineError(DistrankError):
    """The engine could not do the work: lost workers, a stall, resources that no node has."""
