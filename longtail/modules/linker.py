"""Where a document gets its nodes from, and what becomes of both: the enriched side of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from longtail.data.filters import Same
from longtail.data.sparse import CSR
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

    def search(self, vectors: FloatArray, k: int, *, exclude: CSR | None = None) -> TopK:
        """The k best nodes of encoded texts, without some pairs."""

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
    _same: Same = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_same", Same(self.linker.labels.fields["title"]))

    def find(self, texts: Texts, x: FloatArray | None = None, encoder: Encoder | None = None) -> TopK:
        """The nodes of n texts, (n, most), best first. No text gets a node that is the same text: it tells nothing.

        Args:
            texts: n texts.
            x: (n, D) their vectors under the model's encoder; they are encoded here if left out.
            encoder: of the model.
        """
        shared = x is not None and self.linker.encoder is encoder
        vectors = with_one(x) if shared and x is not None else self.linker.encode(texts)
        itself = self._same.pairs(texts.fields["title"]) if "title" in texts.fields else None
        return self.linker.search(vectors, self.most, exclude=itself)

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
