"""The errors of a run as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from longtail.report.error_rows import Row
from longtail.report.errors import FILES, Asked, Errors
from longtail.report.html_parts import bar, card, document, figure_card, grid, paragraph, text_table
from longtail.units import printable

_SHOWN = 25  # rows of a table, of which the file has more


def page_of_errors(found: Errors) -> str:
    """The page: one HTML file that needs nothing else."""
    sections = {
        "": _cards(found),
        "From head to tail": _by_frequency(found),
        "By length of the document": _by_length(found),
        "Confusions": _confusions(found),
        "Labels that are never found": _never_found(found),
        "Labels that are found too often": _too_often(found),
        "Labels that are likely wrong": _doubted(found, "wrong"),
        "Labels that are likely missing": _doubted(found, "missing"),
    }
    about = (
        f'<p class="muted">{escape(printable(found.run))}, a run of {escape(found.recipe)}, ranked by its '
        f"{escape(found.kind)} score on {found.documents:,} test documents.</p>"
    )
    return document(f"{found.data}: errors", about, sections)


def _cards(found: Errors) -> str:
    counts = found.counts
    of_labels = f"{counts['never_found']:,}"
    figures = {
        **{name: f"{value:.1f} %" for name, value in found.scores.items()},
        f"of {found.labels:,} labels never found": of_labels,
        "labels found too often": f"{counts['found_too_often']:,}",
        "labels of documents likely wrong": f"{counts['wrong']:,}",
        "labels of documents likely missing": f"{counts['missing']:,}",
    }
    return grid((figure_card(name, value) for name, value in figures.items()), "small")


def _by_frequency(found: Errors) -> str:
    recall = f"R@{found.k}"
    bars = "".join(bar(str(row["bin"]), row[recall] / 100, f"{row[recall]:.1f} %") for row in found.by_frequency)
    header = ("bin", "labels", "documents a label", "labels with test documents", "of these never found", "test pairs")
    keys = ("bin", "labels", "documents_a_label", "tested_labels", "never_found", "test_pairs")
    note = (
        f"The share of the test pairs of each bin whose label is among the first {found.k} of its document. Bins hold "
        "equal shares of the training pairs, from the most frequent labels to the rarest; unseen labels have none. "
        "Low in the tail alone: <code>docs/guides/missing-labels.md</code>. Low everywhere: read more of the text "
        "(<code>docs/guides/long-text.md</code>), or train for longer (<code>docs/guides/time.md</code>)."
    )
    shown = grid([card(recall, f'<div class="counts">{bars}</div>')], "wide")
    return paragraph(note) + shown + "<h3>Bins</h3>" + _table(found.by_frequency, header, keys, header[1:])


def _by_length(found: Errors) -> str:
    header = ("words", "documents", *found.scores)
    note = (
        "Words of the fields that the model reads. Where short documents are worst, their text says too little: give "
        "<code>--fields</code> more of it. Where long ones are, it may be cut off: a higher <code>--max-length</code> "
        "(<code>docs/guides/long-text.md</code>)."
    )
    return paragraph(note) + _table(found.by_length, header, header, header[1:])


def _confusions(found: Errors) -> str:
    header = ("missed", "in its place", "documents", "share", "training documents of either", "for example")
    rows = [
        {
            **row,
            "share": f"{100 * row['share']:.0f} %",
            "frequencies": f"{row['missed_training_documents']:,}, {row['predicted_training_documents']:,}",
        }
        for row in found.tables["confusions"]
    ]
    keys = ("missed_text", "predicted_text", "documents", "share", "frequencies", "example_text")
    note = (
        "A true label that is missed, and a wrong one that stands where it should: among as many first labels of the "
        "document as are true. The share is of the test documents with the missed label. Two labels that mean one "
        "thing belong together; where one is more general, have both given; where a text does not tell them apart, "
        "give the labels longer texts, or the documents."
    )
    return paragraph(note) + _table(rows, header, keys, header[2:5], FILES["confusions"])


def _never_found(found: Errors) -> str:
    header = ("label", "training documents", "test documents", "typical rank", "best rank")
    keys = ("label_text", "training_documents", "test_documents", "typical_rank", "best_rank")
    rows = [
        {**row, **{name: "over 100" if row[name] is None else row[name] for name in ("typical_rank", "best_rank")}}
        for row in found.tables["never_found"]
    ]
    note = (
        f"Labels that have test documents and are not among the first {found.k} of any of them. With no training "
        "documents only a text can find them: is it one that the documents' words could meet? With many, look at the "
        "documents: their texts, or their labels, may not say what the label says."
    )
    return paragraph(note) + _table(rows, header, keys, header[1:], FILES["never_found"])


def _too_often(found: Errors) -> str:
    header = ("label", "training documents", "test documents", "given to", "rightly")
    keys = ("label_text", "training_documents", "test_documents", "given", "rightly_given")
    note = (
        "Labels that stand among the first of a document, as many as are true of it, at least twice as often as they "
        "are true, and not by chance. Often they are true and missing in the data (see below), or a frequent label "
        "takes the place of rarer ones: <code>docs/guides/missing-labels.md</code>."
    )
    return paragraph(note) + _table(found.tables["found_too_often"], header, keys, header[1:], FILES["found_too_often"])


def _doubted(found: Errors, kind: str) -> str:
    header = ("document", "label", "split", "training documents", "probability", "where it is given", "rank")
    keys = ("document_text", "label_text", "split", "training_documents", "probability", "typical_probability", "rank")
    rows = [
        {
            **row,
            **{name: f"{100 * row[name]:.0f} %" for name in ("probability", "typical_probability")},
            "rank": "over 100" if row["rank"] is None else row["rank"],
        }
        for row in found.tables["annotations"]
        if row["doubt"] == kind
    ]
    what = {
        "wrong": "Labels that documents are given, and that a model which has not seen the document holds for hardly "
        "possible, though it finds the label in other documents.",
        "missing": "Labels that documents are not given, and that a model which has not seen the document holds for as "
        "probable as where they are given, and for 70 % at least.",
    }[kind]
    note = (
        f"{what} {escape(whom(found.asked))} Have people look at the list, from the top: the model may be wrong, too "
        "(<code>docs/guides/errors.md</code>)."
    )
    return paragraph(note) + _table(rows, header, keys, header[2:], FILES["annotations"])


def whom(asked: Asked) -> str:
    """Whose annotations were judged, in plain text."""
    test = f"{asked.test:,} test documents" if asked.test else "no test document (they are too few)"
    if asked.train == asked.of:
        return f"Judged were all {asked.of:,} training documents, fold by fold, and {test}."
    train = f"{asked.train:,} of {asked.of:,} training documents" if asked.train else "no training document"
    more = " --folds 5 trains five times more, and judges all of them." if asked.more else ""
    return f"Judged were {test} and {train}: {asked.why}.{more}"


def _table(
    rows: Sequence[Row], header: Sequence[str], keys: Sequence[str], numbers: Sequence[str], file: str = ""
) -> str:
    """Some rows, and where all are."""
    if not rows:
        return paragraph("There are none.")
    shown = [[_said(row[key]) for key in keys] for row in rows[:_SHOWN]]
    more = f"The first {_SHOWN} of {len(rows):,} in <code>{file}</code>." if len(rows) > _SHOWN else ""
    if file and not more:
        more = f"With names and places: <code>{file}</code>."
    return text_table(header, shown, numbers=numbers) + (paragraph(more) if more else "")


def _said(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}" if isinstance(value, float) else str(value)
