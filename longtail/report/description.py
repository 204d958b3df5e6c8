"""A data set in numbers, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longtail.data.describe import Description, Words
from longtail.data.one_label import OneLabel
from longtail.data.repeats import Leakage
from longtail.units import printable


@dataclass(frozen=True, slots=True)
class Section:
    """One table of a description: a title with the names of its columns, and its rows."""

    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def sections(description: Description) -> list[Section]:
    """A description as tables of strings, for whoever prints them."""
    found = [_split_section(description), _label_section(description)]
    if description.graphs:
        found.append(_graph_section(description))
    return found


def sections_of_label(found: OneLabel) -> list[Section]:
    """A label, what it occurs with, and what it reads like."""
    name = f"{found.text} ({found.uid})" if found.uid else found.text
    counts = [("training documents", f"{found.documents:,}")]
    if found.test_documents is not None:
        counts.append(("test documents", f"{found.test_documents:,}"))
    tables = [Section((printable(name), ""), counts)]
    for title, others in (("occurs with", found.correlated), ("reads like", found.alike)):
        rows = [
            (
                printable(other.text),
                f"{other.documents:,}",
                f"{other.together:,}",
                f"{100 * other.correlation:.1f} %",
                f"{other.similarity:.2f}",
            )
            for other in others
        ]
        tables.append(Section((title, "documents", "together", "correlation", "alike"), rows))
    return [table for table in tables if table.rows]


def _split_section(description: Description) -> Section:
    splits = {"train": description.train} | ({} if description.test is None else {"test": description.test})
    fields = dict.fromkeys(field for split in splits.values() for field in split.words)
    columns = [
        {
            "documents": f"{split.documents:,}",
            **{f"words a {field} (mean, 95th percentile)": _lengths(split.words.get(field)) for field in fields},
            "pairs of document and label": f"{split.pairs:,}",
            "labels a document": f"{split.labels_a_document:.2f}",
            **{
                f"documents without a {field}": share_of(split.empty.get(field, 0), split.documents) for field in fields
            },
            **{
                f"documents with the {name} of another": share_of(of.documents, n) for name, of in split.repeats.items()
            },
            **(_leaked(description.leakage, n) if side == "test" else {}),
            "documents without a label": share_of(split.unlabelled, split.documents),
            "pairs with a label unseen in training": share_of(split.unseen, split.pairs),
            "identity pairs": f"{split.identity:,}",
            "identity pairs in the filter file": share_of(split.identity_filtered, split.identity),
            "reciprocal pairs": f"{split.reciprocal:,}",
            "reciprocal pairs in the filter file": share_of(split.reciprocal_filtered, split.reciprocal),
            "all pairs in the filter file": "no file" if split.filtered is None else f"{split.filtered:,}",
        }
        for side, split in splits.items()
        for n in [split.documents]
    ]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [(name, *(column.get(name, "-") for column in columns)) for name in names]
    return Section(("documents", *splits), rows)


def _label_section(description: Description) -> Section:
    L, pairs, texts = description.labels, description.train.pairs, description.label_texts
    rows: list[tuple[str, ...]] = [("labels", f"{L:,}")]
    rows += [
        (f"words a {field} (mean, 95th percentile)", _lengths(words))
        for field, words in description.label_words.items()
    ]
    rows += [
        *(
            (f"labels without a {field}", share_of(count, L))
            for field, count in description.label_empty.items()
            if count
        ),
        ("labels with the title of another", share_of(texts.equal.labels, L)),
        ("the same but for case and punctuation", share_of(texts.folded.labels, L)),
        ("nearly the same", share_of(texts.near.labels, L)),
        ("documents a label", f"{description.documents_a_label:.2f}"),
        ("never seen in training", share_of(description.never, L)),
        ("seen once", share_of(description.once, L)),
    ]
    for band in description.bands:
        size = f"{band.least:,}" if band.least == band.most else f"{band.least:,}-{band.most:,}"
        rows.append((band.name, f"{share_of(band.labels, L)} with {size} documents"))
    if description.bands:
        rows.append(("head, torso and tail", f"a third of {pairs:,} pairs each"))
    constants = description.propensity
    rows.append(("propensity", "no A and B: no PSP" if constants is None else f"A {constants.A:g}, B {constants.B:g}"))
    return Section(("labels", "train"), rows)


def _graph_section(description: Description) -> Section:
    sides = "document edges", "documents linked", "label edges", "labels linked"
    header = ("graphs", "nodes", *sides, "links that are answers")
    rows: list[tuple[str, ...]] = [
        (
            name,
            f"{graph.nodes:,}",
            *_edges(graph.train_edges, graph.train_linked, description.train.documents),
            *_edges(graph.label_edges, graph.label_linked, description.labels),
            "-" if graph.answers is None else share_of(graph.answers, graph.train_edges or 0),
        )
        for name, graph in description.graphs.items()
    ]
    return Section(header, rows)


def _edges(edges: int | None, linked: int | None, rows: int) -> tuple[str, str]:
    return ("-", "-") if edges is None or linked is None else (f"{edges:,}", f"{100 * linked / rows:.1f} %")


def _lengths(words: Words | None) -> str:
    return "-" if words is None else f"{words.mean:.1f}, {words.most:,}"


def share_of(part: int, whole: int) -> str:
    """A count, and what percentage of all it is."""
    return f"{part:,}" if not part or not whole else f"{part:,} ({100 * part / whole:.1f} %)"


def _leaked(leakage: Mapping[str, Leakage], documents: int) -> dict[str, str]:
    return {
        f"{name}{also} also in training": share_of(count, documents)
        for name, of in leakage.items()
        for also, count in (("", of.documents), (" and labels", of.same_labels))
    }
