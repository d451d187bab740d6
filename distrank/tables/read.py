"""Judgments from files and frames: the front door of the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import pyarrow as pa

from distrank.contract import Form
from distrank.errors import InputError, UsageError
from distrank.tables.batches import TableFile
from distrank.tables.checks import NOT_TEXT
from distrank.tables.columns import SHAPES, check_renames, missing, plan_columns, recognise
from distrank.tables.encode import Duplicates, Encoder
from distrank.tables.formats import open_table
from distrank.tables.frames import Frame, FrameTable
from distrank.tables.judgments import Judgments
from distrank.tables.mixed import finish_together
from distrank.tables.sources import Location, SourceFile, find_files, source_name

T = TypeVar("T")
Report = Callable[[dict[str, Any]], None]


def read_judgments(
    source: Location | Sequence[Location],
    *,
    columns: Mapping[str, str] | None = None,
    form: Form | None = None,
    duplicates: Duplicates = "keep",
    report: Report | None = None,
) -> Judgments:
    """Read a file, a folder (files by name) or several of them; files of several forms give preferences (`mixed`).

    `columns` gives the file's name of a column where it is not ours; the form is recognised from the columns unless it
    is given. Rows that break a rule are set aside with a reason; see `Judgments.check_limit`.
    """
    files = find_files(source)
    with ThreadPoolExecutor(1, thread_name_prefix="sha256") as hasher:  # beside the parsing
        hashes = [hasher.submit(file.fingerprint) for file in files]
        try:
            encoders = _Encoders(columns or {}, form, duplicates)
            for number, file in enumerate(files, start=1):
                table = open_table(file)
                encoder = encoders.for_table(table, file.partitions)
                _encode_file(encoder, table, file, columns or {}, report, {"file": number, "files": len(files)})
            facts = [fingerprint.result() for fingerprint in hashes]
        except BaseException:
            hasher.shutdown(wait=False, cancel_futures=True)
            raise
    return encoders.finish(facts, source_name(source))


def judgments_from_frame(
    frame: Frame | Sequence[Frame],
    *,
    columns: Mapping[str, str] | None = None,
    form: Form | None = None,
    duplicates: Duplicates = "keep",
) -> Judgments:
    """Judgments from a DataFrame or an Arrow table, or from several of them."""
    encoders, name = _Encoders(columns or {}, form, duplicates), ""
    for one in frame if isinstance(frame, list | tuple) else [frame]:
        table = FrameTable(one)
        name = table.name
        encoder = encoders.for_table(table, {})
        plan = plan_columns(table.name, table.columns, {}, encoder.shape, columns or {}, sparse=False)
        for batch in table.batches(plan.wanted, plan.ids):
            encoder.add(table.name, batch, plan)
    return encoders.finish([], name)


def read_table(source: Location | Sequence[Location]) -> pa.Table:
    """A small table with all its columns, such as a ranking to evaluate; text files give text, bad rows are errors."""
    pieces = []
    for file in find_files(source):
        table = open_table(file)
        for batch in table.batches(table.columns, []):
            for bad in batch.malformed:
                raise InputError(f"{file.name} row {bad.row}: {bad.reason}; correct the row")
            for name, mask in batch.undecodable.items():
                raise InputError(
                    f"{file.name} row {batch.rows[mask.argmax()]}: {name!r} is {NOT_TEXT}; correct the row"
                )
            folders = {
                name: pa.array([value] * len(batch.rows), pa.string()) for name, value in file.partitions.items()
            }
            pieces.append(pa.table({**folders, **batch.columns}))
    if not pieces:
        raise InputError(f"{source_name(source)}: there are no rows")
    try:
        return pa.concat_tables(pieces)
    except pa.ArrowInvalid as error:
        detail = " ".join(str(error).split())
        raise InputError(f"{source_name(source)}: the files do not have the same columns ({detail})") from error


class _Encoders:
    """One encoder per form, with one numbering of ids."""

    def __init__(self, renames: Mapping[str, str], form: Form | None, duplicates: Duplicates) -> None:
        if duplicates not in ("keep", "drop"):
            raise UsageError(f"duplicates={duplicates!r}: expected keep or drop")
        if form is not None and form not in SHAPES:
            raise UsageError(f"form={form!r}: expected one of {', '.join(SHAPES)}")
        check_renames(renames, list(SHAPES.values()))
        self.renames, self.form, self.duplicates = renames, form, duplicates
        self.by_form: dict[Form, Encoder] = {}

    def for_table(self, table: TableFile, partitions: Mapping[str, str | None]) -> Encoder:
        """The encoder for the form that is asked for, or that the table has.

        A table that lacks columns of every form is taken for one of the first table's form: that error says most.
        """
        available = [*table.columns, *partitions]
        first = next(iter(self.by_form), None)
        form = self.form or first
        if form is None or (self.form is None and len(missing(form, available, self.renames))):
            try:
                form = recognise(table.name, available, self.renames)
            except InputError:
                if first is None:
                    raise
                form = first
        if form not in self.by_form:
            beside = next(iter(self.by_form.values()), None)
            self.by_form[form] = Encoder(form, locate=self.duplicates == "drop", beside=beside)
        return self.by_form[form]

    def finish(self, files: Sequence[dict[str, Any]], name: str) -> Judgments:
        """The judgments of all tables."""
        encoders = list(self.by_form.values())
        if len(encoders) == 1:
            return encoders[0].finish(duplicates=self.duplicates, files=files, name=name)
        return finish_together(encoders, duplicates=self.duplicates, files=files, name=name)


def _encode_file(
    encoder: Encoder,
    table: TableFile,
    file: SourceFile,
    renames: Mapping[str, str],
    report: Report | None,
    progress: dict[str, Any],
) -> None:
    plan = plan_columns(file.name, table.columns, file.partitions, encoder.shape, renames, sparse=table.sparse)
    for batch in ahead(table.batches(plan.wanted, plan.ids)):
        encoder.add(file.name, batch, plan, sparse=table.sparse)
        if report is not None:
            report({"stage": "read", **progress, "rows": encoder.read})


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items, the next one being made in a thread while one is used."""
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="read") as reader:
        coming: Future[Any] = reader.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = reader.submit(next, items, end)
            yield item
