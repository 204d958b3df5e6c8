"""``longtail predict``: ranked labels for lines of text."""

from __future__ import annotations

import json
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape

from longtail.bulk.job import BATCH
from longtail.cli import predict_parts as parts
from longtail.cli.run_folder import Device, RunFolder
from longtail.cli.threshold import threshold_of
from longtail.data.io.formats import decoded, decoded_line, stop
from longtail.data.io.imports import Columns, texts_of_table
from longtail.errors import BadInput
from longtail.files import replacing
from longtail.model import Model, load
from longtail.model.explanation import linked_nodes
from longtail.model.predictions import Predictions, text_by_field
from longtail.topk import AnyArray
from longtail.units import printable

_STANDARD_INPUT, _ENCODING = "standard input", "UTF-8"
_Ask: TypeAlias = Callable[[list[dict[str, str]]], Iterator[Predictions]]  # texts to ranked labels, block by block

_Input: TypeAlias = Annotated[
    str,
    typer.Option(
        "--input", help="Lines, JSON lines, .csv or .tsv (.gz too); Parquet for a folder; - is standard input."
    ),
]
_K: TypeAlias = Annotated[
    int | None,
    typer.Option("--k", "--at-most", help="Labels a text; 5, or 20 with --threshold or --precision.", min=1),
]
_Output: TypeAlias = Annotated[
    str | None,
    typer.Option(help="A .jsonl or .npz file, a .csv or .tsv of a table, a folder for Parquet; else printed."),
]
_Kind: TypeAlias = Annotated[str | None, typer.Option(help="A score kind, as evaluate shows them; else the best.")]
_Probabilities: TypeAlias = Annotated[
    bool, typer.Option("--probabilities", help="Say how probable it is that each label is right.")
]
_Threshold: TypeAlias = Annotated[float | None, typer.Option(help="Give only labels that are at least so probable.")]
_Precision: TypeAlias = Annotated[
    float | None,
    typer.Option(help="Give the labels above the lowest threshold that kept this precision on held-out documents."),
]
_Explain: TypeAlias = Annotated[
    bool, typer.Option("--explain", help="Name the nodes that each text was linked to, and their weights (oak).")
]


def predict(
    run: RunFolder,
    inputs: parts.Inputs = None,
    input_file: _Input = "-",
    k: _K = None,
    output: _Output = None,
    kind: _Kind = None,
    probabilities: _Probabilities = False,
    threshold: _Threshold = None,
    precision: _Precision = None,
    uids: Annotated[bool, typer.Option("--uids", help="Write the array uids, too, into an .npz file.")] = False,
    explain: _Explain = False,
    table: Annotated[bool, typer.Option("--table", help="Print for people also where it is no terminal.")] = False,
    exact: Annotated[bool, typer.Option("--exact", help="Leave approximate searches aside.")] = False,
    device: Device = "auto",
    text: parts.Text = "title",
    content: parts.Content = None,
    label_texts: parts.LabelTexts = False,
    prefix: parts.Prefix = "",
    skip_null: parts.SkipNull = False,
    batch: parts.Batch = BATCH,
    engine: parts.EngineName = "local",
    workers: parts.Workers = None,
) -> None:
    """Rank labels for each line of a file, or for lines as they are typed.

    A line is a text, or a JSON object with a title and perhaps a content; of a .csv or .tsv table, whose first line
    names the columns, --text is the column of the texts. A .jsonl file gets a line of JSON for each of
    them, and so does standard output where it is no terminal; an .npz file has the arrays ids and scores, one row each.
    The id of a label stays with it as long as the run lives, whatever other labels come and go.

    A table to a .csv or .tsv file keeps its columns, and has those of the labels and scores behind them, as JSON lists.

    With a folder as the output, the input is Parquet: files, a folder or a pattern, here or as URLs. Each file gives
    one of the same name, and the same command goes on with a job that was stopped (docs/guides/batch.md).

    With --explain a line of JSON has the nodes too: the linker's score and the combiner's weight of each.

    With --probabilities, --threshold or --precision each label has its probability, and the .npz file the array
    probabilities. What --precision kept on held-out documents is said on standard error.

    Labels that were added with longtail labels are ranked too, and those that were removed are not.
    """
    files = [input_file, *(inputs or ())]
    job = parts.Job(text, content, label_texts, prefix, skip_null, batch, engine, workers)
    if output is not None and parts.takes_columns(output):
        parts.must_be_without(output, uids=uids, explain=explain, table=table)
        ranker = job.ranker(run, k=k, kind=kind, device=device, exact=exact)
        threshold = threshold_of(ranker.model, kind, threshold, precision)
        probabilities = probabilities or threshold is not None
        parts.with_columns(replace(ranker, threshold=threshold, probabilities=probabilities), files, output, job)
        return
    job.must_be_none(files, output)
    if uids and Path(output or "").suffix != ".npz":
        problem = f"expected an .npz file as the output, which has an array of them, found {output or 'none'}"
        raise BadInput("uids", problem, remedy="leave it out: lines of JSON have them anyway")
    model = load(run, device=device, exact=exact)
    threshold = threshold_of(model, kind, threshold, precision)
    columns = Columns(title=text, content=content or "content")
    _answer(model, files[0], output, _Asked(columns, k, kind, threshold, probabilities, uids, explain, table))


class _Asked(NamedTuple):
    """What the verb was asked for of lines."""

    columns: Columns
    k: int | None
    kind: str | None
    threshold: float | None
    probabilities: bool
    uids: bool
    explain: bool
    table: bool


def _answer(model: Model, source: str, output: str | None, asked: _Asked) -> None:
    """Rank labels for lines, and print or write them."""
    probabilities = asked.probabilities or asked.threshold is not None
    if probabilities:
        model.calibration(asked.kind)  # which refuses a model without, before anything is read
    ask = partial(model.stream, k=asked.k, kind=asked.kind, threshold=asked.threshold)
    texts = _texts(source, asked.columns)
    if output is None and (asked.table or sys.stdout.isatty()):
        _print(model, ask, texts, probabilities, asked.explain)
        return
    given = list(texts)
    lines = _json_lines(model, given, ask(given), probabilities, asked.explain)
    if output is None:
        sys.stdout.writelines(lines)
        return
    with replacing(Path(output)) as temporary:
        if temporary.suffix == ".npz":
            _write_arrays(
                temporary,
                model.predict(given, asked.k, kind=asked.kind, threshold=asked.threshold),
                probabilities,
                asked.uids,
            )
        else:
            with temporary.open("w", encoding="utf-8") as out:
                out.writelines(lines)
    Console(stderr=True).print(f"{len(given):,} texts: {output}", highlight=False, markup=False)


def _print(model: Model, ask: _Ask, texts: Iterator[dict[str, str]], probabilities: bool, explain: bool) -> None:
    """Answer each text at once, for people."""
    console = Console(highlight=False)
    for text in texts:
        (found,) = ask([text])
        console.print(f"[bold]{_shown(text.get('title', ''))}[/bold]")
        for j, label in enumerate(found[0]):
            chance = f"  {found.probabilities[0, j]:5.3f}" if probabilities else ""
            console.print(f"  {label.score:8.3f}{chance}  {_shown(label.text)}", no_wrap=True, overflow="ellipsis")
        for node in linked_nodes(model, [text])[0] if explain else ():
            share = "" if node.weight is None else f"{node.weight:.2f}"
            console.print(f"  {share:>8}  <- {_shown(node.text)}", style="dim", no_wrap=True, overflow="ellipsis")


def _shown(text: str) -> str:
    """A text of others, between markup."""
    return escape(printable(text))


def _texts(name: str, columns: Columns) -> Iterator[dict[str, str]]:
    """The texts of the input: one a row of a table, or one a line, which is a JSON object or a plain title."""
    if name == "-":
        yield from _texts_of_lines(map(_decoded, count(1), sys.stdin.buffer), _STANDARD_INPUT)
    elif not Path(name).is_file():
        raise BadInput(
            name, "expected a file of lines, found no such file", remedy="give --input FILE, or - for standard input"
        )
    elif parts.is_table(name):
        fields = texts_of_table(Path(name), columns).fields
        yield from (dict(zip(fields, row, strict=True)) for row in zip(*fields.values(), strict=True))
    else:
        yield from _texts_of_lines(decoded(Path(name), _ENCODING), name)


def _decoded(number: int, raw: bytes) -> str:
    """A line of standard input, whose own decoder reads on before it says that a line is not UTF-8."""
    raw = raw.removeprefix(BOM_UTF8) if number == 1 else raw
    return decoded_line(raw, Path(_STANDARD_INPUT), number, _ENCODING, stop)


def _texts_of_lines(lines: Iterable[str], name: str) -> Iterator[dict[str, str]]:
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        is_object = text.lstrip(" \t").startswith("{")
        yield text_by_field(_object(text, name, number) if is_object else text, name, number)


def _object(text: str, name: str, number: int) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # a number of too many digits is a ValueError alone
        problem = f"expected a JSON object, found {error}"
        raise BadInput(name, problem, remedy="mend the line", line=number) from error


def _json_lines(
    model: Model, texts: list[dict[str, str]], blocks: Iterator[Predictions], probabilities: bool, explain: bool
) -> Iterator[str]:
    position = 0
    for block in blocks:
        given = texts[position : position + len(block)]
        position += len(block)
        nodes = linked_nodes(model, given) if explain else None
        for i, (text, labels) in enumerate(zip(given, block.as_dicts(probabilities=probabilities), strict=True)):
            line: dict[str, Any] = {"text": text.get("title", ""), "labels": labels}
            if nodes is not None:
                line["nodes"] = [node._asdict() for node in nodes[i]]
            yield printable(json.dumps(line, ensure_ascii=False)) + "\n"


def _write_arrays(path: Path, found: Predictions, probabilities: bool, uids: bool) -> None:
    arrays: dict[str, AnyArray] = {"ids": found.ids, "scores": found.scores}
    if probabilities:
        arrays["probabilities"] = found.probabilities
    if uids:
        arrays["uids"] = found.uids
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
