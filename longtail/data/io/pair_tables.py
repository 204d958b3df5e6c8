"""Tables about pairs of a document and a label, or about labels: what judges said, what a log recorded, attributes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from longtail.data.io.formats import excerpt, read_number
from longtail.data.io.records import plain
from longtail.data.io.tables import read_table, wrong
from longtail.data.texts import Texts, canonical
from longtail.errors import BadInput


def positions(texts: Texts) -> dict[str, int]:
    """The place of each text by its uid and by its title, as `Cells.name` has them: the first of equal ones."""
    found: dict[str, int] = {}
    for column in (texts.uids, texts.fields["title"]):
        for i, name in enumerate(map(_name, column)):
            if name:
                found.setdefault(name, i)
    return found


def _name(text: str) -> str:
    return canonical(text.strip())


class Cells:
    """A row of a table, whose cells are read as what they are to be."""

    def __init__(self, path: Path, number: int, record: Mapping[str, Any]) -> None:
        self._path, self._number, self.record = path, number, record

    def text(self, column: str) -> str:
        """A cell as text, without spaces around it; empty where there is none."""
        try:
            return plain(self.record.get(column)).strip()
        except TypeError as error:
            raise self._wrong(f'{error} in column "{column}"', "write such values into it") from None

    def name(self, column: str) -> str:
        """A cell that names a text by its uid or title: in Unicode NFC, without spaces around it."""
        return _name(self.text(column))

    def number(self, column: str, default: float, *, most: float = math.inf, above: float = -math.inf) -> float:
        """A cell as a finite number of at least 0, above ``above``, at most ``most``; the default for an empty one."""
        text = self.text(column)
        try:
            value = read_number(text) if text else default
        except ValueError:
            value = math.nan
        if not (0 <= value < math.inf and above < value <= most):
            span = "" if math.isinf(most) else f" above {above:g} and at most {most:g}"
            problem = f'expected a number{span or " of at least 0"} in column "{column}", found {excerpt(text)}'
            raise self._wrong(problem, "mend the cell")
        return value

    def _wrong(self, problem: str, remedy: str) -> BadInput:
        return wrong(self._path, self._number, problem, remedy)


def read_cells(path: Path, needed: Sequence[str]) -> Iterator[Cells]:
    """The rows of a table with some columns, `longtail.data.io.tables.read_table`.

    Raises:
        BadInput: the file is none, or malformed, or a row lacks such a column.
    """
    for number, record in read_table(path):
        for column in needed:
            if column not in record:
                problem = f'there is no column "{column}", the columns are: {", ".join(record)}'
                raise wrong(path, number, problem, f"a table of {', '.join(needed)} is expected")
        yield Cells(path, number, record)
