"""What every trained model can do, whatever it is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np
import torch

from longtail.data.sparse import CSR
from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.model.predictions import Predictions, Text, text_by_field
from longtail.model.scorers import ALL, Scorer
from longtail.modules.encoders.base import Encoder
from longtail.modules.linker import Linked
from longtail.search.base import Index
from longtail.search.fusion import Fusion
from longtail.search.memory import Keys, Memory, Part, Remembering, keys_of
from longtail.topk import Float64Array, FloatArray, IntArray, TopK

PerLabel: TypeAlias = Any  # what is known of m labels: an array of m rows, or a `Memory` of documents that have them
_BLOCK = 8_192  # texts predicted at a time


class Model(ABC):
    """Ranks L labels for texts: a text is encoded once, and each scorer reads some columns of its vector.

    Inside, a label is its row, in [0, L): searches, tables and matrices of true pairs say rows. What is answered says
    ids, which stay with a label as long as a run lives.

    Attributes:
        recipe: what trained it.
        labels: L texts, each with a uid of its own.
        ids: (L,) int64, the stable id of each row.
        fields: the fields of a text that it reads.
        device: where encoders are and searches run.
        scorers: the score kinds, the best one last.
        mixed: the scorers that a fusion mixes.
        fusion: what mixes them, if there is something.
        memory: documents that it remembers beside a fusion, if there is something.
        key_columns: the columns of a text's vector by which documents are near each other.
    """

    __slots__ = ()
    recipe: str
    labels: Texts
    ids: IntArray
    fields: tuple[str, ...]
    device: torch.device
    scorers: tuple[Scorer, ...]
    mixed: tuple[Scorer, ...]
    fusion: Fusion | None
    memory: Memory | None

    @property
    @abstractmethod
    def key_columns(self) -> slice | IntArray:
        """The columns of a text's vector by which documents are near each other."""

    @property
    @abstractmethod
    def encoders(self) -> tuple[Encoder, ...]:
        """What makes vectors of texts."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The width of a text's vector, before the 1 that `encode` puts at its end."""

    @property
    @abstractmethod
    def linked(self) -> Linked | None:
        """What links a text to nodes that enrich it, if there is something."""

    @abstractmethod
    def encode(self, texts: Texts, links: IntArray | None = None) -> FloatArray:
        """The float32 vectors of n texts, (n, width + 1): what scorers read, one after the other, and a 1.

        Args:
            texts: n texts.
            links: (n, K) nodes of each, padded with -1, for a model with a linker; those that it finds if left out.
        """

    @abstractmethod
    def new_labels(self, labels: Texts, examples: Texts, owners: IntArray) -> Model:
        """The same model over m labels that it was not trained with; their ids follow the largest that it has.

        Args:
            labels: m texts with uids.
            examples: e texts, as the model reads them, each with one of these labels.
            owners: (e,) int64, which label of the m each example has.
        """

    @abstractmethod
    def per_label(self) -> dict[str, PerLabel]:
        """What the model knows of its labels, by name, one row a label: the vectors, and the frequency if it fuses."""

    @abstractmethod
    def over(self, labels: Texts, rows: Mapping[str, PerLabel], ids: IntArray) -> Model:
        """The same encoder and fusion over other labels.

        Args:
            labels: m texts with uids.
            rows: what `per_label` has, of m labels.
            ids: (m,) int64 stable ids.
        """

    @abstractmethod
    def fused_by(self, fusion: Fusion, memory: Memory | None = None) -> Model:
        """The same model with the kind ``fused``, and with the kind ``memory`` where one is given."""

    def keys(self, vectors: FloatArray) -> FloatArray:
        """The (n, W) unit rows by which documents are near each other, of n encoded texts."""
        return keys_of(vectors, self.key_columns)

    def remembering(self, memory: Memory) -> Remembering:
        """What a memory of documents says of the labels of a model with a fusion."""
        assert self.fusion is not None
        part = Part(memory, memory.shares(self.fusion.frequency))
        return Remembering([part], self.key_columns, len(self.labels))

    def remember(self, documents: Texts, targets: CSR, weights: Float64Array) -> Memory:
        """A memory of n documents, as this model sees them.

        Args:
            documents: n texts.
            targets: (n, L) CSR of ones, their labels.
            weights: (S + 2, 3) of the scorers that a fusion mixes, the memory and the constant.
        """
        return Memory(Keys(self.keys(self.encode(documents)), self.device), targets, weights)

    def memory_of(self, examples: Texts, owners: IntArray, labels: int) -> Memory | None:
        """What a model with a memory remembers of e examples of m other labels; None for a model without.

        Args:
            examples: e texts, as the model reads them.
            owners: (e,) int64, the label of each.
            labels: m.
        """
        if self.memory is None:
            return None
        keys = self.keys(self.encode(examples))
        return self.memory.of_examples([keys[owners == i] for i in range(labels)])

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the model into a new folder, which appears whole or not at all."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of the scorers, the best one last."""
        return tuple(scorer.name for scorer in self.scorers)

    def scorer(self, kind: str | None = None) -> Scorer:
        """A scorer by its name; the best one if left out.

        Raises:
            BadInput: the model has no such score kind.
        """
        if kind is None:
            return self.scorers[-1]
        found = next((scorer for scorer in (*self.scorers, *self.mixed) if scorer.name == kind), None)
        return found or _refuse(kind, self.scorers)

    def index(self, kind: str | None = None) -> Index:
        """What ranks labels for the `queries` of a score kind, the best one if left out."""
        return self.scorer(kind).index

    def table(self, kind: str | None = None, ids: IntArray | slice = ALL) -> FloatArray:
        """The label vectors of a score kind, (L, W) float32, which an index stores, or some rows of them.

        Raises:
            BadInput: the model has no such score kind, or its score is no inner product.
        """
        scorer = self.scorer(kind)
        return (scorer.rows or _refuse(scorer.name, [one for one in self.scorers if one.rows is not None]))(ids)

    def queries(self, vectors: FloatArray, kind: str | None = None) -> FloatArray:
        """The (n, W) float32 queries of the `index` of a score kind, for vectors from `encode`."""
        return self.scorer(kind).queries(vectors)

    def label(self, row: int) -> tuple[int, str, str]:
        """The id, the uid and the text of the label in a row."""
        return int(self.ids[row]), self.labels.uids[row], self.labels.fields["title"][row]

    @property
    def next_id(self) -> int:
        """The lowest id above those of its labels."""
        return int(self.ids.max(initial=-1)) + 1

    def take(self, rows: IntArray) -> Model:
        """The same model over the labels in some rows, in their order."""
        return self.over(
            self.labels.take(rows), {name: array[rows] for name, array in self.per_label().items()}, self.ids[rows]
        )

    def followed_by(self, other: Model) -> Model:
        """The same model over its own labels and then those of another, which `over` or `new_labels` made of it."""
        others = other.per_label()
        both = {name: _followed(rows, others[name]) for name, rows in self.per_label().items()}
        return self.over(self.labels.followed_by(other.labels), both, np.concatenate([self.ids, other.ids]))

    def search(self, vectors: FloatArray, k: int, *, kind: str | None = None, exclude: CSR | None = None) -> TopK:
        """Rank rows of labels for encoded texts.

        Args:
            vectors: of n texts, from `encode`.
            k: labels a text.
            kind: the score kind; the best one if left out.
            exclude: (n, L) pairs that must not be ranked.
        """
        return self.scorer(kind).search(vectors, k, exclude=exclude)

    def rank(self, texts: Texts, k: int, *, kind: str | None = None, exclude: CSR | None = None) -> TopK:
        """Rank rows of labels for n texts: `encode`, then `search`."""
        return self.search(self.encode(texts), k, kind=kind, exclude=exclude)

    def named(self, top: TopK) -> Predictions:
        """Ranked rows of labels as ids, uids, texts and scores."""
        return Predictions(top, lambda: self.ids, self.label)

    def stream(self, texts: Iterable[Text], k: int = 5, *, kind: str | None = None) -> Iterator[Predictions]:
        """The k best labels of any number of texts, which are read and answered in blocks of some thousand.

        Args:
            texts: each a title, or a mapping with a ``title``, a ``content``, or both.
            k: labels a text.
            kind: the score kind; the best one if left out.

        Raises:
            BadInput: a text is none, or there is no such score kind.
        """
        if isinstance(texts, (str, Mapping)):
            raise BadInput("texts", "expected several texts, found one", remedy="put it into a list")
        numbered = enumerate(texts)
        while block := [text_by_field(text, f"text {i}") for i, text in islice(numbered, _BLOCK)]:
            yield self.named(self.rank(Texts.by_field(block, self.fields), k, kind=kind))

    def predict(self, texts: Iterable[Text], k: int = 5, *, kind: str | None = None) -> Predictions:
        """The k best labels of each text, best first; of an iterable that is read once, too.

        Texts are read in blocks and let go; the ranked labels of all of them are returned. `stream` gives them block by
        block.

        Args:
            texts: n of them, each a title, or a mapping with a ``title``, a ``content``, or both.
            k: labels a text.
            kind: the score kind; the best one if left out.

        Returns:
            A sequence of n lists of `Prediction`, with the arrays ``ids`` (n, k) int64, ``scores`` (n, k) float32 and
            ``uids`` (n, k).

        Raises:
            BadInput: a text is none, or there is no such score kind.
        """
        blocks = list(self.stream(texts, k, kind=kind))
        ids = np.concatenate([np.zeros((0, k), np.int64), *(block.rows for block in blocks)])
        return self.named(TopK(ids, np.concatenate([np.zeros((0, k), np.float32), *(b.scores for b in blocks)])))


def _followed(rows: PerLabel, others: PerLabel) -> PerLabel:
    """What is known of some labels, and then of others."""
    if isinstance(rows, Memory):
        assert isinstance(others, Memory)
        return rows.followed_by(others)
    return np.concatenate([rows, others])


def _refuse(kind: str, known: Sequence[Scorer]) -> NoReturn:
    names = ", ".join(scorer.name for scorer in known)
    raise BadInput("kind", f"expected one of {names}, found {kind}", remedy="choose one of those")
