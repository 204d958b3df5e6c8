"""What a verb prints as a table, as JSON for a program: the same way for every verb."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from longtail.cli.places import must_take
from longtail.files import write_json

_OUTPUT = Path("-")
JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json",
        help="Write the figures to this file as JSON, too; - is standard output, and tables go to standard error then.",
        show_default=False,
    ),
]


def console_beside(json_file: Path | None, **settings: Any) -> Console:
    """Where a verb prints for people.

    Raises:
        BadInput: no file can be written where the JSON is to be.
    """
    if json_file not in (None, _OUTPUT):
        must_take(json_file)
    return Console(stderr=json_file == _OUTPUT, **settings)


def keep_json(json_file: Path | None, value: Any) -> None:
    """Write what a verb has printed, where that is asked for."""
    if json_file == _OUTPUT:
        sys.stdout.write(json.dumps(value) + "\n")
    elif json_file is not None:
        write_json(json_file, value)
