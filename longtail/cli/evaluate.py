"""``longtail evaluate``: a trained run on a test split."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.console import Console
from rich.table import Table

from longtail.batches.links import heaviest_links
from longtail.cli.json_file import JsonFile, console_beside, keep_json
from longtail.cli.report_file import Report, must_take_page, write_page
from longtail.cli.run_folder import Device, OtherData, RunFolder, data_of
from longtail.cli.threshold import threshold_of
from longtail.data.dataset import Dataset, Propensity
from longtail.data.filters import answers, apart, proposed_pairs
from longtail.data.io.formats import read_sparse
from longtail.data.split import Split
from longtail.errors import BadInput
from longtail.metrics.bins import by_bin, label_bins
from longtail.metrics.places import place
from longtail.metrics.ranking import metrics_of
from longtail.metrics.summary import Evaluation, bin_table
from longtail.model import Bundle, Model, load
from longtail.model.evaluation import evaluate as measured
from longtail.model.evaluation import fields_with, must_have_test
from longtail.model.label_set import changes_made
from longtail.topk import IntArray

_LONG = 5 * 10**10  # pairs of a document and a label, of which more take some twenty minutes on a core
ORACLE = 15  # true links of a document that are used at most, as in training
_Threshold: TypeAlias = Annotated[
    float | None, typer.Option(help="Judge the labels that are at least so probable, too, as predict gives them.")
]
_Precision: TypeAlias = Annotated[
    float | None,
    typer.Option(help="The same above the lowest threshold that kept this precision on held-out documents."),
]


def evaluate(
    run: RunFolder,
    data: OtherData = None,
    k: Annotated[str, typer.Option(help="Cut-offs, with commas.")] = "1,3,5",
    propensity: Annotated[
        list[str] | None,
        typer.Option(help="A,B of a PSP, not those of the data set: 0.55,1.5. Several are shown side by side."),
    ] = None,
    json_file: JsonFile = None,
    intervals: Annotated[bool, typer.Option("--intervals", help="Draw 95 % bootstrap intervals.")] = False,
    sample: Annotated[
        int | None,
        typer.Option(help="Rank so many test documents, drawn at random, with intervals; all of them if left out."),
    ] = None,
    bins: Annotated[bool, typer.Option("--bins", help="Show recall by label frequency, head to tail.")] = False,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Group the test documents: length (words), labels (how many), rarest-word (its training documents), "
            "or a column of theirs; of numbers NAME:bins=10. Several may be given."
        ),
    ] = None,
    threshold: _Threshold = None,
    precision: _Precision = None,
    macro: Annotated[bool, typer.Option("--macro", help="Show precision and F1 by label, too.")] = False,
    report: Report = None,
    oracle_links: Annotated[
        Path | None, typer.Option(help="Enrich test documents with the links of this file, not with predicted ones.")
    ] = None,
    answer_free: Annotated[
        bool, typer.Option("--answer-free", help="Leave those of them out whose node is a true label of the document.")
    ] = False,
    device: Device = "auto",
) -> None:
    """Measure a trained run on the test split of its data set."""
    ks, constants, by = cut_offs(k), [Propensity.parsed(pair) for pair in propensity or []], by or []
    console = console_beside(json_file)
    must_take_page(report)
    model = load(run, device=device, changes=False)
    least = threshold_of(model, None, threshold, precision)
    folder = data_of(run, data)
    dataset = Dataset.read(folder, fields=fields_with(model.fields, by))
    test = must_have_test(dataset)
    _warn_of_time(model, test, sample, console)
    links = None if oracle_links is None else _links(oracle_links, model, dataset, answer_free=answer_free)
    found = measured(
        model,
        dataset,
        propensity=constants,
        ks=ks,
        intervals=intervals,
        by=by,
        threshold=least,
        links=links,
        sample=sample,
    )
    if found.drawn is not None:
        dataset = replace(dataset, test=test.take(found.drawn.rows))
    console.print(found)
    if macro:
        console.print(found.macro())
    if bins:
        console.print(_by_frequency(found, dataset, ks))
    warn_of_pairs(model, found, dataset, console)
    _warn_of_changes(run, console)
    keep_json(json_file, found.as_dict())
    if report is not None:
        _write_report(report, run, dataset, found, folder, console)


def _write_report(into: Path, run: Path, dataset: Dataset, found: Evaluation, data: Path, console: Console) -> None:
    from longtail.report.compose import report_of_run  # noqa: PLC0415 - it imports every recipe

    write_page(into, report_of_run(run, dataset, found, data=data), console)


def warn_of_pairs(model: Model, found: Evaluation, dataset: Dataset, console: Console) -> None:
    """Without a filter file, say what a filter of the identity and reciprocal pairs would change, if there are any."""
    test = must_have_test(dataset)
    if test.filtered is not None:
        return
    pairs = proposed_pairs(test, dataset.train, dataset.labels)
    if pairs.nnz:
        tops = [model.search(found.ranked.vectors, 1, exclude=exclude) for exclude in (None, pairs)]
        plain, filtered = (metrics_of(top, test.targets, ks=[1])["P@1"] for top in tops)
        console.print(
            f"Warning: the data set has no filter file, but {pairs.nnz:,} of its test pairs are a document and itself, "
            f"or the way back of a training pair. P@1 is {plain:.2f} with them and {filtered:.2f} without "
            f"(docs/guides/filters.md; longtail data check --write-filters writes the filter).",
            style="yellow",
            highlight=False,
        )


def _by_frequency(found: Evaluation, dataset: Dataset, ks: list[int]) -> Table:
    truth, of_label = must_have_test(dataset).targets, label_bins(dataset.train.targets)
    kinds = {kind: by_bin(place(top, truth), of_label, ks=ks) for kind, top in found.ranked.tops.items()}
    return bin_table(of_label, kinds, f"R@{max(ks)}")


def _warn_of_time(model: Model, test: Split, sample: int | None, console: Console) -> None:
    if sample is None and len(test) * len(model.labels) > _LONG:
        pairs = f"{len(test):,} documents are ranked among {len(model.labels):,} labels, exactly"
        console.print(f"{pairs}, which takes long; --sample draws some of the documents.", highlight=False)


def _warn_of_changes(run: Path, console: Console) -> None:
    if changes := changes_made(run):
        console.print(
            f"The labels of this run were changed {changes:,} times since; the figures are of the model as trained.",
            style="yellow",
            highlight=False,
        )


def _links(path: Path, model: Model, dataset: Dataset, *, answer_free: bool) -> IntArray:
    """The nodes of test documents in a file, the heaviest `ORACLE` of each, for a model that enriches documents."""
    if not isinstance(model, Bundle) or model.linked is None:
        raise BadInput("oracle_links", f"{model.recipe} links no documents", remedy="train oak, or leave it out")
    test, nodes = must_have_test(dataset), model.linked.linker.labels.fields["title"]
    edges, expected = read_sparse(path, what="node id"), (len(test), len(nodes))
    if edges.shape != expected:
        problem = f"expected (test documents, nodes) {expected}, found {edges.shape}"
        raise BadInput(path, problem, line=1, remedy="give the links of the test split to the graph of the model")
    if answer_free:
        edges = apart(edges, answers(test.targets, nodes, dataset.labels))
    return heaviest_links(edges, ORACLE)


def cut_offs(text: str) -> list[int]:
    """Cut-offs with commas between them, ascending.

    Raises:
        BadInput: they are no whole numbers above 0.
    """
    try:
        ks = sorted({int(part) for part in text.split(",")})
    except ValueError:
        ks = []
    if not ks or ks[0] < 1:
        raise BadInput(
            "k", f"expected whole numbers above 0 with commas, found {text}", remedy="give for example 1,3,5"
        )
    return ks
