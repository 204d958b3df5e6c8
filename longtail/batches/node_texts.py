"""Nodes of a metadata graph that say the same as a document or label, or as what that is known to go with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from longtail.batches.batch import entries_in_pool
from longtail.data.sparse import CSR, csr, row_of_entry
from longtail.data.split import Split
from longtail.data.texts import Strings, canonical
from longtail.topk import BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class NodeTexts:
    """Which nodes have the same text as what a document or label is known to go with.

    A text is the title in NFC, whatever its case and spaces: an encoder of titles sees no more.

    Attributes:
        ids: (M,) int64 in [0, T), the text of each node.
        known: (N, T) float32 of the ``documents``: their own text, and those of their true and filtered labels; (L, T)
            of the ``labels``: their own, and those of the documents whose true or filtered label they are.
    """

    ids: IntArray
    known: Mapping[str, CSR]

    @classmethod
    def of(cls, nodes: Strings, rows: Split, labels: Strings) -> NodeTexts:
        """Compare the texts of nodes with those of documents and labels.

        Args:
            nodes: M texts.
            rows: N documents, with their true and filtered pairs.
            labels: L titles.
        """
        places: dict[str, int] = {}
        ids = np.array([places.setdefault(_plain(text), len(places)) for text in nodes], np.int64)

        def own(texts: Strings) -> CSR:
            found = np.array([places.get(_plain(text), -1) for text in texts], np.int64)
            there = np.flatnonzero(found >= 0)
            return csr(there, found[there], (len(texts), len(places)))

        of_documents, of_labels = own(rows.documents.fields["title"]), own(labels)
        pairs = rows.known
        known = {"documents": of_documents + pairs @ of_labels, "labels": of_labels + pairs.T.tocsr() @ of_documents}
        return cls(ids, {side: csr(row_of_entry(m), m.indices, m.shape) for side, m in known.items()})

    def shared(self, side: str, rows: IntArray, nodes: IntArray) -> BoolArray:
        """Which nodes have a text that a row goes with.

        Args:
            side: ``documents`` or ``labels``.
            rows: (R,) of that side.
            nodes: (A,) in [0, M).

        Returns:
            (R, A).
        """
        texts, at = np.unique(self.ids[nodes], return_inverse=True)
        return np.asarray(entries_in_pool(self.known[side], rows, texts)[:, at] > 0)


def _plain(text: str) -> str:
    return " ".join(canonical(text).casefold().split())
