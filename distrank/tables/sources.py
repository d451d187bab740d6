"""Where tables come from: files, folders, hive partitions; local, or on any filesystem that pyarrow opens."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from distrank.errors import InputError

Location: TypeAlias = str | Path
FORMATS = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".jsonl.gz": "jsonl",
    ".ndjson": "jsonl",
    ".ndjson.gz": "jsonl",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".svm": "svmlight",
    ".svm.gz": "svmlight",
    ".svmlight": "svmlight",
    ".svmlight.gz": "svmlight",
    ".letor": "svmlight",
    ".letor.gz": "svmlight",
}
NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"  # how hive writes a null
_HASH_BLOCK = 1 << 22


@dataclass(frozen=True)
class SourceFile:
    """One file of a source; `name` is how it is shown, without credentials."""

    filesystem: pafs.FileSystem
    path: str
    name: str
    format: str
    size: int
    partitions: dict[str, str | None] = field(default_factory=dict)

    def stream(self) -> pa.NativeFile:
        """The file's content from its beginning, decompressed."""
        compression = "gzip" if self.path.endswith(".gz") else None
        return self.filesystem.open_input_stream(self.path, compression=compression)

    def anywhere(self) -> SourceFile:
        """The same file for processes with another working folder."""
        local = isinstance(self.filesystem, pafs.LocalFileSystem)
        return replace(self, path=str(Path(self.path).absolute())) if local else self

    def open(self) -> pa.NativeFile:
        """The file for reading at any place."""
        return self.filesystem.open_input_file(self.path)

    def fingerprint(self) -> dict[str, Any]:
        """Path, size and sha256, which tell whether a partition changed."""
        sha = hashlib.sha256()
        try:
            with self.filesystem.open_input_stream(self.path, compression=None) as file:
                while block := file.read(_HASH_BLOCK):
                    sha.update(block)
        except OSError as error:
            raise InputError(f"{self.name}: cannot be read: {scrub(error, self.path)}") from error
        return {"path": self.name, "size": self.size, "sha256": sha.hexdigest()}


def source_name(source: Location | Sequence[Location]) -> str:
    """How a source is shown: URIs without user, password and query, which may hold credentials."""
    if isinstance(source, str | Path):
        text = str(source)
        if "://" not in text:
            return text
        parts = urlsplit(text)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return ", ".join(source_name(one) for one in source)


def find_files(source: Location | Sequence[Location]) -> list[SourceFile]:
    """The files of a source: a file, a folder's files by name, or those of several sources one after the other."""
    if not isinstance(source, str | Path):
        return [file for one in source for file in find_files(one)]
    shown = source_name(source)
    filesystem, root = _open(source, shown)
    try:
        info = filesystem.get_file_info(root)
        if info.type == pafs.FileType.NotFound:
            raise InputError(f"{shown}: no such file or folder; check the path")
        if info.type != pafs.FileType.Directory:
            return [_file(filesystem, info, shown, {})]
        found = list(_under(filesystem, root, shown))
    except OSError as error:
        raise InputError(f"{shown}: cannot be opened: {scrub(error, source)}") from None
    if not found:
        raise InputError(f"{shown}: the folder holds no files; expected one of {_endings()}")
    return found


def scrub(error: object, source: Location) -> str:
    """An error's text in one line, without the parts of the source's URI that may hold credentials."""
    text = " ".join(str(error).split())
    parts = urlsplit(str(source)) if "://" in str(source) else None
    secrets = [str(source), parts.netloc.rpartition("@")[0], parts.query] if parts else []
    secrets += [value for pair in parts.query.split("&") for value in [pair.partition("=")[2]]] if parts else []
    secrets += [parts.username or "", parts.password or ""] if parts else []
    for secret in filter(None, secrets):
        for form in {secret, unquote(secret)}:
            text = text.replace(form, "***")
    return text


def _open(source: Location, shown: str) -> tuple[pafs.FileSystem, str]:
    if isinstance(source, str) and "://" in source:
        try:
            return pafs.FileSystem.from_uri(source)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(f"{shown}: not a location that can be opened: {scrub(error, source)}") from None
    return pafs.LocalFileSystem(), str(source)


def _under(filesystem: pafs.FileSystem, root: str, shown: str) -> Iterator[SourceFile]:
    """The files below a folder by name; names that begin with a dot or an underscore are not data."""
    selected = filesystem.get_file_info(pafs.FileSelector(root, recursive=True))
    for info in sorted(selected, key=lambda info: info.path):
        inside = PurePosixPath(info.path).relative_to(PurePosixPath(root))
        if info.type == pafs.FileType.File and not any(part[0] in "._" for part in inside.parts):
            yield _file(filesystem, info, f"{shown.rstrip('/')}/{inside}", _partitions(inside.parts[:-1]))


def _partitions(folders: Sequence[str]) -> dict[str, str | None]:
    """Columns that hive writes into folder names: `query=7/annotator=x`."""
    pairs = [folder.split("=", 1) for folder in folders if "=" in folder]
    return {unquote(name): None if value == NO_PARTITION else unquote(value) for name, value in pairs}


def _file(
    filesystem: pafs.FileSystem, info: pafs.FileInfo, shown: str, partitions: dict[str, str | None]
) -> SourceFile:
    name = PurePosixPath(info.path).name.lower()
    endings = [ending for ending in FORMATS if name.endswith(ending)]
    if not endings:
        raise InputError(
            f"{shown}: unknown kind of file; expected a name that ends with {_endings()} "
            "(in a folder, files whose names begin with '_' or '.' are passed over)"
        )
    if info.size == 0:
        raise InputError(f"{shown}: the file is empty; remove it, or write it again")
    return SourceFile(filesystem, info.path, shown, FORMATS[max(endings, key=len)], info.size, partitions)


def _endings() -> str:
    return ", ".join(FORMATS)
