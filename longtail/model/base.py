"""What every trained model can do, whatever it is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch

from longtail.data.filters import either
from longtail.data.sparse import CSR
from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.model.calibration import RIVALS, Calibration
from longtail.model.per_label import PerLabel, followed
from longtail.model.predictions import Predictions, Text, text_by_field
from longtail.model.scorers import ALL, Encoded, Scorer
from longtail.model.thresholds import at_most, must_be_threshold
from longtail.modules.encoders.base import Encoder
from longtail.modules.linker import Linked
from longtail.search.base import Index
from longtail.search.fusion import Fusion
from longtail.search.memory import Memory
from longtail.topk import FloatArray, IntArray, TopK

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
        calibrations: by score kind, how probable a score is; none where no documents were held out.
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
    calibrations: Mapping[str, Calibration]

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
    def encode(self, texts: Texts, links: IntArray | None = None) -> Encoded:
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

    def _known_to_fusion(self) -> dict[str, PerLabel]:
        """What the fusion and the memory know of the labels, as a part of `per_label`."""
        known = {"frequency": self.fusion and self.fusion.frequency, "memory": self.memory}
        return {name: rows for name, rows in known.items() if rows is not None}

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
        """The same model with the kind ``fused``, and ``memory`` where one is given; no probabilities are known yet."""

    @abstractmethod
    def calibrated_by(self, calibrations: Mapping[str, Calibration]) -> Model:
        """The same model with probabilities."""

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

    def among(self, rows: IntArray, kind: str | None = None) -> Scorer:
        """The scorer of the labels in some rows alone, in their order, which are scored as they are among all.

        Raises:
            BadInput: the model has no such score kind.
        """
        scorer = self.scorer(kind)
        return self.take(rows).scorer(kind) if scorer.rows is None else scorer.among(rows, self.device)

    def calibration(self, kind: str | None = None) -> Calibration:
        """What makes probabilities of the scores of a kind, the best one if left out.

        Raises:
            BadInput: there is no such score kind, or the model has learned no probabilities for it.
        """
        name = self.scorer(kind).name
        if name not in self.calibrations:
            problem = f"expected a model that learned them on held-out documents, found none for its {name} score"
            raise BadInput("probabilities", problem, remedy="train one that fuses scores, with validation above 0")
        return self.calibrations[name]

    def frequency(self, rows: IntArray) -> IntArray:
        """The training points of the labels in some rows, of a model with a fusion."""
        assert self.fusion is not None
        return self.fusion.frequency[rows]

    def described(self, rows: IntArray) -> tuple[Texts, IntArray]:
        """The texts of the labels in some rows, and their training points."""
        return self.labels.take(rows), self.frequency(rows)

    def probabilities(self, top: TopK, kind: str | None = None, *, first: FloatArray | None = None) -> FloatArray:
        """How probable ranked labels are, (n, K) float32 in [0, 1]; 0 where there is none.

        Args:
            top: (n, K) ranked rows of labels.
            kind: the score kind that ranked them; the best one if left out.
            first: (n, R) the highest scores that any labels have for each text, best first, of which the `RIVALS` of
                `longtail.model.calibration` count; those of ``top`` if left out.

        Raises:
            BadInput: as `calibration` does.
        """
        calibration, there, frequency = self.calibration(kind), top.ids >= 0, np.zeros(top.ids.shape, np.int64)
        frequency[there] = self.frequency(top.ids[there])
        return calibration(top.scores, top.scores if first is None else first, frequency)

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

    def queries(self, vectors: Encoded, kind: str | None = None) -> Encoded:
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
        both = {name: followed(rows, others[name]) for name, rows in self.per_label().items()}
        return self.over(self.labels.followed_by(other.labels), both, np.concatenate([self.ids, other.ids]))

    def search(self, vectors: Encoded, k: int, *, kind: str | None = None, exclude: CSR | None = None) -> TopK:
        """Rank rows of labels for encoded texts.

        Args:
            vectors: of n texts, from `encode`.
            k: labels a text.
            kind: the score kind; the best one if left out.
            exclude: (n, L) pairs that must not be ranked.
        """
        return self.scorer(kind).search(vectors, k, exclude=exclude)

    def rank(self, texts: Texts, k: int, *, kind: str | None = None, exclude: CSR | None = None) -> TopK:
        """Rank rows of labels for n texts, without those that were `rejected`: `encode`, then `search`."""
        return self.search(self.encode(texts), k, kind=kind, exclude=either(exclude, self.rejected(texts)))

    def rank_with_rivals(self, texts: Texts, k: int, *, kind: str | None = None) -> tuple[TopK, FloatArray]:
        """`rank`, k labels or a few more, and the ``first`` scores of `probabilities`: those of rejected ones, too."""
        vectors, rejected = self.encode(texts), self.rejected(texts)
        every = self.search(vectors, max(k, RIVALS), kind=kind)
        top = every if rejected is None else self.search(vectors, k, kind=kind, exclude=rejected)
        return top, every.scores

    def rejected(self, texts: Texts) -> CSR | None:  # noqa: ARG002  (who keeps corrections looks at them)
        """(n, L) pairs of n texts and labels that were said to be wrong, or None where there are none."""
        return None

    def named(self, top: TopK, kind: str | None = None, *, first: FloatArray | None = None) -> Predictions:
        """Ranked rows of labels as ids, uids, texts, scores and, where they are asked for, probabilities.

        Args:
            top: (n, K) ranked rows of labels.
            kind: the score kind that ranked them; the best one if left out.
            first: (n, R) the highest scores that any labels have for each text, as for `probabilities`.
        """
        return Predictions(top, lambda: self.ids, self.label, lambda: self.probabilities(top, kind, first=first))

    def stream(
        self, texts: Iterable[Text], k: int | None = None, *, kind: str | None = None, threshold: float | None = None
    ) -> Iterator[Predictions]:
        """`predict` for any number of texts, which are read and answered in blocks of some thousand."""
        if threshold is not None:
            must_be_threshold(threshold)
            self.calibration(kind)
        k = at_most(k, threshold)
        if isinstance(texts, (str, Mapping)):
            raise BadInput("texts", "expected several texts, found one", remedy="put it into a list")
        numbered = enumerate(texts)
        while block := [text_by_field(text, f"text {i}") for i, text in islice(numbered, _BLOCK)]:
            top, first = self.rank_with_rivals(Texts.by_field(block, self.fields), k, kind=kind)
            yield self.named(top.first(k), kind, first=first).above(threshold)

    def predict(
        self, texts: Iterable[Text], k: int | None = None, *, kind: str | None = None, threshold: float | None = None
    ) -> Predictions:
        """The k best labels of each text, best first; of an iterable that is read once, too.

        Texts are read in blocks and let go; the ranked labels of all of them are returned. `stream` gives them block by
        block.

        Args:
            texts: n of them, each a title, or a mapping with a ``title``, a ``content``, or both.
            k: labels a text, at most; 5 if left out, and 20 with a threshold.
            kind: the score kind; the best one if left out.
            threshold: in [0, 1]; of the k best labels, only those with at least this probability.

        Returns:
            A sequence of n lists of `Prediction`, with the arrays ``ids`` (n, k) int64, ``scores`` (n, k) float32,
            ``uids`` (n, k) and, where the model has learned them, ``probabilities`` (n, k) float32.

        Raises:
            BadInput: a text is none, or there is no such score kind, or the threshold is no probability, or the model
                has learned none.
        """
        blocks, k = list(self.stream(texts, k, kind=kind, threshold=threshold)), at_most(k, threshold)
        none = np.zeros((0, k), np.float32)
        top = TopK.stacked([TopK.nothing(0, k), *(TopK(block.rows, block.scores) for block in blocks)])
        return Predictions(
            top, lambda: self.ids, self.label, lambda: np.concatenate([none, *(one.probabilities for one in blocks)])
        )


def _refuse(kind: str, known: Sequence[Scorer]) -> NoReturn:
    names = ", ".join(scorer.name for scorer in known)
    if not known:
        raise BadInput("kind", f"expected a score with label vectors, found {kind} alone", remedy="search it exactly")
    raise BadInput("kind", f"expected one of {names}, found {kind}", remedy="choose one of those")
