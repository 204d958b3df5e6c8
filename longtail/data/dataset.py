"""A data set: documents with their labels, labels with their text, graphs; read from and written to a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from longtail.data.graph import Graph
from longtail.data.sparse import CSR, csr_of_lists
from longtail.data.texts import Texts


@dataclass(frozen=True, slots=True)
class Propensity:
    """The constants A and B of the propensity model (Jain et al., 2016, eq. 3). They are never defaulted."""

    A: float
    B: float


@dataclass(frozen=True, slots=True)
class Split:
    """n documents and their labels out of L.

    Attributes:
        documents: n texts.
        targets: (n, L) CSR of ones: the relevant labels of each document.
        filtered: (n, L) CSR of ones: pairs that are neither rewarded nor penalised (identity and reciprocal pairs),
            in training and in evaluation; None where the data set has no filter file.
    """

    documents: Texts
    targets: CSR
    filtered: CSR | None = None

    def __len__(self) -> int:
        return len(self.documents)


@dataclass(frozen=True, slots=True)
class Dataset:
    """Training documents, labels, and what else a data set folder holds.

    Attributes:
        name: the name in ``dataset.json``, or the folder's.
        train: the N training documents.
        labels: the L labels.
        test: the test documents, for `longtail.evaluate` only: nothing in `longtail.train` or a recipe reads them.
        graphs: metadata graphs by name.
        propensity: A and B, or None where ``dataset.json`` does not give them (no PSP can be computed then).
        licence: of the data, as ``dataset.json`` says.
        description: one sentence.
    """

    name: str
    train: Split
    labels: Texts
    test: Split | None = None
    graphs: Mapping[str, Graph] = field(default_factory=dict)
    propensity: Propensity | None = None
    licence: str = ""
    description: str = ""

    @classmethod
    def from_texts(cls, documents: Sequence[str], targets: Sequence[Sequence[int]], labels: Sequence[str]) -> Dataset:
        """A data set from plain lists.

        Args:
            documents: N texts.
            targets: N lists of label ids in [0, L).
            labels: L texts.
        """
        return cls("lists", Split(Texts.of(documents), csr_of_lists(targets, len(labels))), Texts.of(labels))
