"""A small data set with the answer planted: which labels are right, and what it takes to find them, is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from longtail.data.dataset import Dataset, Propensity
from longtail.data.graph import Graph
from longtail.data.sparse import CSR, csr, csr_of_lists, row_of_entry
from longtail.data.split import Split
from longtail.data.texts import Strings, Texts

GROUP = 4  # labels of block B that share one text
NODES = 3  # nodes of a label in `planted_links`
_SYLLABLES = [consonant + vowel for consonant in "bdfghjklmnprstvz" for vowel in "aeiou"]


class Planted(NamedTuple):
    """A planted data set, and what each of its test documents needs.

    Attributes:
        dataset: with a test split, filters on both sides and one graph, ``topic``.
        blocks: (documents of the test split,) ``"A"``, ``"B"`` or ``"C"``, see `planted`.
    """

    dataset: Dataset
    blocks: npt.NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class _Label:
    text: list[str]  # the words of its own text
    topic: list[str]  # the words that its documents draw from


@dataclass(frozen=True, slots=True)
class _Document:
    block: str
    words: list[str]
    labels: list[int]
    itself: list[int]  # the label that this document is, for an identity pair
    nodes: list[int]


class _Writer:
    """Draws documents of each block. Label ids run through block A, then B, then C; `sizes` counts them."""

    def __init__(self, rng: np.random.Generator, sizes: Sequence[int], wrong_edges: float) -> None:
        self.rng, self.wrong_edges = rng, wrong_edges
        self.sizes = sizes
        words = iter(made_up_words(rng, 10 * sum(sizes) + 50))
        self.common = [next(words) for _ in range(50)]
        self.labels: list[_Label] = []
        for block, count in zip("ABC", sizes, strict=True):
            for i in range(count):
                topic = [next(words) for _ in range(6)]
                text = topic[:4] if block == "A" else [next(words) for _ in range(4)]
                self.labels.append(_Label(self.labels[-1].text if block == "B" and i % GROUP else text, topic))
        first = sum(sizes[:2])
        self.nodes = [self.draw(label.text, 3) for label in self.labels[first:] for _ in range(2)]

    def draw(self, words: Sequence[str], n: int) -> list[str]:
        return [words[i] for i in self.rng.choice(len(words), n, replace=False)]

    def speak(self, label: int) -> list[str]:
        """What a document says on the topic of a label: 4 of 6 words, so at least 2 of those of a label of block A."""
        return self.draw(self.labels[label].topic, 4)

    def block_a(self, i: int) -> _Document:
        label, other = i % self.sizes[0], int(self.rng.integers(self.sizes[0]))
        targets = sorted({label, other} if self.rng.random() < 0.5 else {label})
        words = [word for target in targets for word in self.speak(target)]
        return _Document("A", words + self.draw(self.common, 2), targets, [], [])

    def identity(self, i: int) -> _Document:
        """The document is label i, and its own label is the next one."""
        target = (i + 1) % self.sizes[0]
        return _Document("A", self.labels[i].text + self.speak(target), [target], [i], [])

    def block_b(self, i: int) -> _Document:
        label = self.sizes[0] + i % self.sizes[1]
        return _Document("B", self.speak(label) + self.draw(self.common, 2), [label], [], [])

    def block_c(self, i: int, *, train: bool) -> _Document:
        """A test document has a label of block C; a training document has its topic and edges, but another label."""
        topic = i % self.sizes[2]
        label = sum(self.sizes[:2]) + topic
        words = self.speak(label) + self.draw(self.common, 2)
        if not train:
            return _Document("C", words, [label], [], [])
        nodes = {2 * topic + int(self.rng.integers(2))}
        if self.rng.random() < self.wrong_edges:
            nodes.add(int(self.rng.integers(len(self.nodes))))
        other = int(self.rng.integers(self.sizes[0]))
        return _Document("C", words + self.speak(other), [other], [], sorted(nodes))


def planted(
    seed: int,
    *,
    documents: int = 2000,
    test_documents: int = 500,
    labels: int = 300,
    wrong_edges: float = 0.1,
    random_edges: float = 0.0,
) -> Planted:
    """Make a planted data set.

    Words are made up, of three syllables each. Every label has a topic of 6 words, which no other label shares; a
    document on a topic draws 4 of them, and has 2 common words besides.

    - **Block A**, half of the labels: the text of a label is 4 words of its topic. Text finds it.
    - **Block B**, a quarter: the text of a label shares no word with its topic, and `GROUP` labels have the same text,
      so that no text encoder has a P@1 above 1 / `GROUP` here. Each label has about 1.6 N / L examples, as many as the
      others of the block: a vector of its own finds it.
    - **Block C**, a quarter: the text of a label shares no word with its topic, and no training document has the label.
      Training documents on the topic are there, but they speak of a label of block A as well, and that one is their
      label. In the graph ``topic`` each has an edge to one of two nodes whose texts are 3 of the 4 words of the label's
      text; the label has an edge to both. Only who learns from the document side of the graph finds it.

    40 % of the documents are of block A, 40 % of B and 20 % of C, in random order. One in ten labels of block A is a
    training document as well, and one in ten a test document: it has the words of its own text first, and another
    label. These identity pairs are filtered; without the filter they tend to rank first.

    Args:
        seed: of everything.
        documents: training documents, N, at least L / 4.
        test_documents: of the same blocks, at least L / 4.
        labels: L, at least 16.
        wrong_edges: share in [0, 1] of the training documents of block C that have one more edge, to a random node.
        random_edges: share in [0, 1] of all edges that lead to a random node instead; nothing else depends on it.

    Returns:
        The data set and the block of each test document.

    Raises:
        ValueError: too few labels or documents.
    """
    if labels < 4 * GROUP or min(documents, test_documents) * 4 < labels:
        raise ValueError(f"{documents} and {test_documents} documents and {labels} labels are too few to plant")
    rng = np.random.default_rng(seed)
    quarter = labels // (4 * GROUP) * GROUP
    writer = _Writer(rng, (labels - 2 * quarter, quarter, quarter), wrong_edges)
    identities = writer.sizes[0] // 10
    train = _documents(writer, documents, range(identities), train=True)
    test = _documents(writer, test_documents, range(identities, 2 * identities), train=False)
    first = labels - quarter
    edges: list[list[int]] = [[]] * first + [[2 * i, 2 * i + 1] for i in range(quarter)]
    nodes = len(writer.nodes)
    rewired = (
        _rewired(csr_of_lists(rows, nodes), random_edges, np.random.default_rng((seed, side)))
        for side, rows in enumerate(([document.nodes for document in train], edges))
    )
    graph = Graph(Strings.of(map(" ".join, writer.nodes)), *rewired)
    splits = _split(train, labels, "train"), _split(test, labels, "test")
    dataset = made_up("planted", *splits, [label.text for label in writer.labels], {"topic": graph})
    return Planted(dataset, np.array([document.block for document in test]))


def made_up(
    name: str, train: Split, test: Split, labels: Sequence[Sequence[str]], graphs: Mapping[str, Graph]
) -> Dataset:
    """A data set of made-up words, of which each label has some."""
    return Dataset(
        name=name,
        train=train,
        labels=Texts.of([" ".join(words) for words in labels], uids=[f"label-{i}" for i in range(len(labels))]),
        test=test,
        graphs=graphs,
        propensity=Propensity(0.55, 1.5),
        licence="CC0-1.0",
        description="Made-up words whose right labels are known by construction.",
    )


def _rewired(edges: CSR, share: float, rng: np.random.Generator) -> CSR:
    """The edges, a share of which lead to random nodes instead."""
    nodes, wrong = edges.indices.copy(), rng.random(edges.nnz) < share
    nodes[wrong] = rng.integers(edges.shape[1], size=wrong.sum())
    return csr(row_of_entry(edges), nodes, edges.shape)


def made_up_words(rng: np.random.Generator, n: int) -> list[str]:
    """Draw n different words of three syllables."""
    base = len(_SYLLABLES)
    ids = rng.choice(base**3, n, replace=False)
    return [_SYLLABLES[i // base**2] + _SYLLABLES[i // base % base] + _SYLLABLES[i % base] for i in ids]


def _documents(writer: _Writer, n: int, identities: range, *, train: bool) -> list[_Document]:
    of_c, of_b = n // 5, n * 2 // 5
    made = [writer.identity(i) for i in identities]
    made += [writer.block_a(i) for i in range(n - of_b - of_c - len(made))]
    made += [writer.block_b(i) for i in range(of_b)]
    made += [writer.block_c(i, train=train) for i in range(of_c)]
    return [made[i] for i in writer.rng.permutation(n)]


def _split(documents: Sequence[_Document], labels: int, side: str) -> Split:
    texts = [" ".join(document.words) for document in documents]
    uids = [f"label-{d.itself[0]}" if d.itself else f"{side}-{i}" for i, d in enumerate(documents)]
    targets = csr_of_lists([document.labels for document in documents], labels)
    return Split(Texts.of(texts, uids=uids), targets, csr_of_lists([d.itself for d in documents], labels))


def planted_links(
    seed: int, *, documents: int = 2000, test_documents: int = 400, labels: int = 160, wrong_links: float = 0.0
) -> Planted:
    """Make a planted data set in which the nodes that a document is linked to say what its text cannot.

    Words are made up as in `planted`. A label has `NODES` nodes of its own in the graph ``kin``, whose texts say
    nothing of it; its documents are linked to all of them.

    - **Block A**, half of the labels: the text of a label is 4 words of its topic, and finds it.
    - **Block D**, the other half: a label has a vocabulary of 6 words, which its text does not share. Half of the
      block's training documents speak in the vocabulary, and no label of theirs is known. The other half have the
      label, and say nothing but common words. Test documents speak in the vocabulary and have the label. So there is a
      way from their text to the nodes, and from the nodes to the label, but none from text: no training document with a
      word of theirs has a label at all.

    30 % of the training documents are of block A and 70 % of D; test documents half and half.

    Args:
        seed: of everything.
        documents: training documents, N, at least 2 L.
        test_documents: of the same blocks.
        labels: L, at least 4.
        wrong_links: share in [0, 1] of the links that are replaced by links to random nodes.
    """
    rng = np.random.default_rng(seed)
    half = labels // 2
    words = iter(made_up_words(rng, 20 * labels + 50))

    def draw(vocabulary: Sequence[str], n: int) -> list[str]:
        return [vocabulary[i] for i in rng.choice(len(vocabulary), n, replace=False)]

    common, topics, spoken = list(islice(words, 50)), *([list(islice(words, 6)) for _ in range(half)] for _ in "AD")
    texts = [*(topic[:4] for topic in topics), *(list(islice(words, 4)) for _ in range(half))]
    nodes = [list(islice(words, 3)) for _ in range(2 * half * NODES)]

    def linked(label: int) -> list[int]:
        right = range(NODES * label, NODES * (label + 1))
        return sorted({int(rng.integers(len(nodes))) if rng.random() < wrong_links else node for node in right})

    def block_a(i: int) -> _Document:
        return _Document("A", draw(topics[i % half], 4) + draw(common, 2), [i % half], [], linked(i % half))

    def block_d(i: int, *, train: bool) -> _Document:
        label = i // 2 % half
        if train and i % 2:
            return _Document("D", draw(common, 6), [half + label], [], linked(half + label))
        targets = [] if train else [half + label]
        return _Document("D", draw(spoken[label], 4) + draw(common, 2), targets, [], linked(half + label))

    of_a, test_a = documents * 3 // 10, test_documents // 2
    train = [block_a(i) for i in range(of_a)] + [block_d(i, train=True) for i in range(documents - of_a)]
    test = [block_a(i) for i in range(test_a)] + [block_d(2 * i, train=False) for i in range(test_documents - test_a)]
    train, test = ([made[i] for i in rng.permutation(len(made))] for made in (train, test))
    edges = csr_of_lists([document.nodes for document in train], len(nodes))
    graph = Graph(Strings.of(map(" ".join, nodes)), edges, None)
    splits = _split(train, 2 * half, "train"), _split(test, 2 * half, "test")
    dataset = made_up("planted links", *splits, texts, {"kin": graph})
    return Planted(dataset, np.array([document.block for document in test]))
