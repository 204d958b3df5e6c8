"""Which nodes enrich the documents of a batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from longtail.batches.batch import Links
from longtail.data.sparse import CSR, gather, heaviest
from longtail.text.tokens import Tokens
from longtail.topk import IntArray


class LinkedNodes:
    """The nodes that documents are linked to: in a batch a random part of them where they are many.

    Source: OAK (Mohan et al., 2024), section 4 and appendix B.

    Args:
        edges: (N, M) of the training documents, by weights above 0.
        most: nodes that a document has at most.
        nodes: the tokens of nodes, where these have no vectors of their own.
    """

    def __init__(self, edges: CSR, most: int, nodes: Callable[[IntArray], Tokens] | None = None) -> None:
        self._edges, self._most, self._nodes = edges, most, nodes

    def renew(self, edges: CSR) -> None:
        """Take other edges of the same documents and nodes."""
        self._edges = edges

    def __call__(self, rows: IntArray, generator: np.random.Generator) -> Links:
        """The nodes of a batch.

        Args:
            rows: (B,) documents.
            generator: draws a part of the nodes of documents that have too many.
        """
        positions, counts = gather(self._edges.indptr, rows)
        owner = np.repeat(np.arange(len(rows)), counts)
        order = np.lexsort((generator.random(len(owner)), owner))  # (E,) at random within a document
        ids = padded(self._edges.indices[positions][order], counts, self._most)  # (B, K)
        node_ids, at = np.unique(ids[ids >= 0], return_inverse=True)
        places = np.full_like(ids, -1)
        places[ids >= 0] = at
        nodes = None if self._nodes is None else self._nodes(node_ids)
        return Links(torch.from_numpy(node_ids), torch.from_numpy(places), nodes)

    def of_every_document(self) -> IntArray:
        """(N, K) node ids, padded with -1: of documents that have too many, those of the heaviest edges."""
        return heaviest_links(self._edges, self._most)


def heaviest_links(edges: CSR, most: int) -> IntArray:
    """(n, K) ids of the nodes that n documents have the heaviest edges to, padded with -1; K is ``most`` or less."""
    kept = heaviest(edges, most)
    return padded(kept.indices, np.diff(kept.indptr), most)


def padded(ids: IntArray, counts: IntArray, most: int) -> IntArray:
    """The first ids of each row side by side, (n, K) padded with -1; K is the longest row, and at most ``most``.

    Args:
        ids: (E,) row after row.
        counts: (n,) ids of each row.
        most: ids of a row that are kept.
    """
    wide = np.minimum(counts, most)
    out = np.full((len(counts), int(wide.max(initial=0))), -1, np.int64)
    there = np.arange(out.shape[1]) < wide[:, None]  # (n, K)
    starts = np.cumsum(counts) - counts
    out[there] = ids[(starts[:, None] + np.arange(out.shape[1]))[there]]
    return out
