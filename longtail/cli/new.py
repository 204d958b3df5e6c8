"""``longtail new``: a few questions, and the command that trains what was asked for."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import typer

from longtail.data.io.manifest import read_manifest
from longtail.data.io.tables import read_table
from longtail.errors import BadInput, LongtailError
from longtail.files import must_be_free
from longtail.options import seconds_of
from longtail.units import printable

_LOOKED_AT = 200  # rows of a table
_SEPARATORS = (";", "|", ",")
_TEXTS = ("title", "text", "name", "description", "document", "body", "content")
_LABELS = ("labels", "label", "tags", "tag", "categories", "category", "classes", "class", "keywords", "topics")
_PREFER = {
    "precision": "the first labels are right",
    "tail": "rare labels are found",
    "coverage": "many different labels are found",
}


def new() -> None:
    """Ask a few questions, write the command that trains a model on your data, and offer to run it.

    An empty answer takes what stands in brackets; Ctrl-D ends it. Answers may come from a file or a pipe, one a line.
    """
    words = _asked()
    typer.echo(f"\n{printable(shlex.join(['longtail', 'train', *words]))}")
    try:
        wanted = typer.confirm("Run it now?")
    except typer.Abort:  # the answers of a file have ended
        wanted = False
    if wanted:
        from longtail.cli.verbs import command_of  # noqa: PLC0415  (which leads here)

        command_of("train")(words, prog_name="longtail train", standalone_mode=False)


def _asked() -> list[str]:
    """The arguments of ``longtail train``."""
    data = Path(_ask("1. Your data (a .csv, .jsonl or .parquet table, or the folder of a data set)", _is_data))
    words, graphs = [str(data)], list[str]()
    if data.is_dir():
        graphs = [*read_manifest(data).graphs]
    else:
        words += _of_table(data)
    if graphs:
        about = f"4. Documents or labels have links ({', '.join(graphs)}): learn from them, yes or no"
        words += ["--graphs", "all"] if _ask(about, _one_of(("yes", "no")), "yes") == "yes" else []
    elif _ask("4. Do labels have texts that say what they are, yes or no", _one_of(("yes", "no")), "yes") == "no":
        words.insert(0, "astec")
    matters = ", ".join(f"{name} ({about})" for name, about in _PREFER.items())
    prefer = _ask(f"5. What matters most: {matters}", _one_of(_PREFER), "precision")
    words += ["--prefer", prefer] if prefer != "precision" else []
    time = _ask("   How long may it take, as 10m or 2h", _is_time, "as long as it needs")
    words += ["--budget", time] if time else []
    name = printable(data.resolve().name).partition(".")[0]
    return [*words, "--out", _ask("   The folder for the model", _is_free, f"runs/{name}")]


def _of_table(table: Path) -> list[str]:
    """What there is to say of a table: its columns, and what is between labels."""
    rows = [record for _, record in islice(read_table(table), _LOOKED_AT)]
    if not rows:
        raise BadInput(table, "holds no record, expected at least 1", remedy="write one text a row")
    columns = [*rows[0]]
    there_are = printable(", ".join(columns))
    text = _ask(f"2. The column of the text ({there_are})", _one_of(columns), _likely(_TEXTS, columns, columns[0]))
    labels = _ask(
        f"3. The column of the labels ({there_are})", _one_of(columns), _likely(_LABELS, columns, columns[-1])
    )
    words = ["--text", text, "--labels", labels]
    cells = [row.get(labels) for row in rows]
    if any(isinstance(cell, str) and not cell.lstrip().startswith("[") for cell in cells):
        found = next((one for one in _SEPARATORS if any(one in str(cell) for cell in cells)), _SEPARATORS[0])
        words += ["--separator", _ask("   What is between the labels of a cell", str, found)]
    return words


def _likely(names: Collection[str], columns: Collection[str], otherwise: str) -> str:
    """The first column that has one of some names."""
    return next((column for name in names for column in columns if column.lower() == name), otherwise)


def _ask(question: str, check: Callable[[str], str], default: str | None = None) -> str:
    """An answer that passes a check, which raises what is said before the question is asked again."""
    while True:
        given: Any = typer.prompt(question, default=default)
        try:
            return check(given.strip())
        except LongtailError as error:
            typer.echo(f"   {error}")


def _one_of(names: Collection[str] | Mapping[str, str]) -> Callable[[str], str]:
    def check(given: str) -> str:
        if given not in names:
            raise BadInput("answer", f"expected one of {', '.join(names)}, found {given}", remedy="write one of those")
        return given

    return check


def _is_data(given: str) -> str:
    path = Path(given).expanduser()
    if not path.exists():
        raise BadInput(given, "there is no such file or folder", remedy="write its path")
    if not path.is_dir():
        next(iter(read_table(path)), None)  # refuses what is no table
    return str(path)


def _is_free(given: str) -> str:
    must_be_free(Path(given).expanduser())
    return given


def _is_time(given: str) -> str:
    if given == "as long as it needs":
        return ""
    seconds_of("time", given)
    return given
