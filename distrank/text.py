"""Ids are hostile text: how they are shown on terminals and in messages, and what spreadsheets must not run."""

from __future__ import annotations

LONGEST = 80  # characters of an id that a message or a table shows
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet runs a cell that begins with one of these


def shown(text: str, longest: int | None = None) -> str:
    """Text that cannot move the cursor, colour the terminal or, where `longest` is given, fill the screen."""
    cut = longest is not None and len(text) > longest
    visible = "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in (text[:longest] if cut else text)
    )
    return visible[: longest - 3] + "..." if cut and longest is not None else visible


def defused(text: str) -> str:
    """A CSV cell that no spreadsheet runs: an apostrophe before what would be a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text
