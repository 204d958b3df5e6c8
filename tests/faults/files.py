"""Files that are not as they were written (flipped, cut, emptied, removed, unreadable), and verbs that read them."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broken import flipped
from faults.lab import NOT_HAPPENED, Lab, digest, ill, small
from faults.layer import Fault, Mode

EVERY = 64  # bytes from one that is flipped to the next


@dataclass(frozen=True)
class Reader:
    """A verb that reads files.

    Attributes:
        name: for people.
        arguments: of ``longtail``.
        answer: what it says or makes, from the lab and from what it printed.
    """

    name: str
    arguments: tuple[Any, ...]
    answer: Callable[[Lab, str], Any] = lambda _, output: output


@dataclass(frozen=True)
class Shelf:
    """Files, and who reads them.

    Attributes:
        start: the folder, of `Lab.templates`.
        pattern: of the files in it.
        readers: the first one is tried with every flip, all of them with the rest.
    """

    start: str
    pattern: str
    readers: tuple[Reader, ...]


def _ranked_after(lab: Lab, _: str) -> Any:
    """What the run then answers, or nothing where it refuses to."""
    ended = lab.run("predict", "@run", "--input", "@lines.txt", "--device", "cpu")
    return ill(ended) or (None if ended.status else ended.output)


_PREDICT = Reader("predict", ("predict", "@run", "--input", "@lines.txt", "--device", "cpu"))
_LABELS = (
    Reader("labels list", ("labels", "list", "@run")),
    Reader("labels add", ("labels", "add", "@run", "--input", "@new.jsonl"), _ranked_after),
    Reader("labels remove", ("labels", "remove", "@run", "label-5"), _ranked_after),
    Reader("labels compact", ("labels", "compact", "@run"), _ranked_after),
)
_EVALUATE = Reader("evaluate", ("evaluate", "@run"))
_MODEL = (_PREDICT, _EVALUATE, *_LABELS, Reader("index", ("index", "@run", "--recall", "0.5"), _ranked_after))
_NEW_MODEL = lambda lab, _: digest(lab.work / "new" / "model")  # noqa: E731
_RESUME = Reader("resume", ("resume", "@new", "--checkpoint-every", 0), _NEW_MODEL)
_CACHED = ("train", "ramen", "@data", "--out", "@new", "--cache", "@cache", *small("ramen"))

SHELVES = (
    Shelf("indexed", "run/model*/**/*", _MODEL),
    Shelf("indexed", "run/labels*", _MODEL),
    Shelf("indexed", "run/*.json*", (_EVALUATE, _PREDICT, *_LABELS, Reader("resume", ("resume", "@run")))),
    Shelf("half", "new/**/*", (_RESUME,)),
    Shelf("two", "*/model/**/*", (Reader("ensemble", ("ensemble", "@run", "@other", "--out", "@new"), _NEW_MODEL),)),
    Shelf("cached", "cache/**/*", (Reader("train", _CACHED, _NEW_MODEL),)),
)
_CODE_ONLY = {"run/metrics.jsonl", "run/cost.json", "run/evaluation.json", "new/metrics.jsonl", "new/cost.json"}


@dataclass(frozen=True)
class Damage:
    """What is wrong with a file.

    Attributes:
        name: for people.
        change: makes it so; or nothing.
        fault: of the layer; or nothing.
    """

    name: str
    change: Callable[[Path], Any] | None = None
    fault: Callable[[Path], Fault] | None = None


def _flipped(at: int) -> Callable[[Path], Any]:
    return lambda path: path.write_bytes(flipped(path.read_bytes(), at, at // EVERY % 8))


def _cut(share: float, less: int = 0) -> Callable[[Path], Any]:
    return lambda path: path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size) - less])


def _denied(error: int) -> Callable[[Path], Fault]:
    return lambda path: Fault(Mode.DENY, error=error, denied=str(path))


WHOLE = (
    Damage("cut in the middle", _cut(0.5)),
    Damage("cut by a byte", _cut(1, 1)),
    Damage("emptied", _cut(0)),
    Damage("longer by a byte", lambda path: path.write_bytes(path.read_bytes() + b"\0")),
    Damage("zeros", lambda path: path.write_bytes(bytes(path.stat().st_size))),
    Damage("removed", lambda path: path.unlink()),
    Damage("a folder in its place", lambda path: (path.unlink(), path.mkdir())),
    Damage("unreadable", fault=_denied(errno.EACCES)),
    Damage("an error of the disk", fault=_denied(errno.EIO)),
)


@dataclass(frozen=True)
class Case:
    """A file that is wrong, and a verb that reads it."""

    shelf: Shelf
    path: str
    damage: Damage
    reader: Reader


def cases(lab: Lab) -> Iterator[Case]:
    """All of them."""
    for shelf in SHELVES:
        folder = lab.templates[shelf.start]
        for path in sorted(path for path in folder.glob(shelf.pattern) if path.is_file()):
            name = str(path.relative_to(folder))
            for damage in WHOLE:
                yield from (Case(shelf, name, damage, reader) for reader in shelf.readers)
            for at in range(0, path.stat().st_size, EVERY):
                yield Case(shelf, name, Damage(f"flipped at {at}", _flipped(at)), shelf.readers[0])


class Files:
    """Judges cases; what a verb says of files that are whole is asked once."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._expected: dict[tuple[str, str], Any] = {}

    def judged(self, case: Case) -> str:
        """What is wrong with what comes of a case, or nothing; or that the file was not opened."""
        lab, reader = self.lab, case.reader
        key = (case.shelf.start, reader.name)
        if key not in self._expected:
            lab.begin(case.shelf.start)
            self._expected[key] = reader.answer(lab, lab.done(*reader.arguments).output)
        lab.begin(case.shelf.start)
        path = lab.work / case.path
        if case.damage.change:
            case.damage.change(path)
        ended = lab.run(*reader.arguments, fault=case.damage.fault(path) if case.damage.fault else None)
        if case.damage.fault and not ended.fired:
            return NOT_HAPPENED
        if wrong := ill(ended):
            return wrong
        if ended.status or case.path in _CODE_ONLY:  # logs are read for people, and change no answer
            return ""
        found = reader.answer(lab, ended.output)
        return "" if found in (None, self._expected[key]) else "silently accepted"
