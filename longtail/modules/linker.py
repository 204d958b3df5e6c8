"""Where a document gets its nodes from, and what becomes of both: the enriched side of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from longtail.data.texts import Texts, appended
from longtail.modules.encoders.base import Encoder
from longtail.modules.enrichment import Enrichment
from longtail.topk import FloatArray, IntArray, TopK


class Linker(Protocol):
    """A model that ranks the nodes of a graph for a document: a `longtail.model.Bundle` whose labels are the nodes."""

    @property
    def encoder(self) -> Encoder:
        """Reads the documents."""

    @property
    def labels(self) -> Texts:
        """The M nodes."""

    def encode(self, texts: Texts) -> FloatArray:
        """The (n, W + 1) vectors of n texts."""

    def search(self, vectors: FloatArray, k: int) -> TopK:
        """The k best nodes of encoded texts."""

    def save(self, folder: Path, *, encoder: bool = True) -> None:
        """Write it into a new folder, with or without its encoder."""


@dataclass(frozen=True, slots=True)
class Linked:
    """A linker, and how the nodes that it finds enrich a document.

    Attributes:
        linker: ranks nodes; where its encoder is that of the model around it, a text is encoded once for both.
        most: nodes that a document gets.
        enrichment: makes a vector of the document's own and those of the nodes; without it the texts of the nodes are
            appended to the document's.
    """

    linker: Linker
    most: int
    enrichment: Enrichment | None

    def find(self, texts: Texts, x: FloatArray, encoder: Encoder) -> TopK:
        """The nodes of n texts, (n, most), best first.

        Args:
            texts: n texts.
            x: (n, D) their vectors under the model's encoder.
            encoder: of the model.
        """
        shared = self.linker.encoder is encoder
        return self.linker.search(with_one(x) if shared else self.linker.encode(texts), self.most)

    def enrich(self, texts: Texts, x: FloatArray, links: IntArray, embed: Callable[[Texts], FloatArray]) -> FloatArray:
        """The enriched vectors of n texts, (n, D).

        Args:
            texts: n texts.
            x: (n, D) their own vectors.
            links: (n, K) ids of their nodes, padded with -1.
            embed: the model's encoder.
        """
        if self.enrichment is None:
            return embed(appended(texts, links, self.linker.labels.fields["title"]))
        return self.enrichment.enrich(x, links)[0]


def with_one(vectors: FloatArray) -> FloatArray:
    """Vectors with a 1 at their end, which a bias is multiplied by."""
    return np.concatenate([vectors, np.ones((len(vectors), 1), np.float32)], axis=1)
