"""A data set as one HTML page: how it is spread, what repeats, what leaks, and what that means for training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from longtail.data.describe import Description, GraphNumbers, SplitNumbers
from longtail.data.histogram import Bar
from longtail.data.near_labels import Alike
from longtail.report.description import share_of
from longtail.report.html_parts import bar, card, document, figure_card, grid, paragraph, text_table

_MANY_UNSEEN, _MANY_NEAR, _MANY_ANSWERS = 0.02, 0.05, 0.05  # shares, from which on a page begins with them


def page_of_data(d: Description) -> str:
    """The page of a description: one HTML file that needs nothing else."""
    sections = {
        "": _cards(d) + _findings(d),
        "Labels of a document": _label_counts(d),
        "Documents of a label": _frequencies(d),
        "Lengths of texts": _lengths(d),
        "Repeated texts": _repeats(d),
        "Training and test": _leakage(d),
        "Labels that look alike": _alike(d),
        "Documents that are labels": _filters(d),
        "Graphs": "".join(_graph(name, graph, d) for name, graph in d.graphs.items()),
    }
    said = [d.description, d.licence and f"Licence: {d.licence}"]
    about = "".join(f'<p class="muted">{escape(line)}</p>' for line in said if line)
    return document(d.name, about, {name: content for name, content in sections.items() if content})


def _splits(d: Description) -> dict[str, SplitNumbers]:
    return {"training": d.train} | ({} if d.test is None else {"test": d.test})


def _cards(d: Description) -> str:
    counts = {f"{side} documents": f"{split.documents:,}" for side, split in _splits(d).items()}
    counts |= {"labels": f"{d.labels:,}", "training pairs": f"{d.train.pairs:,}"}
    counts |= {"labels a document": f"{d.train.labels_a_document:.2f}"}
    counts |= {"documents a label": f"{d.documents_a_label:.2f}"}
    return grid((figure_card(name, value) for name, value in counts.items()), "small")


def _findings(d: Description) -> str:
    """What is to be known before anything is trained: a line each, where there is something."""
    alike = d.label_texts.labels
    links, answers = (
        sum(getattr(graph, name) or 0 for graph in d.graphs.values()) for name in ("train_edges", "answers")
    )
    said = _findings_of_test(d)
    if alike > _MANY_NEAR * d.labels:
        said["labels-that-look-alike"] = f"{alike:,} labels have a title that another has, too, or nearly."
    if answers > _MANY_ANSWERS * links:
        share = _percent(answers, links)
        said["graphs"] = f"{share} of the links of training documents lead to one of their own labels."
    if d.train.unlabelled:
        count = _counted(d.train.unlabelled, "training document")
        said["labels-of-a-document"] = f"{count} without a label: nothing is learned from them."
    lines = "".join(f'<li>{line} <a href="#{to}">More</a></li>' for to, line in said.items())
    return f'<h3>Know before you train</h3><ul class="found">{lines}</ul>' if lines else ""


def _findings_of_test(d: Description) -> dict[str, str]:
    """Those about the test split, by the anchor of what says more."""
    if d.test is None:
        return {"training-and-test": "There is no test split: nothing can be measured."}
    said, test = {}, d.test
    if test.unseen > _MANY_UNSEEN * test.pairs:
        share = _percent(test.unseen, test.pairs)
        said["documents-of-a-label"] = (
            f"{share} of the test pairs need a label that no training document has: only the texts of labels, or "
            "graphs, can find it."
        )
    for of in d.leakage.values():  # of the whole text, where there is more than a title
        if of.same_labels:
            count = _counted(of.same_labels, "test document")
            said["training-and-test"] = f"{count} with the text and the labels of a training document."
    if open_pairs := test.identity - test.identity_filtered:
        count = _counted(open_pairs, "identity pair")
        said["documents-that-are-labels"] = f"{count} of test documents, which are labels themselves, in no filter."
    return said


def _label_counts(d: Description) -> str:
    cards = (card(f"{side.capitalize()} documents", _bars(of.label_counts, i)) for i, (side, of) in _numbered(d))
    note = (
        "How many labels documents have. Where the two splits differ, a threshold that was learned on training "
        "documents fits the test less (<code>docs/guides/probabilities.md</code>); documents without a label teach "
        "nothing, and no metric counts them."
    )
    return paragraph(note) + grid(cards)


def _frequencies(d: Description) -> str:
    names = [Bar(t.least, t.most, t.labels).name for t in d.frequencies]
    bars = card("Labels", _bars([Bar(t.least, t.most, t.labels) for t in d.frequencies], 0))
    header = ["training documents", "labels", "training pairs", *([] if d.test is None else ["test pairs"])]
    rows = [
        [name, share_of(t.labels, d.labels), share_of(t.train_pairs, d.train.pairs)]
        + ([] if d.test is None else [share_of(t.test_pairs or 0, d.test.pairs)])
        for name, t in zip(names, d.frequencies, strict=True)
    ]
    note = (
        "How many training documents labels have, and what the pairs of such labels are worth in each split. Labels "
        "with none are found by their text or a graph alone; those with a few are found by both text and examples: "
        "<code>docs/guides/choosing.md</code> says which recipes are good there, "
        "<code>docs/guides/missing-labels.md</code> how to choose for the tail."
    )
    table = text_table(header, rows, numbers=header[1:])
    return paragraph(note) + grid([bars], "wide") + f"<h3>What they are worth</h3>{table}"


def _lengths(d: Description) -> str:
    cards, empties = [], []
    for i, (side, split) in _numbered(d):
        for field, bars in split.lengths.items():
            cards.append(card(f"{side.capitalize()} documents: {escape(field)}", _bars(bars, i)))
            empties.append((f"{side} documents", field, split.empty[field], split.documents))
    for field, bars in d.label_lengths.items():
        cards.append(card(f"Labels: {escape(field)}", _bars(bars, 2)))
        empties.append(("labels", field, d.label_empty[field], d.labels))
    rows = [(what, field, share_of(count, whole)) for what, field, count, whole in empties if count]
    table = text_table(("what", "field", "without a word"), rows, numbers=("without a word",)) if rows else ""
    note = (
        "Words between spaces. A transformer reads <code>--max-length</code> tokens of a text, about three for two "
        "words, and leaves the rest (<code>docs/guides/long-text.md</code>); a bag of words reads all. An empty text "
        "says nothing: give it one, or another field to <code>--fields</code>."
    )
    return paragraph(note) + grid(cards) + (f"<h3>Empty texts</h3>{table}" if rows else "")


def _repeats(d: Description) -> str:
    found = [(side, name, of, split) for side, split in _splits(d).items() for name, of in split.repeats.items()]
    rows = [
        (f"{side}: {name}", share_of(of.documents, split.documents), f"{of.texts:,}", f"{of.differing:,}")
        for side, name, of, split in found
    ]
    header = ("documents", "with the text of another", "texts that they share", "of these with different labels")
    examples = next((of.examples for _, _, of, _ in reversed(found[: len(d.train.repeats)]) if of.examples), ())
    note = (
        "Documents of one split with the same text. Where their labels differ, no model that reads only this text can "
        "be right about both: read more fields (<code>docs/guides/long-text.md</code>), or merge them. Where they are "
        "the same, the document counts twice in training, and in the scores."
    )
    shown = _examples(("text", "documents", "labels of one", "labels of another"), examples, numbers=("documents",))
    return paragraph(note) + text_table(header, rows, numbers=header[1:]) + shown


def _leakage(d: Description) -> str:
    if d.test is None:
        return paragraph(
            "There is no test split. <code>longtail data split</code> cuts one off (docs/reference/data.md)."
        )
    header = ("what is the same", "test documents", "labels, too")
    rows = [
        (name, *(share_of(count, d.test.documents) for count in (of.documents, of.same_labels)))
        for name, of in d.leakage.items()
    ]
    examples = next((of.examples for of in reversed(d.leakage.values()) if of.examples), ())
    note = (
        "Test documents whose text a training document has. One that stands in training with its labels, too, is "
        "remembered and not predicted: take it out of one of the splits before you compare methods. Equal titles of "
        "different documents are no leak."
    )
    shown = _examples(("text", "labels in training", "labels in test"), examples)
    return paragraph(note) + text_table(header, rows, numbers=header[1:]) + shown


def _alike(d: Description) -> str:
    kinds: Mapping[str, Alike] = {
        "the same title": d.label_texts.equal,
        "the same but for case, punctuation and spaces": d.label_texts.folded,
        "nearly the same: 80 % of the trigrams in common": d.label_texts.near,
    }
    rows = [(name, share_of(of.labels, d.labels)) for name, of in kinds.items()]
    header = ("one label", "another", "documents of the one", "of the other")
    shown = "".join(
        _examples(header, of.examples, numbers=header[2:], title=name.partition(":")[0].capitalize())
        for name, of in kinds.items()
    )
    note = (
        "Labels whose titles another label has, too. Where they mean the same, merge them: documents of the one are "
        "taken for wrong answers of the other. Where they mean different things, give them texts that say so; until "
        "then only their examples tell them apart, and rare ones are confused."
    )
    return paragraph(note) + text_table(("label titles", "labels"), rows, numbers=("labels",)) + shown


def _filters(d: Description) -> str:
    rows = [
        (
            side,
            *(f"{of.identity:,}", share_of(of.identity_filtered, of.identity)),
            *(f"{of.reciprocal:,}", share_of(of.reciprocal_filtered, of.reciprocal)),
        )
        for side, of in _splits(d).items()
    ]
    header = ("documents", "identity pairs", "of these filtered", "reciprocal pairs", "of these filtered ")
    note = (
        "An identity pair is a document and the label that is the same thing; of a reciprocal pair training holds the "
        "way back. Without a filter the first rank highest and count as wrong: <code>longtail data check "
        "--write-filters</code> writes what is missing (<code>docs/guides/filters.md</code>)."
    )
    return paragraph(note) + text_table(header, rows, numbers=header[1:])


def _graph(name: str, graph: GraphNumbers, d: Description) -> str:
    header = ("from", "edges", "with an edge")
    sides = (
        ("training documents", graph.train_edges, graph.train_linked, d.train.documents),
        ("labels", graph.label_edges, graph.label_linked, d.labels),
    )
    rows = [(what, f"{edges:,}", share_of(linked or 0, n)) for what, edges, linked, n in sides if edges is not None]
    if graph.answers is not None:
        rows.append(("training documents to their own labels", share_of(graph.answers, graph.train_edges or 0), ""))
    note = (
        f"{graph.nodes:,} nodes. Test documents have no links, so what is learned from those that are answers (a link "
        "to a node that is a label of the document) does not carry over: the recipe <code>oak</code> predicts links, "
        "and <code>evaluate --oracle-links --answer-free</code> measures without answers "
        "(<code>docs/guides/choosing.md</code>)."
    )
    shown = _examples(("document", "its nodes", "its labels"), graph.examples)
    links = grid([card("Links of a node", _bars(graph.links, 3))], "wide")
    return f"<h3>{escape(name)}</h3>{paragraph(note)}{text_table(header, rows, numbers=header[1:])}{links}{shown}"


def _numbered(d: Description) -> Iterable[tuple[int, tuple[str, SplitNumbers]]]:
    return enumerate(_splits(d).items())


def _bars(bars: Sequence[Bar], colour: int) -> str:
    """A histogram: a line a bar, with how many there are and what share of all."""
    total, most = sum(one.number for one in bars), max((one.number for one in bars), default=0) or 1
    lines = (bar(one.name, one.number / most, share_of(one.number, total), colour) for one in bars)
    return f'<div class="counts">{"".join(lines)}</div>'


def _examples(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[str] = (), title: str = "Examples"
) -> str:
    return f"<h3>{escape(title)}</h3>{text_table(header, rows, numbers=numbers)}" if rows else ""


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.1f} %"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
