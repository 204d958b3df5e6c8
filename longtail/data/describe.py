"""What is in a data set, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from longtail.data.dataset import Dataset, Propensity
from longtail.data.filters import answers, identity_pairs, reciprocal_pairs, without
from longtail.data.graph import Graph
from longtail.data.histogram import Bar, histogram
from longtail.data.near_labels import LabelTexts, label_texts
from longtail.data.repeats import SHOWN, Leakage, Repeats, cut, empty, labels_of, leakage, readings, repeats
from longtail.data.sparse import CSR
from longtail.data.split import Split
from longtail.data.texts import Strings, Texts
from longtail.topk import IntArray

_IS_SPACE = np.isin(np.arange(256), list(b" \t\n\r\v\f"))
_BLOCK = 1 << 22  # bytes of text looked at together


@dataclass(frozen=True, slots=True)
class Words:
    """How long texts are, in words between spaces: the mean, and what 95 in 100 do not exceed."""

    mean: float
    most: int


@dataclass(frozen=True, slots=True)
class SplitNumbers:
    """A split in numbers.

    Attributes:
        documents: n.
        words: by field.
        pairs: of a document and one of its labels.
        labels_a_document: mean.
        unlabelled: documents without a label.
        unseen: pairs whose label no training document has.
        lengths: words a document, by field.
        label_counts: labels a document.
        empty: documents without a word, by field.
        repeats: documents with the same text, by what a model may read: ``title`` and ``whole text``.
        identity: pairs of a document and the label that is itself, and that are not in the truth.
        identity_filtered: those that are in the filter file.
        reciprocal: pairs of which training holds the way back, and that are not in the truth.
        reciprocal_filtered: those that are in the filter file.
        filtered: pairs in the filter file, or None where there is none.
    """

    documents: int
    words: dict[str, Words]
    pairs: int
    labels_a_document: float
    unlabelled: int
    unseen: int
    lengths: dict[str, tuple[Bar, ...]]
    label_counts: tuple[Bar, ...]
    empty: dict[str, int]
    repeats: dict[str, Repeats]
    identity: int
    identity_filtered: int
    reciprocal: int
    reciprocal_filtered: int
    filtered: int | None


@dataclass(frozen=True, slots=True)
class Band:
    """Labels that together hold a third of the training pairs: ``least`` to ``most`` documents a label."""

    name: str
    labels: int
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class GraphNumbers:
    """A graph in numbers; edges and linked rows are None where the graph lacks that side.

    Attributes:
        nodes: of the graph.
        train_edges: from training documents.
        train_linked: training documents with an edge.
        label_edges: from labels.
        label_linked: labels with an edge.
        answers: edges from a training document to a node that is one of its labels.
        links: edges a node, from documents and labels.
        examples: training documents, their nodes and their labels.
    """

    nodes: int
    train_edges: int | None
    train_linked: int | None
    label_edges: int | None
    label_linked: int | None
    answers: int | None
    links: tuple[Bar, ...]
    examples: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Tail:
    """Labels with ``least`` to ``most`` training documents: how many, and their pairs in each split."""

    least: int
    most: int
    labels: int
    train_pairs: int
    test_pairs: int | None


@dataclass(frozen=True, slots=True)
class Description:
    """A data set in numbers.

    Attributes:
        name: of the data set.
        description: one sentence.
        licence: of the data.
        propensity: A and B, or None.
        labels: L.
        label_words: by field.
        never: labels that no training document has.
        once: labels that one has.
        documents_a_label: mean over all L, in training.
        bands: head, torso and tail: labels by falling frequency, cut at a third and two thirds of the pairs.
        label_lengths: words a label, by field.
        label_empty: labels without a word, by field.
        label_texts: labels that their titles do not tell apart, or hardly.
        frequencies: labels by their number of training documents, none first.
        leakage: test documents with the text of a training document, by what a model may read; {} without a test split.
        train: the training split.
        test: the test split, or None.
        graphs: by name.
    """

    name: str
    description: str
    licence: str
    propensity: Propensity | None
    labels: int
    label_words: dict[str, Words]
    never: int
    once: int
    documents_a_label: float
    bands: tuple[Band, ...]
    label_lengths: dict[str, tuple[Bar, ...]]
    label_empty: dict[str, int]
    label_texts: LabelTexts
    frequencies: tuple[Tail, ...]
    leakage: dict[str, Leakage]
    train: SplitNumbers
    test: SplitNumbers | None
    graphs: dict[str, GraphNumbers]


def describe(dataset: Dataset) -> Description:
    """Count what is in a data set."""
    frequency = np.bincount(dataset.train.targets.indices, minlength=len(dataset.labels))
    train_itself = identity_pairs(dataset.train.documents, dataset.labels)
    train, test, titles = dataset.train, dataset.test, dataset.labels.fields["title"]
    read_as = readings(train.documents).items()
    return Description(
        name=dataset.name,
        description=dataset.description,
        licence=dataset.licence,
        propensity=dataset.propensity,
        labels=len(dataset.labels),
        label_words=_words_by_field(dataset.labels),
        never=int((frequency == 0).sum()),
        once=int((frequency == 1).sum()),
        documents_a_label=float(frequency.mean()),
        bands=bands(frequency),
        label_lengths=_lengths(dataset.labels),
        label_empty=empty(dataset.labels),
        label_texts=label_texts(titles, frequency),
        frequencies=_tail(frequency, test),
        leakage={} if test is None else {name: leakage(train, test, dataset.labels, of) for name, of in read_as},
        train=_split(train, dataset, frequency, train_itself),
        test=None if test is None else _split(test, dataset, frequency, train_itself),
        graphs={name: _graph(graph, dataset) for name, graph in dataset.graphs.items()},
    )


def bands(frequency: IntArray) -> tuple[Band, ...]:
    """Head, torso and tail: three sets of labels that hold a third of the training pairs each.

    Args:
        frequency: (L,) int64 training documents of each label; those that have none are in no band.
    """
    falling = np.sort(frequency[frequency > 0])[::-1]
    total = np.cumsum(falling)
    cuts = np.searchsorted(total, [total[-1] / 3, total[-1] * 2 / 3]) + 1 if len(total) else np.zeros(2, np.int64)
    parts = zip(("head", "torso", "tail"), np.split(falling, cuts), strict=True)
    return tuple(Band(name, len(part), int(part[-1]), int(part[0])) for name, part in parts if len(part))


def words(strings: Strings) -> IntArray:
    """(n,) the words of each string: runs of bytes that are not ASCII spaces."""
    counts = np.zeros(len(strings), np.int64)
    first = 0
    while first < len(strings):
        start = int(strings.offsets[first])
        last = max(first + 1, int(np.searchsorted(strings.offsets, start + _BLOCK, side="right")) - 1)
        ends = strings.offsets[first : last + 1] - start
        space = _IS_SPACE[strings.blob[start : start + int(ends[-1])]]
        after_space = np.ones(len(space), bool)
        after_space[1:] = space[:-1]
        after_space[ends[ends < len(space)]] = True
        counts[first:last] = np.diff(np.searchsorted(np.flatnonzero(after_space & ~space), ends))
        first = last
    return counts


def _words(strings: Strings) -> Words:
    counts = words(strings)
    return Words(float(counts.mean()), int(np.percentile(counts, 95))) if len(counts) else Words(0.0, 0)


def _words_by_field(texts: Texts) -> dict[str, Words]:
    return {name: _words(column) for name, column in texts.fields.items()}


def _split(split: Split, dataset: Dataset, frequency: npt.NDArray[np.int64], train_itself: CSR) -> SplitNumbers:
    itself = train_itself if split is dataset.train else identity_pairs(split.documents, dataset.labels)
    identity = without(itself, split.targets)
    reciprocal = without(reciprocal_pairs(itself, train_itself, dataset.train.targets), split.targets)
    return SplitNumbers(
        documents=len(split),
        words=_words_by_field(split.documents),
        pairs=split.targets.nnz,
        labels_a_document=split.targets.nnz / len(split),
        unlabelled=int((np.diff(split.targets.indptr) == 0).sum()),
        unseen=int((frequency[split.targets.indices] == 0).sum()),
        lengths=_lengths(split.documents),
        label_counts=histogram(np.diff(split.targets.indptr)),
        empty=empty(split.documents),
        repeats={name: repeats(split, dataset.labels, fields) for name, fields in readings(split.documents).items()},
        identity=identity.nnz,
        identity_filtered=_common(identity, split.filtered),
        reciprocal=reciprocal.nnz,
        reciprocal_filtered=_common(reciprocal, split.filtered),
        filtered=None if split.filtered is None else split.filtered.nnz,
    )


def _common(pairs: CSR, filtered: CSR | None) -> int:
    return 0 if filtered is None else int(pairs.multiply(filtered.sign()).nnz)


def _lengths(texts: Texts) -> dict[str, tuple[Bar, ...]]:
    return {name: histogram(words(column)) for name, column in texts.fields.items()}


def _tail(frequency: IntArray, test: Split | None) -> tuple[Tail, ...]:
    """Labels by frequency, with the pairs that they have."""
    in_test = None if test is None else np.bincount(test.targets.indices, minlength=len(frequency))
    found = []
    for bar in histogram(frequency, wide=True):
        inside = (frequency >= bar.least) & (frequency <= bar.most)
        pairs = None if in_test is None else int(in_test[inside].sum())
        found.append(Tail(bar.least, bar.most, bar.number, int(frequency[inside].sum()), pairs))
    return tuple(found)


def _graph(graph: Graph, dataset: Dataset) -> GraphNumbers:
    edges, rows = graph.train, dataset.train
    links = [side.indices for side in (edges, graph.label) if side is not None]
    examples = []
    for row in [] if edges is None else np.flatnonzero(np.diff(edges.indptr))[:SHOWN].tolist():
        assert edges is not None
        nodes = edges.indices[edges.indptr[row] : edges.indptr[row + 1]].tolist()
        said = cut(rows.documents.fields["title"][row]), cut("; ".join(graph.nodes[i] for i in nodes[:8]))
        examples.append((*said, labels_of(rows, row, dataset.labels)))
    return GraphNumbers(
        nodes=len(graph.nodes),
        train_edges=None if edges is None else edges.nnz,
        train_linked=None if edges is None else _linked(edges),
        label_edges=None if graph.label is None else graph.label.nnz,
        label_linked=None if graph.label is None else _linked(graph.label),
        answers=None if edges is None else _common(answers(rows.targets, graph.nodes, dataset.labels), edges),
        links=histogram(np.bincount(np.concatenate(links), minlength=len(graph.nodes)), wide=True),
        examples=tuple(examples),
    )


def _linked(edges: CSR) -> int:
    """Rows that have an edge."""
    return int((np.diff(edges.indptr) > 0).sum())
