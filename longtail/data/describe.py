"""What is in a data set, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from longtail.data.dataset import Dataset, Propensity
from longtail.data.filters import identity_pairs, reciprocal_pairs, without
from longtail.data.graph import Graph
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
    """A graph in numbers; edges and linked rows are None where the graph lacks that side."""

    nodes: int
    train_edges: int | None
    train_linked: int | None
    label_edges: int | None
    label_linked: int | None


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
    train: SplitNumbers
    test: SplitNumbers | None
    graphs: dict[str, GraphNumbers]


@dataclass(frozen=True, slots=True)
class Section:
    """One table of a description: a title with the names of its columns, and its rows."""

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def describe(dataset: Dataset) -> Description:
    """Count what is in a data set."""
    frequency = np.bincount(dataset.train.targets.indices, minlength=len(dataset.labels))
    train_itself = identity_pairs(dataset.train.documents, dataset.labels)
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
        train=_split(dataset.train, dataset, frequency, train_itself),
        test=None if dataset.test is None else _split(dataset.test, dataset, frequency, train_itself),
        graphs={name: _graph(graph) for name, graph in dataset.graphs.items()},
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
        identity=identity.nnz,
        identity_filtered=_common(identity, split.filtered),
        reciprocal=reciprocal.nnz,
        reciprocal_filtered=_common(reciprocal, split.filtered),
        filtered=None if split.filtered is None else split.filtered.nnz,
    )


def _common(pairs: CSR, filtered: CSR | None) -> int:
    return 0 if filtered is None else int(pairs.multiply(filtered).nnz)


def _graph(graph: Graph) -> GraphNumbers:
    train, label = ((None, None) if m is None else (m.nnz, _linked(m)) for m in (graph.train, graph.label))
    return GraphNumbers(len(graph.nodes), *train, *label)


def _linked(edges: CSR) -> int:
    """Rows that have an edge."""
    return int((np.diff(edges.indptr) > 0).sum())


def sections(description: Description) -> list[Section]:
    """A description as tables of strings, for whoever prints them."""
    found = [_split_section(description), _label_section(description)]
    if description.graphs:
        found.append(_graph_section(description))
    return found


def _split_section(description: Description) -> Section:
    splits = {"train": description.train} | ({} if description.test is None else {"test": description.test})
    fields = dict.fromkeys(field for split in splits.values() for field in split.words)
    columns = [
        {
            "documents": f"{split.documents:,}",
            **{f"words a {field} (mean, 95th percentile)": _lengths(split.words.get(field)) for field in fields},
            "pairs of document and label": f"{split.pairs:,}",
            "labels a document": f"{split.labels_a_document:.2f}",
            "documents without a label": _share(split.unlabelled, split.documents),
            "pairs with a label unseen in training": _share(split.unseen, split.pairs),
            "identity pairs": f"{split.identity:,}",
            "identity pairs in the filter file": _share(split.identity_filtered, split.identity),
            "reciprocal pairs": f"{split.reciprocal:,}",
            "reciprocal pairs in the filter file": _share(split.reciprocal_filtered, split.reciprocal),
            "all pairs in the filter file": "no file" if split.filtered is None else f"{split.filtered:,}",
        }
        for split in splits.values()
    ]
    rows = [(name, *(column[name] for column in columns)) for name in columns[0]]
    return Section(("documents", *splits), rows)


def _label_section(description: Description) -> Section:
    L, pairs = description.labels, description.train.pairs
    rows: list[tuple[str, ...]] = [("labels", f"{L:,}")]
    rows += [
        (f"words a {field} (mean, 95th percentile)", _lengths(words))
        for field, words in description.label_words.items()
    ]
    rows += [
        ("documents a label", f"{description.documents_a_label:.2f}"),
        ("never seen in training", _share(description.never, L)),
        ("seen once", _share(description.once, L)),
    ]
    for band in description.bands:
        size = f"{band.least:,}" if band.least == band.most else f"{band.least:,}-{band.most:,}"
        rows.append((band.name, f"{_share(band.labels, L)} with {size} documents"))
    if description.bands:
        rows.append(("head, torso and tail", f"a third of {pairs:,} pairs each"))
    constants = description.propensity
    rows.append(("propensity", "no A and B: no PSP" if constants is None else f"A {constants.A:g}, B {constants.B:g}"))
    return Section(("labels", "train"), rows)


def _graph_section(description: Description) -> Section:
    header = ("graphs", "nodes", "document edges", "documents linked", "label edges", "labels linked")
    rows: list[tuple[str, ...]] = [
        (
            name,
            f"{graph.nodes:,}",
            *_edges(graph.train_edges, graph.train_linked, description.train.documents),
            *_edges(graph.label_edges, graph.label_linked, description.labels),
        )
        for name, graph in description.graphs.items()
    ]
    return Section(header, rows)


def _edges(edges: int | None, linked: int | None, rows: int) -> tuple[str, str]:
    return ("-", "-") if edges is None or linked is None else (f"{edges:,}", f"{100 * linked / rows:.1f} %")


def _lengths(words: Words | None) -> str:
    return "-" if words is None else f"{words.mean:.1f}, {words.most:,}"


def _share(part: int, whole: int) -> str:
    return f"{part:,}" if not part or not whole else f"{part:,} ({100 * part / whole:.1f} %)"
