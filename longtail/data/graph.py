"""Metadata graphs (anchor sets, auxiliary knowledge): nodes with texts, and edges to documents and labels."""

from __future__ import annotations

from dataclasses import dataclass

from longtail.data.sparse import CSR
from longtail.data.texts import Strings


@dataclass(frozen=True, slots=True)
class Graph:
    """M nodes with texts, and weighted edges from training documents, labels, or both. Test documents have no edges.

    Attributes:
        nodes: M texts.
        train: (N, M) float32 edges of the training documents, or None where the graph lacks that side.
        label: (L, M) float32 edges of the labels, or None.
    """

    nodes: Strings
    train: CSR | None
    label: CSR | None
