"""The errors that a user can mend: each is one clear line with what was expected, what was found, and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from longtail.units import printable


class LongtailError(Exception):
    """A problem that its reader can mend. The command line prints it as one line and exits with status 1.

    Args:
        message: may hold names of files and texts of others: what a terminal would obey in them is only shown.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))

    def __reduce__(self) -> tuple[Callable[..., LongtailError], tuple[Any, ...]]:
        """As other processes get it, which know its text and attributes and not how it was made."""
        return _again, (type(self), self.args, vars(self))


def _again(kind: type[LongtailError], args: tuple[Any, ...], attributes: Mapping[str, Any]) -> LongtailError:
    error = kind.__new__(kind, *args)
    vars(error).update(attributes)
    return error


class BadInput(LongtailError):
    """Something in a file or an argument is not as it must be.

    Args:
        where: the file, as a path, or the name of the argument, as text.
        problem: what was expected and what was found, with both numbers.
        remedy: what to do about it, as a clause ("cut the file again", "give the encoding").
        line: 1-based line of the file, where there is one.

    Attributes:
        is_argument: whether ``where`` is a name, to which the command line puts the dashes of an option.
    """

    def __init__(self, where: str | Path, problem: str, *, remedy: str, line: int | None = None) -> None:
        self.where, self.problem, self.remedy, self.line = str(where), problem, remedy, line
        self.is_argument = isinstance(where, str) and where.isidentifier()
        place = self.where if line is None else f"{self.where}, line {line}"
        super().__init__(f"{place}: {problem}; {remedy}")


class NotWritten(LongtailError):
    """A file or folder was not written; what was there before still is.

    Args:
        where: the file or folder.
        reason: what went wrong.
    """

    def __init__(self, where: str | Path, reason: Exception) -> None:
        super().__init__(f"{where}: not written ({reason}); make room, or choose another folder, and try again")


class MissingExtra(LongtailError):
    """An optional package is needed and is not installed."""

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the package {package}; pip install 'longtail[{extra}]'")
