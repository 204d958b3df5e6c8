"""``longtail labels``: the label set of a trained model."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console

from longtail.cli.places import must_take
from longtail.cli.run_folder import RunFolder
from longtail.data.io.formats import json_lines
from longtail.data.io.writing import write_lines
from longtail.errors import BadInput
from longtail.model.catalogue import Correction
from longtail.model.label_set import LabelSet, NewLabel
from longtail.model.predictions import FIELDS
from longtail.units import printable

labels_app = typer.Typer(help="Add, remove, list and correct labels of a trained model.", no_args_is_help=True)
_BLOCK = 1_000  # labels added at a time
T = TypeVar("T")


@labels_app.command()
def add(
    run: RunFolder,
    uid: Annotated[str | None, typer.Option(help="Of one label.")] = None,
    text: Annotated[str | None, typer.Option(help="Of one label.")] = None,
    example: Annotated[list[str] | None, typer.Option(help="A document that has it; may be given again.")] = None,
    input_file: Annotated[
        Path | None, typer.Option("--input", help="Or JSON lines, each with uid, text and perhaps examples.")
    ] = None,
) -> None:
    """Add labels to a trained model, or replace those with the same uid; a running server has them at once."""
    if input_file is not None:
        labels = _read(input_file, "strings for uid and text, and perhaps a list of examples", _label_of)
    else:
        labels = [NewLabel(*_both(uid, text), [{"title": one} for one in example or []])]
    with _opened(run) as label_set:
        for at in range(0, len(labels), _BLOCK):
            label_set.add(labels[at : at + _BLOCK])
    _say(f"added {len(labels):,}")


@labels_app.command()
def remove(run: RunFolder, uids: Annotated[list[str], typer.Argument(help="Of the labels.")]) -> None:
    """Remove labels from a trained model; a running server is without them at once."""
    uids = [*dict.fromkeys(uids)]
    with _opened(run) as label_set:
        if missing := [uid for uid in uids if label_set.snapshot.find(uid) is None]:
            raise BadInput("uid", f"expected uids of labels, found {', '.join(missing)}", remedy="nothing was removed")
        label_set.remove(uids)
    _say(f"removed {len(uids):,}")


@labels_app.command("list")
def list_(run: RunFolder) -> None:
    """Print the changes since the model was built, as JSON lines; what was added, as labels add --input reads it."""
    with _opened(run) as label_set:
        changes = label_set.changes()
    for uid, text, examples, *_ in changes:
        said = {"removed": True} if text is None else {"text": text, "examples": list(examples)}
        _write({"uid": uid, **said})


@labels_app.command()
def find(
    run: RunFolder,
    query: Annotated[str, typer.Argument(help="A part of the label's text, or its whole uid.", show_default=False)],
    limit: Annotated[int, typer.Option(help="Labels at most.", min=1)] = 20,
) -> None:
    """Find labels, as JSON lines of uid and text; upper and lower case of a to z are the same."""
    with _opened(run) as label_set:
        snapshot = label_set.snapshot
        found = [snapshot.label(row) for row in snapshot.found(query, limit)]
    for _, uid, text in found:
        _write({"uid": uid, "text": text})
    if not found:
        _say(f"no label has {query!r} in its text, or as its uid")


@labels_app.command()
def compact(run: RunFolder) -> None:
    """Fold the changes into the model's own table; a running server goes on answering, and then uses it."""
    with closing(LabelSet(run, device="cpu")) as label_set:
        label_set.compact()
        count = len(label_set.snapshot)
    _say(f"{count:,} labels in one table")


@labels_app.command()
def correct(
    run: RunFolder,
    uid: Annotated[str | None, typer.Option(help="Of a label.")] = None,
    text: Annotated[str | None, typer.Option(help="That has it.")] = None,
    wrong: Annotated[bool, typer.Option("--wrong", help="The text has not the label.")] = False,
    input_file: Annotated[
        Path | None, typer.Option("--input", help="Or JSON lines, as labels corrections writes them.")
    ] = None,
) -> None:
    """Say that a text has a label, or has it not; predictions know it at once, also those of a running server."""
    if input_file is not None:
        given = _read(input_file, "a title, and lists of uids and wrong_uids", _corrections_of)
    else:
        uid, text = _both(uid, text)
        given = [[Correction({"title": text}, uid, not wrong)]]
    with _opened(run) as label_set:
        numbers = label_set.correct([one for of_text in given for one in of_text])
    _say(f"kept {len(numbers):,}")


@labels_app.command()
def withdraw(run: RunFolder, ids: Annotated[list[int], typer.Argument(help="Of the corrections.")]) -> None:
    """Take corrections back."""
    with _opened(run) as label_set:
        if missing := [str(number) for number in ids if number not in label_set.snapshot.corrections.kept]:
            problem = f"expected those of corrections, found {', '.join(missing)}"
            raise BadInput("ids", problem, remedy="see longtail labels corrections; nothing was withdrawn")
        for number in ids:
            label_set.withdraw(number)
    _say(f"withdrew {len(ids):,}")


@labels_app.command()
def corrections(
    run: RunFolder,
    out: Annotated[
        Path | None, typer.Option(help="A file to write them to; they are printed if left out.", show_default=False)
    ] = None,
) -> None:
    """Give the corrections as JSON lines, a text each, which train and data import read as documents with labels."""
    if out is not None:
        must_take(out)
    with _opened(run) as label_set:
        records = label_set.corrected_texts()
    if out is None:
        for record in records:
            _write(record)
    else:
        write_lines(out, (json.dumps(record, ensure_ascii=False) for record in records))
        _say(f"wrote {len(records):,} to {out}")


def _opened(run: Path) -> closing[LabelSet]:
    """The labels of a run, which are looked for exactly, for a block."""
    return closing(LabelSet(run, device="cpu", exact=True))


def _write(record: Mapping[str, Any]) -> None:
    """Print a line of JSON."""
    sys.stdout.write(printable(json.dumps(record, ensure_ascii=False)) + "\n")


def _say(what: str) -> None:
    Console(stderr=True, highlight=False).print(what, markup=False)


def _both(uid: str | None, text: str | None) -> tuple[str, str]:
    if uid is None or text is None:
        raise BadInput("labels", "expected --uid and --text, or --input", remedy="give one or the other")
    return uid, text


def _corrections_of(said: Mapping[str, Any]) -> list[Correction]:
    document = {name: _string(said[name]) for name in FIELDS if name in said}
    verdicts = (("uids", True), ("wrong_uids", False))
    return [Correction(document, _string(uid), is_right) for key, is_right in verdicts for uid in said[key]]


def _label_of(said: Mapping[str, Any]) -> NewLabel:
    examples = [{"title": one} if isinstance(one, str) else dict(one) for one in said.get("examples", [])]
    checked = [{name: _string(part) for name, part in one.items()} for one in examples]
    return NewLabel(_string(said["uid"]), _string(said["text"]), checked)


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _read(path: Path, expected: str, made: Callable[[Mapping[str, Any]], T]) -> list[T]:
    """What is made of each line of a file of JSON lines."""
    found = []
    for number, said in enumerate(json_lines(path), 1):
        assert said is not None, "json_lines stops at what is none"
        try:
            found.append(made(said))
        except (ValueError, KeyError, TypeError) as error:
            problem = f"expected {expected}, found {str(said)[:60]}"
            raise BadInput(path, problem, remedy="mend the line", line=number) from error
    return found
