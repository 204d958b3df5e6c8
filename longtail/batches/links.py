"""Which nodes enrich the documents of a batch, and its labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from longtail.batches.batch import Links
from longtail.data.sparse import CSR, gather, heaviest, padded
from longtail.shards.shard import WHOLE, Part
from longtail.text.tokens import Tokens
from longtail.topk import FloatArray, IntArray


class LinkedNodes:
    """The nodes that documents, or labels too, are linked to: in a batch a random part of them where they are many.

    Source: OAK (Mohan et al., 2024), section 4 and appendix B.

    Args:
        edges: (N, M) of the training documents, by weights above 0.
        most: nodes that a document or label has at most.
        nodes: the tokens of nodes, where these have no vectors of their own.
        labels: (L, M) edges of the labels, where these are enriched, too.
    """

    def __init__(
        self, edges: CSR, most: int, nodes: Callable[[IntArray], Tokens] | None = None, labels: CSR | None = None
    ) -> None:
        self._edges, self._most, self._nodes, self._labels, self._chances = edges, most, nodes, labels, False

    def renew(self, edges: CSR, *, chances: bool = False) -> None:
        """Take other edges of the same documents and nodes.

        Args:
            edges: (N, M).
            chances: whether their weights are how probable they are; all edges are certain if not.
        """
        self._edges, self._chances = edges, chances

    def __call__(
        self, rows: IntArray, label_ids: IntArray, generator: np.random.Generator, part: Part = WHOLE
    ) -> Links:
        """The nodes of a batch, or of a part of it.

        Args:
            rows: (B,) documents.
            label_ids: (P,) pool.
            generator: draws a part of the nodes of documents and labels that have too many.
            part: of the documents, and of the nodes that are encoded; labels have theirs in every part.
        """
        ids, chances = self._of_entries(self._edges, self._drawn(self._edges, rows, generator))  # (B, K)
        of_labels = np.zeros((0, 0), np.int64)
        if self._labels is not None:
            of_labels, _ = self._of_entries(self._labels, self._drawn(self._labels, label_ids, generator))  # (P, K)
        node_ids = np.union1d(ids[ids >= 0], of_labels[of_labels >= 0])  # (A,)
        here = part.of(len(rows))
        nodes = None if self._nodes is None else self._nodes(node_ids[part.of(len(node_ids))])
        sure = None if chances is None else torch.from_numpy(chances[here])
        places, labels = (torch.from_numpy(_places(found, node_ids)) for found in (ids[here], of_labels))
        return Links(torch.from_numpy(node_ids), places, nodes, sure, None if self._labels is None else labels)

    def _drawn(self, edges: CSR, rows: IntArray, generator: np.random.Generator) -> IntArray:
        """Which stored edges some rows have in a batch, (R, K) padded with -1."""
        positions, counts = gather(edges.indptr, rows)
        owner = np.repeat(np.arange(len(rows)), counts)
        order = np.lexsort((generator.random(len(owner)), owner))  # (E,) at random within a row
        return padded(positions[order], counts, self._most)

    def of_every_document(self) -> tuple[IntArray, FloatArray | None]:
        """All documents' nodes: of those that have too many, the ends of the heaviest edges.

        Returns:
            (N, K) node ids, padded with -1, and (N, K) how probable the links are, or None where all are certain.
        """
        kept = heaviest(self._edges, self._most)
        return self._of_entries(kept, padded(np.arange(kept.nnz), np.diff(kept.indptr)))

    def _of_entries(self, edges: CSR, at: IntArray) -> tuple[IntArray, FloatArray | None]:
        """The nodes and chances of stored edges, (B, K) of them, padded with -1."""
        there = at >= 0
        ids = np.where(there, edges.indices[at], -1)
        return ids, np.where(there, edges.data[at], 0).astype(np.float32) if self._chances else None


def _places(ids: IntArray, node_ids: IntArray) -> IntArray:
    """Where ids are among the ascending ones, -1 where there is none."""
    return np.where(ids < 0, -1, np.searchsorted(node_ids, ids))


def heaviest_links(edges: CSR, most: int) -> IntArray:
    """(n, K) ids of the nodes that n documents have the heaviest edges to, padded with -1; K is ``most`` or less."""
    kept = heaviest(edges, most)
    return padded(kept.indices, np.diff(kept.indptr))
