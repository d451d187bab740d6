"""What a model learned, saved with its run so that it can be used again: `model/` in the run's folder.

    model.json                    method, settings, counts, and the facts that the model gave
    parameters.npz                global parameters: annotators' beliefs, w
    annotators.arrow              annotator, judgments: ids beside the codes
    units-00000.npz, ...          what belongs to the units of a shard, written by the worker that holds them
    units-00000.queries.arrow     the ids of the shard's units
    units-00000.items.arrow       the ids of their items
    other names                   what the model wrote in a format of its own, such as trees as LightGBM's text

Only models that save something have the folder. Arrays are npz files without objects; ids are Arrow files, in which
every type comes back as it went in. The run's manifest names every file with its sha256, and readers check it.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from distrank.contract import Learned
from distrank.errors import InputError, StoreError
from distrank.records import Record, load_record, save_record
from distrank.store.files import inside, read_json, write_json
from distrank.store.publish import PublishedRun
from distrank.tables.batches import refuse_extension_types
from distrank.tables.continuation import KEPT
from distrank.tables.ids import unpack_ids
from distrank.tables.outputs import IdTypes

FOLDER = "model"
FACTS, PARAMETERS, ANNOTATORS = "model.json", "parameters.npz", "annotators.arrow"
SCHEMA = 1


@dataclass(frozen=True)
class LearnedUnits:
    """What is saved of one shard, with the ids of its units (`queries`) and of their items."""

    queries: pa.Array
    items: pa.Array
    record: Record

    @staticmethod
    def of(shard: Record, saved: Record, types: IdTypes) -> LearnedUnits:
        """What the model saves of a shard, and what else a continuation needs of it."""
        kept = {name: shard[name] for name in KEPT if name in shard}
        return LearnedUnits(
            unpack_ids(shard, "unit.id", types.query), unpack_ids(shard, "node.id", types.item), {**kept, **saved}
        )

    def write(self, folder: Path, stem: str) -> list[str]:
        """Write three files; their names."""
        names = [f"{stem}.npz", f"{stem}.queries.arrow", f"{stem}.items.arrow"]
        save_record(folder / names[0], self.record)
        write_arrow(folder / names[1], pa.table({"query": self.queries}))
        write_arrow(folder / names[2], pa.table({"item": self.items}))
        return names


def write_learned(
    folder: Path, learned: Learned, *, annotators: pa.Table, facts: Mapping[str, Any], units: list[str]
) -> list[str]:
    """Write the global part beside the units' files that workers wrote; the names of all files."""
    save_record(folder / PARAMETERS, learned.parameters)
    write_arrow(folder / ANNOTATORS, annotators)
    for name, text in learned.texts.items():
        inside(folder, name).write_text(text, encoding="utf-8")
    shards = sorted(name.removesuffix(".npz") for name in units if name.endswith(".npz"))
    write_json(folder / FACTS, {"schema": SCHEMA, **facts, **learned.facts, "units": shards})
    return [FACTS, PARAMETERS, ANNOTATORS, *learned.texts, *units]


@dataclass(frozen=True)
class SavedModel:
    """What a run saved, checked against its manifest."""

    run: PublishedRun
    facts: dict[str, Any]

    @staticmethod
    def open(run: PublishedRun) -> SavedModel:
        """The saved model of a run; a file that is not the published one is an error."""
        if not run.has(f"{FOLDER}/{FACTS}"):
            raise StoreError(
                f"run {run.run_id} saved nothing that could be used again: {run.facts()['method']} does not"
            )
        run.verify(f"{FOLDER}/")
        facts = read_json(run.path(f"{FOLDER}/{FACTS}"))
        if facts.get("schema") != SCHEMA:
            raise StoreError(
                f"the saved model of run {run.run_id} has schema {facts.get('schema')!r}; this version of distrank "
                f"reads {SCHEMA}: run the method on all judgments again"
            )
        return SavedModel(run, facts)

    def parameters(self) -> Record:
        return self._record(PARAMETERS)

    def annotators(self) -> pa.Table:
        return self._arrow(ANNOTATORS)

    def text(self, name: str) -> str:
        """A file in a format of the model's own."""
        return self.run.path(f"{FOLDER}/{name}").read_text(encoding="utf-8")

    def units(self) -> list[LearnedUnits]:
        """What was saved of every shard, in shard order."""
        return [
            LearnedUnits(
                _column(self._arrow(f"{stem}.queries.arrow"), "query"),
                _column(self._arrow(f"{stem}.items.arrow"), "item"),
                self._record(f"{stem}.npz"),
            )
            for stem in self.facts["units"]
        ]

    def _record(self, name: str) -> Record:
        path = self.run.path(f"{FOLDER}/{name}")
        try:
            return load_record(path)
        except (ValueError, OSError, zipfile.BadZipFile) as error:
            raise StoreError(f"{path} does not hold plain arrays ({error}); the run is damaged") from error

    def _arrow(self, name: str) -> pa.Table:
        path = self.run.path(f"{FOLDER}/{name}")
        try:
            with pa.OSFile(str(path)) as file:
                table = pa.ipc.open_file(file).read_all()
            table.validate(full=True)
            refuse_extension_types(str(path), table.schema)
        except (pa.ArrowException, InputError) as error:
            raise StoreError(f"{path} does not hold ids ({error}); the run is damaged") from error
        return table


def write_arrow(path: Path, table: pa.Table) -> None:
    """An Arrow file, the format that gives every type back as it was."""
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table[name].combine_chunks()
    return column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
