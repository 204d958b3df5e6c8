"""The parts of a job: which files there are, what their results are called, and how these are whole or absent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import has_magic
from importlib import import_module
from pathlib import Path
from typing import IO, Any, TypeAlias
from uuid import uuid4

from longtail.data.io import parquet
from longtail.errors import BadInput
from longtail.files import PARTIAL, replacing

FileSystem: TypeAlias = Any  # of fsspec
_SUFFIX = ".parquet"


@dataclass(frozen=True)
class Place:
    """A file or folder, wherever it is.

    Attributes:
        system: the file system of fsspec that has it.
        path: there, without a protocol, with slashes.
    """

    system: FileSystem
    path: str

    @classmethod
    def of(cls, url: str) -> Place:
        """That of a local path, or of a URL, as ``s3://bucket/folder``.

        Raises:
            BadInput: the protocol is unknown, or needs a package that is not installed.
        """
        try:
            system, path = import_module("fsspec.core").url_to_fs(url)
        except (ImportError, ValueError) as error:
            said = str(error).splitlines()[0]
            raise BadInput(url, f"expected a path or URL that fsspec opens, found none ({said})", remedy="mend it")  # noqa: B904
        return cls(system, path.rstrip("/") or "/")

    @property
    def is_local(self) -> bool:
        """Whether it is on a file system of this machine."""
        protocol = self.system.protocol  # a name, or several
        return "file" in ([protocol] if isinstance(protocol, str) else protocol)

    def __truediv__(self, name: str) -> Place:
        return Place(self.system, f"{self.path.rstrip('/')}/{name}")

    def __str__(self) -> str:
        return self.path if self.is_local else str(self.system.unstrip_protocol(self.path))

    def names(self) -> set[str]:
        """The files in a folder and below it, by path from there; none where it is not there."""
        if not self.system.exists(self.path):
            return set()
        return {path.removeprefix(self.path).lstrip("/") for path in self.system.find(self.path)}

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """The file, to be read."""
        with self.system.open(self.path, "rb") as file:
            yield file

    @contextmanager
    def replaced(self) -> Iterator[IO[bytes]]:
        """A file to write, which takes this one's name once the block has ended well: whole, or not at all.

        Elsewhere than on this machine it is written under another name in its folder, and then moved: a rename, or a
        copy within an object store.

        Raises:
            NotWritten: something went wrong with a local file.
        """
        if self.is_local:
            with replacing(Path(self.path)) as place, place.open("wb") as file:
                yield file
            return
        folder, _, name = self.path.rpartition("/")
        self.system.makedirs(folder, exist_ok=True)
        temporary = f"{folder}/.{name}.{uuid4().hex}{PARTIAL}"
        try:
            with self.system.open(temporary, "wb") as file:
                yield file
            self.system.mv(temporary, self.path)
        finally:
            if self.system.exists(temporary):
                self.system.rm(temporary)


@dataclass(frozen=True)
class Part:
    """A Parquet file of a job.

    Attributes:
        place: of the file.
        name: of its result, by path from the folder of results.
    """

    place: Place
    name: str

    def footer(self) -> tuple[Any, int]:
        """Its schema, as pyarrow has it, and its number of rows.

        Raises:
            BadInput: it is not readable as Parquet.
        """
        with self.place.opened() as file:
            return parquet.footer(str(self.place), file)

    def batches(self, size: int) -> Iterator[tuple[int, Any]]:
        """Its rows as record batches of at most ``size`` rows, each after the number of rows before it.

        Raises:
            BadInput: it is not readable as Parquet.
        """
        with self.place.opened() as file:
            yield from parquet.batches(str(self.place), file, size)


def parts_of(inputs: Sequence[str]) -> list[Part]:
    """The Parquet files that inputs name, by the names of their results.

    Args:
        inputs: local paths or URLs: files; patterns of files, with ``*``; or folders, all of whose ``.parquet`` files
            are meant, also of folders within, but for names that begin with a dot or an underscore. A result has the
            path of its part from the folder, or from the last folder of a pattern whose name has no ``*``.

    Raises:
        BadInput: an input names no file, or two results would have one name.
    """
    found: dict[str, Part] = {}
    for given in inputs:
        for part in _parts(Place.of(given), given):
            other = found.setdefault(part.name, part)
            if other is not part:
                problem = f"expected parts of different names, found {other.place} and {part.place}"
                raise BadInput("input", problem, remedy="give the folder that holds both")
    return [found[name] for name in sorted(found)]


def _parts(place: Place, given: str) -> list[Part]:
    system, root = place.system, place.path
    if has_magic(root):
        detail = system.glob(root, detail=True)
        paths = [path for path, about in detail.items() if about["type"] == "file"]
        root = root[: min(root.index(sign) for sign in "*?[" if sign in root)].rpartition("/")[0]
    elif system.isdir(root):
        names = (name for name in place.names() if name.endswith(_SUFFIX))
        paths = [f"{root.rstrip('/')}/{name}" for name in names if not is_hidden(name)]
    else:
        paths, root = [root] if system.isfile(root) else [], root.rpartition("/")[0]
    if not paths:
        remedy = "check the name; of a folder, files that end in .parquet are read"
        raise BadInput(given, "expected Parquet files, found none", remedy=remedy)
    return [Part(Place(system, path), path.removeprefix(root).lstrip("/")) for path in paths]


def is_hidden(name: str) -> bool:
    """Whether a name, or that of a folder before it, begins with a dot or an underscore, as what readers pass over."""
    return any(one[0] in "._" for one in name.split("/"))
