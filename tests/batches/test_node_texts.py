"""A node that says what a row is known to go with is never a negative of that row."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from longtail.batches.neighbours import Neighbours
from longtail.batches.node_texts import NodeTexts
from longtail.data.sparse import csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Strings, Texts
from longtail.text.tokens import VectorTokens
from longtail.topk import IntArray

LABELS = Strings.of(["zeta", "eta", "theta"])
NODES = Strings.of(["Alpha  one", "zeta", "ETA", "kappa", "beta", "kappa"])  # the third and the last are no one's text
ROWS = Split(
    Texts.of(["alpha one", "beta", "gamma"]),
    csr_of_lists([[0], [2], [1]], 3),
    csr_of_lists([[1], [], []], 3),  # document 0 and label 1 are one
)


def numbers(rows: IntArray) -> VectorTokens:
    """Tokens that name their rows."""
    return VectorTokens(torch.from_numpy(rows[:, None].astype(np.float32)))


def test_texts_that_are_the_same_to_a_reader_are_the_same() -> None:
    """An encoder reads NFC, so that an accent of its own and a letter that has it are one."""
    rows = Split(Texts.of(["Cafe\u0301"]), csr_of_lists([[0]], 1))
    texts = NodeTexts.of(Strings.of(["caf\u00e9", "cafe", "ti\u0308"]), rows, Strings.of(["t\u00ef"]))
    assert texts.shared("documents", np.array([0]), np.arange(3)).tolist() == [[True, False, True]]


def test_own_true_and_filtered_texts_by_hand() -> None:
    texts = NodeTexts.of(NODES, ROWS, LABELS)
    every = np.arange(6)
    documents, labels = (texts.shared(side, np.arange(3), every).astype(int) for side in ("documents", "labels"))
    assert documents.tolist() == [
        [1, 1, 1, 0, 0, 0],  # its own text in another case; its label's; that of its filtered label
        [0, 0, 0, 0, 1, 0],  # its own; no node says "theta"
        [0, 0, 1, 0, 0, 0],  # its label's
    ]
    assert labels.tolist() == [
        [1, 1, 0, 0, 0, 0],  # that of its document, and its own
        [1, 0, 1, 0, 0, 0],  # that of its filtered document (the other's is no node's), and its own
        [0, 0, 0, 0, 1, 0],  # that of its document
    ]
    assert texts.shared("documents", np.array([2, 0]), np.array([5, 2])).astype(int).tolist() == [[0, 1], [0, 1]]
    assert texts.shared("labels", np.arange(3), every[:0]).shape == (3, 0)


@pytest.mark.parametrize("filtered", [True, False])
def test_they_are_masked_unless_they_are_neighbours(filtered: bool) -> None:
    """Documents 0, 1 and 2 have nodes 3, 2 and 1; labels 0 and 1 have nodes 1 and 0."""
    documents, labels = csr_of_lists([[3], [2], [1]], 6), csr_of_lists([[1], [0], []], 6)
    edges = {"documents": documents, "labels": labels}
    rows = ROWS if filtered else Split(ROWS.documents, ROWS.targets)
    graph = Neighbours(edges, edges, numbers, texts=NodeTexts.of(NODES, rows, LABELS))
    found = graph(np.arange(3), np.arange(3), ROWS.targets.toarray(), np.random.default_rng(0))
    assert found.node_ids.tolist() == [0, 1, 2, 3]
    of_documents, of_labels = found.sides["documents"], found.sides["labels"]
    assert of_documents.targets.tolist() == [[0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0]]
    assert of_documents.mask.int().tolist() == [
        [0, 0, 0 if filtered else 1, 1],  # its own text, its label's, that of its filtered label; its neighbour
        [1, 1, 1, 1],  # node 2 is its neighbour
        [1, 1, 0, 1],  # node 2 says its label; node 1 is its neighbour, whatever it says
    ]
    assert of_labels.targets.tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]
    assert of_labels.mask.int().tolist() == [[0, 1, 1, 1], [1, 1, 0, 1]]
