"""``longtail labels``: the label set of a trained model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from longtail.cli.run_folder import RunFolder
from longtail.data.io.formats import json_lines
from longtail.errors import BadInput
from longtail.model.label_set import LabelSet, NewLabel
from longtail.units import printable

labels_app = typer.Typer(help="Add, remove and list labels of a trained model.", no_args_is_help=True)
_BLOCK = 1_000  # labels added at a time


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
        labels = _read(input_file)
    elif uid is not None and text is not None:
        labels = [NewLabel(uid, text, [{"title": one} for one in example or []])]
    else:
        raise BadInput("labels add", "expected --uid and --text, or --input", remedy="give one or the other")
    label_set = LabelSet(run, device="cpu", exact=True)
    for at in range(0, len(labels), _BLOCK):
        label_set.add(labels[at : at + _BLOCK])
    label_set.close()
    Console(stderr=True, highlight=False).print(f"added {len(labels):,}")


@labels_app.command()
def remove(run: RunFolder, uids: Annotated[list[str], typer.Argument(help="Of the labels.")]) -> None:
    """Remove labels from a trained model; a running server is without them at once."""
    label_set = LabelSet(run, device="cpu", exact=True)
    if missing := [uid for uid in uids if label_set.snapshot.find(uid) is None]:
        label_set.close()
        raise BadInput("uid", f"expected uids of labels, found {', '.join(missing)}", remedy="nothing was removed")
    label_set.remove(uids)
    label_set.close()
    Console(stderr=True, highlight=False).print(f"removed {len(uids):,}")


@labels_app.command("list")
def list_(run: RunFolder) -> None:
    """Print the changes since the model was built, as JSON lines; what was added, as labels add --input reads it."""
    label_set = LabelSet(run, device="cpu", exact=True)
    for change in label_set.changes():
        said: dict[str, Any] = {"uid": change.uid}
        said |= {"removed": True} if change.text is None else {"text": change.text, "examples": list(change.examples)}
        sys.stdout.write(printable(json.dumps(said, ensure_ascii=False)) + "\n")
    label_set.close()


@labels_app.command()
def compact(run: RunFolder) -> None:
    """Fold the changes into the model's own table; a running server goes on answering, and then uses it."""
    label_set = LabelSet(run, device="cpu")
    label_set.compact()
    count = len(label_set.snapshot)
    label_set.close()
    Console(stderr=True, highlight=False).print(f"{count:,} labels in one table")


def _read(path: Path) -> list[NewLabel]:
    labels = []
    for number, said in enumerate(json_lines(path), 1):
        try:
            assert said is not None, "json_lines stops at what is none"
            examples = [{"title": one} if isinstance(one, str) else dict(one) for one in said.get("examples", [])]
            label = NewLabel(said["uid"], said["text"], examples)
        except (ValueError, KeyError, TypeError) as error:
            problem = f"expected a JSON object with uid, text and perhaps examples, found {str(said)[:60]}"
            raise BadInput(path, problem, remedy="mend the line", line=number) from error
        if not all(
            isinstance(part, str) for part in (label.uid, label.text, *(p for e in examples for p in e.values()))
        ):
            raise BadInput(path, "expected strings", remedy="mend the line", line=number)
        labels.append(label)
    return labels
