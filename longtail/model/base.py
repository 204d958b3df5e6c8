"""What every trained model can do, whatever it is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from longtail.data.sparse import CSR
from longtail.data.texts import Texts
from longtail.modules.encoders.base import Encoder
from longtail.search.exact import Exact
from longtail.search.fusion import Fusion
from longtail.search.product import Product
from longtail.topk import AnyArray, FloatArray, IntArray, Prediction, TopK

_BLOCK = 8_192  # texts predicted at a time


class Model(ABC):
    """Ranks L labels for texts: a text is encoded once, and each score kind reads some columns of its vector.

    Attributes:
        recipe: what trained it.
        labels: L texts.
        fields: the fields of a text that it reads.
        device: where encoders are and searches run.
    """

    __slots__ = ()
    recipe: str
    labels: Texts
    fields: tuple[str, ...]
    device: torch.device

    @property
    @abstractmethod
    def encoders(self) -> tuple[Encoder, ...]:
        """What makes vectors of texts."""

    @property
    @abstractmethod
    def kinds(self) -> tuple[str, ...]:
        """The score kinds, the best one last."""

    @property
    @abstractmethod
    def scorers(self) -> tuple[str, ...]:
        """The score kinds that a fusion mixes."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The width of a text's vector, before the 1 that `encode` puts at its end."""

    @abstractmethod
    def encode(self, texts: Texts, links: IntArray | None = None) -> FloatArray:
        """The float32 vectors of n texts, (n, width + 1): what kinds read, one after the other, and a 1.

        Args:
            texts: n texts.
            links: (n, K) nodes of each, padded with -1, for a model with a linker; those that it finds if left out.
        """

    @abstractmethod
    def columns(self, kind: str) -> slice | IntArray:
        """The columns of a text's vector that a score kind reads."""

    @abstractmethod
    def table(self, kind: str, ids: IntArray | slice = slice(None)) -> FloatArray:
        """The label vectors of a score kind, (L, W) float32, which an index stores, or some rows of them.

        Raises:
            BadInput: the model has no such score kind.
        """

    @abstractmethod
    def index(self, kind: str) -> Exact | Product:
        """The index of a score kind, built at its first use."""

    @abstractmethod
    def new_labels(self, labels: Texts, examples: Texts, owners: IntArray) -> Model:
        """The same model over m labels that it was not trained with.

        Args:
            labels: m texts with uids.
            examples: e texts, as the model reads them, each with one of these labels.
            owners: (e,) int64, which label of the m each example has.
        """

    @abstractmethod
    def per_label(self) -> dict[str, AnyArray]:
        """What the model knows of its labels, by name, one row a label: the vectors, and the frequency if it fuses."""

    @abstractmethod
    def over(self, labels: Texts, rows: Mapping[str, AnyArray]) -> Model:
        """The same encoder and fusion over other labels.

        Args:
            labels: m texts with uids.
            rows: the arrays of `per_label`, m rows each.
        """

    @abstractmethod
    def fused_by(self, fusion: Fusion) -> Model:
        """The same model with the kind ``fused``."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the model into a new folder, which appears whole or not at all."""

    def queries(self, vectors: FloatArray, kind: str) -> FloatArray:
        """The (n, W) float32 queries of an index of ``table(kind)``, for vectors from `encode`."""
        return vectors[:, self.columns(kind)]

    def take(self, ids: IntArray) -> Model:
        """The same model over some of its labels, in the order of ``ids``."""
        return self.over(self.labels.take(ids), {name: rows[ids] for name, rows in self.per_label().items()})

    def followed_by(self, other: Model) -> Model:
        """The same model over its own labels and then those of another, which `over` or `new_labels` made of it."""
        others = other.per_label()
        both = {name: np.concatenate([rows, others[name]]) for name, rows in self.per_label().items()}
        return self.over(self.labels.followed_by(other.labels), both)

    def search(self, vectors: FloatArray, k: int, *, kind: str | None = None, exclude: CSR | None = None) -> TopK:
        """Rank labels for encoded texts.

        Args:
            vectors: of n texts, from `encode`.
            k: labels a text.
            kind: the score kind; the best one if left out.
            exclude: (n, L) pairs that must not be ranked.
        """
        kind = kind or self.kinds[-1]
        return self.index(kind).search(self.queries(vectors, kind), k, exclude=exclude)

    def rank(self, texts: Texts, k: int, *, kind: str | None = None, exclude: CSR | None = None) -> TopK:
        """Rank labels for n texts: `encode`, then `search`."""
        return self.search(self.encode(texts), k, kind=kind, exclude=exclude)

    def stream(self, texts: Iterable[Mapping[str, str]], k: int, *, kind: str | None = None) -> Iterator[TopK]:
        """Rank labels for any number of texts, some thousand at a time.

        Args:
            texts: each with a ``title``, and a ``content`` if the model reads one.
            k: labels a text.
            kind: the score kind; the best one if left out.
        """
        iterator = iter(texts)
        while block := list(islice(iterator, _BLOCK)):
            yield self.rank(Texts.by_field(block, self.fields), k, kind=kind)

    def predict(self, texts: Sequence[str], k: int = 5, *, kind: str | None = None) -> list[list[Prediction]]:
        """The k best labels of each text, best first.

        Args:
            texts: plain texts, read as titles.
            k: labels a text.
            kind: the score kind; the best one if left out.
        """
        tops = self.stream(({"title": text} for text in texts), k, kind=kind)
        return [row for top in tops for row in self.named(top)]

    def named(self, top: TopK) -> list[list[Prediction]]:
        """Ranked label ids with their uids, texts and scores; empty places are left out."""
        title, uid = self.labels.fields["title"], self.labels.uids
        names = {i: (i, uid[i], title[i]) for i in np.unique(top.ids).tolist() if i >= 0}
        return [
            [Prediction(*names[i], score) for i, score in zip(ids, scores, strict=True) if i >= 0]
            for ids, scores in zip(top.ids.tolist(), top.scores.tolist(), strict=True)
        ]
