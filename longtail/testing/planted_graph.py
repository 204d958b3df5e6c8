"""A planted data set with a graph as dense, and as noisy, as those of the papers."""

from __future__ import annotations

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.graph import Graph
from longtail.data.sparse import CSR, csr, csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Strings, Texts
from longtail.testing.planted import made_up, made_up_words
from longtail.topk import IntArray

WORDS = 12  # of the vocabulary of a topic
SAID = 3  # of them that a document says on a topic, and that a node says
COMMON = 50


def planted_graph(
    seed: int,
    *,
    documents: int = 1000,
    test_documents: int = 1000,
    documents_per_label: float = 4.67,
    links: float = 38.87,
    documents_per_node: float = 10.96,
    label_links: float = 7.71,
    right_links: float = 0.4,
) -> Dataset:
    """Make a data set whose topics have more words than their few documents say, with a graph that knows all of them.

    Words are made up. A topic has a label, `WORDS` words, and the nodes of the graph ``page`` that are its own, each
    of which says `SAID` of the words. A document has two topics: it says `SAID` words of each and two common ones, and
    has both labels. The text of a label is two words that no one else says. So a label has fewer documents than there
    are words of its topic, and a test document says words that training has hardly tied to it, or to another topic;
    but nodes that documents and labels share tie them.

    The densities are those of the hyperlinks of LF-WikiSeeAlsoTitles-320K (RAMEN, Mittal et al., 2025, Table 9), if
    not given: 38.87 links of a document, 10.96 documents of a node (2,458,399 nodes for 693,082 documents), 7.71 links
    of a label, 4.67 documents of a label. Of each document's links, and each label's, a share is right: to nodes of its
    topics. The others lead anywhere.

    Args:
        seed: of everything.
        documents: training documents, N.
        test_documents: made in the same way, without edges.
        documents_per_label: mean; there are so many labels.
        links: mean number of a document's edges.
        documents_per_node: mean; there are so many nodes.
        label_links: mean number of a label's edges.
        right_links: share in [0, 1] of edges that lead to a node of a right topic.
    """
    rng = np.random.default_rng(seed)
    labels = round(2 * documents / documents_per_label)
    nodes = round(documents * links / documents_per_node)
    words = made_up_words(rng, (WORDS + 2) * labels + COMMON)
    common, texts, vocabulary = (words[:COMMON], words[COMMON:][: 2 * labels], words[COMMON + 2 * labels :])

    def said(topic: int) -> list[str]:
        return [vocabulary[WORDS * topic + i] for i in rng.choice(WORDS, SAID, replace=False)]

    def split(n: int, name: str) -> tuple[Split, IntArray]:
        topics = np.argsort(rng.random((n, labels)), axis=1)[:, :2]  # (n, 2)
        titles = [" ".join([*said(a), *said(b), *rng.choice(common, 2)]) for a, b in topics.tolist()]
        rows = np.repeat(np.arange(n), 2)
        targets = csr(rows, topics.ravel(), (n, labels))
        return Split(Texts.of(titles, uids=[f"{name}-{i}" for i in range(n)]), targets), topics

    (train, topics), (test, _) = split(documents, "train"), split(test_documents, "test")
    topic_of_node = np.sort(rng.integers(labels, size=nodes))  # (M,)
    own = np.arange(labels)[:, None]
    graph = Graph(
        Strings.of(" ".join(said(topic)) for topic in topic_of_node.tolist()),
        _edges(rng, topics, topic_of_node, links, right_links),
        _edges(rng, own, topic_of_node, label_links, right_links),
    )
    of_labels = [texts[2 * i : 2 * i + 2] for i in range(labels)]
    return made_up("planted graph", train, test, of_labels, {"page": graph})


def _edges(rng: np.random.Generator, topics: IntArray, of_node: IntArray, mean: float, right: float) -> CSR:
    """Edges of rows to nodes of their topics (R, T), as far as there are such nodes, and to any others."""
    rows: list[list[int]] = []
    for own, count in zip(topics.tolist(), rng.poisson(mean, len(topics)).tolist(), strict=True):
        there = rng.permutation(np.flatnonzero(np.isin(of_node, own)))[: round(right * count)].tolist()
        others = rng.choice(len(of_node), count - len(there), replace=False).tolist()
        rows.append(there + others)
    return csr_of_lists(rows, len(of_node))
