"""``longtail predict``: ranked labels for lines of text."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape

from longtail.cli.run_folder import RunFolder
from longtail.errors import BadInput
from longtail.files import replacing
from longtail.model import Model
from longtail.model.explanation import linked_nodes
from longtail.model.label_set import with_changes
from longtail.topk import TopK


def predict(
    run: RunFolder,
    input_file: Annotated[
        str, typer.Option("--input", help="Lines, or JSON lines (.gz too); - is standard input.")
    ] = "-",
    k: Annotated[int, typer.Option(help="Labels a text.", min=1)] = 5,
    output: Annotated[Path | None, typer.Option(help="A .jsonl or .npz file; printed if left out.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="plain, encoder, classifier, combined, product or fused; else the best.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Name the nodes that each text was linked to, and their weights (oak).")
    ] = False,
    table: Annotated[bool, typer.Option("--table", help="Print for people also where it is no terminal.")] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "auto",
) -> None:
    """Rank labels for each line of a file, or for lines as they are typed.

    A line is a text, or a JSON object with a title and perhaps a content. A .jsonl file gets a line of JSON for each of
    them, and so does standard output where it is no terminal; an .npz file has the arrays ids and scores, one row each.

    With --explain a line of JSON has the nodes too: the linker's score and the combiner's weight of each.

    Labels that were added with longtail labels are ranked too, and those that were removed are not.
    """
    if output is not None and output.suffix not in (".jsonl", ".npz"):
        raise BadInput("--output", f"expected a .jsonl or .npz file, found {output.name}", remedy="name it so")
    bundle = with_changes(run, device=device)
    for_people = output is None and (table or sys.stdout.isatty())
    with _opened(input_file) as file:
        texts = _texts(file, input_file)
        if for_people:
            _print(bundle, texts, k, kind, explain)
            return
        given = list(texts)
    tops = bundle.stream(given, k, kind=kind)
    if output is None:
        sys.stdout.writelines(_json_lines(bundle, given, tops, explain))
        return
    with replacing(output) as temporary:
        if output.suffix == ".npz":
            _write_arrays(temporary, list(tops), k)
        else:
            with temporary.open("w", encoding="utf-8") as out:
                out.writelines(_json_lines(bundle, given, tops, explain))
    Console(stderr=True).print(f"{len(given):,} texts: {output}", highlight=False)


def _print(bundle: Model, texts: Iterator[dict[str, str]], k: int, kind: str | None, explain: bool) -> None:
    """Answer each text at once, for people."""
    console = Console(highlight=False)
    for text in texts:
        (labels,) = (labels for top in bundle.stream([text], k, kind=kind) for labels in bundle.named(top))
        console.print(f"[bold]{escape(text.get('title', ''))}[/bold]")
        for label in labels:
            console.print(f"  {label.score:8.3f}  {escape(label.text)}", no_wrap=True, overflow="ellipsis")
        for node in linked_nodes(bundle, [text])[0] if explain else ():
            share = "" if node.weight is None else f"{node.weight:.2f}"
            console.print(f"  {share:>8}  <- {escape(node.text)}", style="dim", no_wrap=True, overflow="ellipsis")


@contextmanager
def _opened(name: str) -> Iterator[TextIO]:
    """The input, as lines of text."""
    if name == "-":
        yield sys.stdin
    elif not Path(name).is_file():
        raise BadInput(
            name, "expected a file of lines, found no such file", remedy="give --input FILE, or - for standard input"
        )
    else:
        with (
            gzip.open(name, "rt", encoding="utf-8")
            if name.endswith(".gz")
            else Path(name).open(encoding="utf-8") as file
        ):
            yield file


def _texts(file: TextIO, name: str) -> Iterator[dict[str, str]]:
    """One text a line: a JSON object, or a plain title."""
    number = 0
    try:
        for number, line in enumerate(file, 1):
            text = line.rstrip("\r\n")
            yield _fields(text, name, number) if text.startswith("{") else {"title": text}
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile) as error:
        raise BadInput(
            name, f"expected UTF-8 text, found {error}", remedy="convert the file", line=number + 1
        ) from error


def _fields(text: str, name: str, number: int) -> dict[str, str]:
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(
            name, f"expected a JSON object, found {error.msg}", remedy="mend the line", line=number
        ) from error
    if not isinstance(fields.get("title", ""), str) or not isinstance(fields.get("content", ""), str):
        raise BadInput(name, "expected strings for title and content", remedy="mend the line", line=number)
    return {key: fields[key] for key in ("title", "content") if key in fields}


def _json_lines(bundle: Model, texts: list[dict[str, str]], tops: Iterator[TopK], explain: bool) -> Iterator[str]:
    position = 0
    for top in tops:
        block = texts[position : position + len(top)]
        position += len(top)
        nodes = linked_nodes(bundle, block) if explain else None
        for i, (text, labels) in enumerate(zip(block, bundle.named(top), strict=True)):
            line: dict[str, Any] = {"text": text.get("title", ""), "labels": [label._asdict() for label in labels]}
            if nodes is not None:
                line["nodes"] = [node._asdict() for node in nodes[i]]
            yield json.dumps(line, ensure_ascii=False) + "\n"


def _write_arrays(path: Path, tops: list[TopK], k: int) -> None:
    ids = np.concatenate([np.zeros((0, k), np.int64), *(top.ids for top in tops)])
    scores = np.concatenate([np.zeros((0, k), np.float32), *(top.scores for top in tops)])
    with path.open("wb") as file:
        np.savez(file, ids=ids, scores=scores)
