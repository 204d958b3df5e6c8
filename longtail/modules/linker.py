"""Where a document gets its nodes from, and what becomes of both: the enriched side of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from scipy.special import expit

from longtail.data.filters import Same
from longtail.data.sparse import CSR, holds
from longtail.data.texts import Texts, appended
from longtail.modules.encoders.base import Encoder
from longtail.modules.enrichment import Enrichment
from longtail.modules.hops import Hops
from longtail.topk import Float64Array, FloatArray, IntArray, TopK

_DECAY = 1e-3  # of the weights of chances: where all links are right, they would grow without end


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
class Chances:
    """How probable links are by the scores that their linker gives them: sigmoid(slope * score + offset)."""

    slope: float
    offset: float

    def __call__(self, top: TopK) -> FloatArray:
        """(n, K) in [0, 1], of found nodes."""
        scores = np.where(top.ids < 0, 0, top.scores)
        return np.asarray(expit(self.slope * scores + self.offset), np.float32)

    @classmethod
    def learn(cls, top: TopK, truth: CSR) -> Chances | None:
        """Learn them by logistic regression; None where nothing was found.

        Args:
            top: the nodes found for n documents.
            truth: (n, M) their links.
        """
        from scipy.optimize import minimize  # noqa: PLC0415  (half a second that whoever only predicts need not wait)

        there = top.ids >= 0
        scores, right = top.scores[there].astype(np.float64), holds(truth, top.ids)[there]
        if not len(scores):
            return None
        mean, spread = scores.mean(), scores.std() or 1.0
        inputs = (scores - mean) / spread

        def loss(weights: Float64Array) -> tuple[float, Float64Array]:
            slope, offset = weights
            logits = slope * inputs + offset
            errors = expit(logits) - right
            value = np.mean(np.logaddexp(0, logits) - right * logits) + _DECAY * (weights @ weights) / 2
            return float(value), np.array([np.mean(errors * inputs), np.mean(errors)]) + _DECAY * weights

        slope, offset = minimize(loss, np.zeros(2), jac=True, method="BFGS").x
        return cls(float(slope / spread), float(offset - slope * mean / spread))


@dataclass(frozen=True, slots=True)
class Linked:
    """A linker, and how the nodes that it finds enrich a document.

    Attributes:
        linker: ranks nodes; where its encoder is that of the model around it, a text is encoded once for both.
        most: nodes that a document gets.
        enrichment: makes a vector of the document's own and those of the nodes; without it the texts of the nodes are
            appended to the document's.
        chances: how far the nodes that the linker finds are believed; fully if left out.
    """

    linker: Linker
    most: int
    enrichment: Enrichment | Hops | None
    chances: Chances | None = None
    _same: Same = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_same", Same(self.linker.labels.fields["title"].canonical()))

    def find(self, texts: Texts, x: FloatArray | None = None, encoder: Encoder | None = None) -> TopK:
        """The nodes of n texts, (n, most), best first. No text gets a node that is the same text: it tells nothing.

        Args:
            texts: n texts.
            x: (n, D or more) their vectors under the model's encoder, which may go on with those of heads; they are
                encoded here if left out.
            encoder: of the model.
        """
        if x is not None and encoder is not None and self.linker.encoder is encoder:
            vectors = with_one(x[:, : encoder.width])
        else:
            vectors = self.linker.encode(texts)
        itself = self._same.pairs(texts.fields["title"].canonical()) if "title" in texts.fields else None
        return self.linker.search(vectors, self.most, exclude=itself)

    def enrich(
        self, texts: Texts, x: FloatArray, links: IntArray | TopK, embed: Callable[[Texts], FloatArray]
    ) -> FloatArray:
        """The enriched vectors of n texts, as many as x has.

        Args:
            texts: n texts.
            x: (n, D) their own vectors, or (n, 2 D) both views of heads, side by side.
            links: what `find` found, or (n, K) ids of nodes that they are certain to have, padded with -1.
            embed: the model's encoder.
        """
        if self.enrichment is None:
            ids = links.ids if isinstance(links, TopK) else links
            return embed(appended(texts, ids, self.linker.labels.fields["title"]))
        return self.weigh(x, links, self.enrichment)[0]

    def width_of(self, own: int) -> int:
        """The width of what becomes of texts whose own vectors are so wide, both views of heads with them."""
        return own * (1 if self.enrichment is None else self.enrichment.times)

    def alone(self, x: FloatArray) -> FloatArray:
        """What (n, D) texts are without nodes, or both views of heads, (n, 2 D)."""
        if self.enrichment is None:
            return x
        width = self.enrichment.width
        views = [self.enrichment.alone(x[:, start : start + width]) for start in range(0, x.shape[1], width)]
        return views[0] if len(views) == 1 else np.concatenate(views, axis=1)

    def weigh(
        self, x: FloatArray, links: IntArray | TopK, enrichment: Enrichment | Hops
    ) -> tuple[FloatArray, FloatArray]:
        """The enriched vectors of documents, each view (n, D) for itself, and the weights of their nodes, (n, K)."""
        ids, sure = links.ids if isinstance(links, TopK) else links, None
        if isinstance(links, TopK) and self.chances is not None:
            sure = self.chances(links)
        views = [
            enrichment.enrich(x[:, start : start + enrichment.width], ids, chances=sure)
            for start in range(0, x.shape[1], enrichment.width)
        ]
        return np.concatenate([view for view, _ in views], axis=1), views[0][1]


def with_one(vectors: FloatArray) -> FloatArray:
    """Vectors with a 1 at their end, which a bias is multiplied by."""
    return np.concatenate([vectors, np.ones((len(vectors), 1), np.float32)], axis=1)
