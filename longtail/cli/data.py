"""``longtail data``: check, describe, import and split data set folders."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from longtail.cli.json_file import JsonFile, console_beside, keep_json
from longtail.cli.report_file import Report, must_take_page, write_page
from longtail.data.check import but_for_case, uncut
from longtail.data.check import check as find
from longtail.data.dataset import Dataset, Propensity
from longtail.data.describe import describe as count
from longtail.data.filters import proposed_filter
from longtail.data.holdout import with_test_split
from longtail.data.io.folder import Folder
from longtail.data.io.imports import Columns, Match, import_tables
from longtail.data.io.manifest import FIELDS, is_encoding, part
from longtail.data.io.writing import write_pairs
from longtail.data.one_label import describe_label
from longtail.errors import BadInput
from longtail.files import must_be_free
from longtail.report.data_page import page_of_data
from longtail.report.description import Section, sections, sections_of_label
from longtail.units import printable

data_app = typer.Typer(help="Check, describe, import and split data sets.", no_args_is_help=True)
DataFolder = Annotated[Path, typer.Argument(help="A data set folder (docs/reference/data.md).", show_default=False)]
Out = Annotated[Path, typer.Option(help="The folder to write; it must be new or empty.", show_default=False)]


@data_app.command()
def check(
    folder: DataFolder,
    write_filters: Annotated[
        bool, typer.Option("--write-filters", help="Write the filter files that are missing (docs/guides/filters.md).")
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """Find everything in a data set folder that has to be mended.

    Errors (the folder cannot be used as it is) end with exit status 1; warnings are things that are seldom meant.
    """
    console = console_beside(json_file, highlight=False, soft_wrap=True)
    with busy(f"reading {folder}"):
        findings, dataset = find(folder)
    keep_json(json_file, {"usable": dataset is not None, "findings": [asdict(finding) for finding in findings]})
    for finding in findings:
        colour = "red" if finding.severity == "error" else "yellow"
        console.print(f"[{colour}]{finding.severity}[/] ", end="")
        console.print(finding.message, markup=False)
    if dataset is None:
        console.print(_counted(len(findings), "error"))
        raise typer.Exit(1)
    console.print(
        f"{printable(dataset.name)} can be used: no errors, {_counted(len(findings), 'warning')}", markup=False
    )
    if write_filters:
        _write_filters(folder, dataset, console)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _write_filters(folder: Path, dataset: Dataset, console: Console) -> None:
    for side, pairs in zip(
        ("train", "test"), proposed_filter(dataset.train, dataset.test, dataset.labels), strict=True
    ):
        name = f"filter_labels_{side}.txt"
        there = part(folder, name)
        if there is not None:
            console.print(f"{there.name} is there already and stays as it is")
        elif pairs is not None:
            write_pairs(folder / name, pairs)
            console.print(f"wrote {folder / name}: {pairs.nnz:,} identity and reciprocal pairs", markup=False)


@data_app.command()
def describe(
    folder: DataFolder,
    label: Annotated[
        str | None, typer.Option(help="Describe this label alone, by uid or title: what it occurs with, or reads like.")
    ] = None,
    json_file: JsonFile = None,
    report: Report = None,
) -> None:
    """Print a data set in numbers: sizes, words, the tail, repeated texts, leaks, labels that look alike, graphs.

    Identity pairs are a document and the label that is the same thing; of reciprocal pairs training holds the way back.

    Head, torso and tail are the labels by falling frequency, each with a third of the training pairs.

    The report has histograms, examples, and what to do about what was found (docs/guides/errors.md).
    """
    console = console_beside(json_file, highlight=False)
    must_take_page(report)
    if label is not None:
        if report is not None:
            raise BadInput("report", "expected none of a single label", remedy="leave one of the two out")
        with busy(f"reading {folder}"):
            found = describe_label(Dataset.read(folder, graphs=()), label)
        keep_json(json_file, asdict(found))
        for section in sections_of_label(found):
            console.print(_table(section))
        return
    with busy(f"reading {folder}"):
        description = count(Dataset.read(folder))
    keep_json(json_file, asdict(description))
    console.print(printable(description.name), style="bold", markup=False)
    for line in (description.description, description.licence and f"Licence: {description.licence}"):
        if line:
            console.print(printable(line), markup=False)
    for section in sections(description):
        console.print(_table(section))
    if report is not None:
        write_page(report, page_of_data(description), console)


def _table(section: Section) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(section.header):
        table.add_column(escape(name), justify="left" if i == 0 else "right", overflow="fold")
    for row in section.rows:
        table.add_row(*map(escape, row))
    return table


@data_app.command("import")
def import_(
    train: Annotated[
        Path,
        typer.Argument(
            help="Training documents: .csv, .tsv, .jsonl or .parquet, or .txt of fastText.", show_default=False
        ),
    ],
    out: Out,
    test: Annotated[Path | None, typer.Option(help="Test documents, in the same form.")] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Labels: such a table, or .txt with one label text a line.")
    ] = None,
    separator: Annotated[str | None, typer.Option(help="Between the labels in a cell, for example ';'.")] = None,
    match: Annotated[
        Match | None,
        typer.Option(help="What a labels entry is in the label file; by default uid, or title where it has no uids."),
    ] = None,
    title_column: Annotated[str, typer.Option("--title-column", "--text", help="The column of the text.")] = "title",
    content_column: Annotated[str, typer.Option(help="The column of longer text, if there is one.")] = "content",
    uid_column: Annotated[str, typer.Option(help="The column of identifiers, if there is one.")] = "uid",
    labels_column: Annotated[str, typer.Option(help="The column of labels, in documents.")] = "labels",
    merge_case: Annotated[
        bool, typer.Option("--merge-case", help="Labels that differ in case only are one, as it is first written.")
    ] = False,
    keep: Annotated[str, typer.Option(help="Further columns of the documents to keep, with commas.")] = "",
    name: Annotated[str | None, typer.Option(help="Of the data set; by default the folder's.")] = None,
    licence: Annotated[str, typer.Option(help="Of the data.")] = "",
    propensity: Annotated[
        str | None, typer.Option(help="A,B of the propensity model, without which there is no PSP: 0.55,1.5")
    ] = None,
    encoding: Annotated[str, typer.Option(help="Of text files.")] = "utf-8",
) -> None:
    """Make a data set folder of tables with a text and its labels in each row.

    A cell of labels is a list, a JSON list, or labels with --separator between them.

    Without --labels, each distinct entry becomes a label whose text is the entry.
    """
    must_be_free(out)
    constants = None if propensity is None else Propensity.parsed(propensity)
    if not is_encoding(encoding):
        raise BadInput("encoding", f'unknown encoding "{encoding}"', remedy='use "utf-8" or "latin-1"')
    columns = Columns(title=title_column, content=content_column, uid=uid_column, labels=labels_column)
    with busy(f"reading {train}"):
        dataset = import_tables(
            train,
            test=test,
            labels=labels,
            columns=columns,
            separator=separator,
            match=match,
            merge_case=merge_case,
            keep=names_in(keep),
            encoding=encoding,
            name=name or out.resolve().name,
        )
        dataset = replace(dataset, licence=licence, propensity=constants)
        dataset.write(out)
    _say_written(out, dataset)
    warn_of_labels(train, dataset, separator if labels is None else None)


@data_app.command()
def split(
    folder: DataFolder,
    out: Out,
    rows: Annotated[int | None, typer.Option(help="Documents to cut off.", show_default=False)] = None,
    share: Annotated[
        float | None, typer.Option(help="Or the share of the training documents; a tenth if both are left out.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    at_random: Annotated[
        bool, typer.Option("--at-random", help="Cut any documents, so that some labels keep no training document.")
    ] = False,
) -> None:
    """Write a data set whose test split is cut from the training documents of another.

    The other's own test split is left out of the new folder, so that choices are made without a look at it. The links
    that the cut documents had in graphs are kept in GRAPH_tst_X_Y.txt.gz, which only evaluate --oracle-links reads.

    As far as possible, documents are cut whose labels all keep another training document: a test of the labels that a
    model can learn. With --at-random it is a test of what comes later, for probabilities and for unseen labels.
    """
    must_be_free(out)
    if rows is not None and share is not None:
        raise BadInput("share", f"expected rows or a share, found both, {rows} and {share:g}", remedy="leave one out")
    share = 0.1 if share is None else share
    if not 0 < share < 1:
        raise BadInput("share", f"expected a share between 0 and 1, found {share:g}", remedy="for example 0.1")
    with busy(f"cutting {folder}"):
        dataset = Dataset.read(folder, fields=(*FIELDS, *Folder.open(folder).columns("train")))
        size = rows if rows is not None else max(1, round(share * len(dataset.train)))
        made, tested = with_test_split(dataset, size, seed, at_random=at_random)
        graphs = dataset.graphs.items()
        made.write(out, test_links={name: graph.train[tested] for name, graph in graphs if graph.train is not None})
    _say_written(out, made)
    assert made.test is not None
    frequency = np.bincount(made.train.targets.indices, minlength=len(dataset.labels))
    lost = int((frequency[np.unique(made.test.targets.indices)] == 0).sum())
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{lost:,} labels of the new test split have no training document left")
    if neither := size - len(tested):
        console.print(f"{neither:,} documents that were cut are in neither: training has all their pairs the other way")
    if dataset.test is not None:
        console.print(f"the {len(dataset.test):,} test documents of {folder} are not in it", markup=False)


def names_in(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))


def _say_written(out: Path, dataset: Dataset) -> None:
    test = "no test split" if dataset.test is None else f"{len(dataset.test):,} test documents"
    sizes = f"{len(dataset.train):,} training documents, {test}, {len(dataset.labels):,} labels"
    Console(highlight=False, soft_wrap=True).print(f"wrote {out}: {sizes}", markup=False)


def warn_of_labels(table: Path, dataset: Dataset, separator: str | None) -> None:
    """Say on standard error which labels of a table that was read differ in case only, or were likely not cut."""
    found = [] if separator is None else uncut(table, dataset, separator)
    for problem in (*but_for_case(table, dataset.labels), *found):
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"warning {problem}", markup=False, style="yellow")


def busy(what: str) -> Status:
    """Something that moves while a large data set is read; nothing where the output is no terminal."""
    return Console(stderr=True).status(escape(printable(what)))
