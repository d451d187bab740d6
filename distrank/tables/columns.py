"""Which columns a table needs, how its form is recognised, and where a file has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from distrank.contract import Form
from distrank.errors import InputError, UsageError

ID_COLUMNS = ("query", "annotator", "winner", "loser", "item")
ONE_QUERY = "all"  # the query of tables without a query column


@dataclass(frozen=True)
class Shape:
    """The columns of one kind of table; `query` may be missing in all of them."""

    name: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return ("query", *self.required, *self.optional)


SHAPES: dict[Form, Shape] = {
    "preferences": Shape("preferences", ("annotator", "winner", "loser"), ("tie", "weight", "timestamp")),
    "ratings": Shape("ratings", ("annotator", "item", "rating"), ("weight", "timestamp")),
    "rankings": Shape("rankings", ("annotator", "item", "rank"), ("weight", "timestamp")),
}
GOLD = Shape("gold", ("item", "relevance"))
GOLD_PAIRS = Shape("gold pairs", ("winner", "loser"))


@dataclass(frozen=True)
class Plan:
    """Where a file has the columns of its table: in the file, or in the names of its folders."""

    stored: dict[str, str]  # our name -> the file's name
    constant: dict[str, str | None]  # our name -> the value for the whole file

    @property
    def wanted(self) -> list[str]:
        """The file's names of the columns to read."""
        return list(dict.fromkeys(self.stored.values()))

    @property
    def ids(self) -> list[str]:
        """The file's names of the columns that hold ids."""
        return list(dict.fromkeys(stored for name, stored in self.stored.items() if name in ID_COLUMNS))


def check_renames(renames: Mapping[str, str], shapes: Sequence[Shape]) -> None:
    """Renames must be of columns that tables have."""
    known = list(dict.fromkeys(name for shape in shapes for name in shape.columns))
    for name in renames:
        if name not in known:
            raise UsageError(f"there is no column {name!r} to rename; the columns are: {', '.join(known)}")


def missing(form: Form, available: Sequence[str], renames: Mapping[str, str]) -> list[str]:
    """The columns of a form that a table does not have."""
    return [column for column in SHAPES[form].required if renames.get(column, column) not in available]


def recognise(name: str, available: Sequence[str], renames: Mapping[str, str]) -> Form:
    """The form of a table, from the columns that it has."""
    fits = [form for form in SHAPES if not missing(form, available, renames)]
    if len(fits) == 1:
        return fits[0]
    needs = "; ".join(f"{form} need {', '.join(shape.required)}" for form, shape in SHAPES.items())
    found = ", ".join(repr(column) for column in available[:30]) or "none"
    if fits:
        raise InputError(
            f"{name}: the columns fit {' and '.join(fits)} alike (found: {found}); say which form is meant, or leave "
            "out the columns that are not meant"
        )
    absent = ", ".join(repr(named) for named in renames.values() if named not in available)
    renamed = f"columns names {absent}, which the file does not have. " if absent else ""
    raise InputError(
        f"{name}: the form cannot be recognised. {renamed}Found the columns: {found}. {needs}. "
        "Rename columns with columns (--columns query=topic,annotator=worker)"
    )


def plan_columns(
    name: str,
    available: Sequence[str],
    partitions: Mapping[str, str | None],
    shape: Shape,
    renames: Mapping[str, str],
    *,
    sparse: bool,
) -> Plan:
    """Find the columns of a table in a file; what is missing is an error that lists what was found."""
    stored: dict[str, str] = {}
    constant: dict[str, str | None] = {}
    for column in shape.columns:
        named = renames.get(column, column)
        if named in available:
            stored[column] = named
        elif named in partitions:
            constant[column] = partitions[named]
        elif column in shape.required or (column in renames and not sparse):
            found = ", ".join(repr(other) for other in [*available, *partitions][:30]) or "none"
            raise InputError(
                f"{name}: the column {named!r} is missing ({shape.name} need {', '.join(shape.required)}); "
                f"found: {found}. Rename columns with columns (--columns {column}=...)"
            )
        elif column == "query":
            constant[column] = ONE_QUERY
        elif sparse:
            stored[column] = named
    return Plan(stored, constant)
