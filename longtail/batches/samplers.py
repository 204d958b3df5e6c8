"""Which documents share a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from longtail.data.sparse import CSR, drawn_entries
from longtail.topk import IntArray


class Draw(NamedTuple):
    """One batch before its pool is made.

    Attributes:
        rows: (B,) int64 documents, each once.
        label_ids: (Q,) int64 labels that must be in the pool, on top of those that the pool draws.
    """

    rows: IntArray
    label_ids: IntArray


class Sampler(Protocol):
    """Cuts an epoch into batches; the same (seed, epoch) gives the same batches."""

    def steps(self) -> int:
        """Batches an epoch."""

    def epoch(self, epoch: int) -> Iterator[Draw]:
        """The batches of an epoch."""


_NONE = np.zeros(0, np.int64)


def _cut(order: IntArray, size: int) -> Iterator[Draw]:
    """Equal batches of about ``size`` rows, so that no epoch ends with a tiny one."""
    for rows in np.array_split(order, _steps(len(order), size)):
        yield Draw(rows, _NONE)


def _steps(n: int, size: int) -> int:
    return max(1, round(n / size))


class Clustered:
    """Batches of near documents (NGAME): whole clusters in random order, cut at the batch size.

    It starts with a cluster a document, which is a plain shuffle; `regroup` puts near documents into clusters.

    Args:
        documents: N, how many there are.
        size: about how many documents a batch has; an epoch is cut into equal parts.
        seed: of the order.
    """

    def __init__(self, documents: int, size: int, *, seed: int) -> None:
        self._size, self._seed = size, seed
        self._clusters = np.arange(documents, dtype=np.int64)
        self._begun, self._had = 0, np.zeros(0, np.int64)  # an epoch, and the documents that it had before a regrouping

    def steps(self) -> int:
        """Batches an epoch."""
        return _steps(len(self._clusters), self._size)

    def epoch(self, epoch: int) -> Iterator[Draw]:
        """Every document once: clusters in random order, and in random order within a cluster.

        An epoch in which documents were regrouped has those first, and in their order, that it had before that.
        """
        generator = np.random.default_rng([self._seed, epoch])
        place = generator.permutation(int(self._clusters.max(initial=0)) + 1)
        within = generator.random(len(self._clusters))
        order = np.lexsort((within, place[self._clusters]))
        if epoch == self._begun and len(self._had):
            left = np.ones(len(order), bool)
            left[self._had] = False
            order = np.concatenate([self._had, order[left[order]]])
        yield from _cut(order, self._size)

    def regroup(self, clusters: IntArray, *, epoch: int = 0, step: int = 0) -> None:
        """Take new clusters.

        Args:
            clusters: (N,) int64, the cluster of each document.
            epoch: that is under way; its other documents go on in clusters that are new.
            step: of the epoch, that comes next.
        """
        had = [_NONE, *(draw.rows for draw in islice(self.epoch(epoch), step))]
        self._begun, self._had, self._clusters = epoch, np.concatenate(had), clusters

    def state_dict(self) -> dict[str, Any]:
        """The clusters, and what the epoch had before them, for a checkpoint."""
        return {"clusters": torch.from_numpy(self._clusters), "begun": self._begun, "had": torch.from_numpy(self._had)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take them back from a checkpoint; earlier versions regrouped between epochs alone."""
        self._clusters = state["clusters"].numpy()
        if "had" in state:
            self._begun, self._had = state["begun"], state["had"].numpy()


class Shuffled:
    """Batches of documents in random order; every document once an epoch.

    Args:
        documents: N, how many there are.
        size: about how many documents a batch has; an epoch is cut into equal parts.
        seed: of the order.
    """

    def __init__(self, documents: int, size: int, *, seed: int) -> None:
        self._documents, self._size, self._seed = documents, size, seed

    def steps(self) -> int:
        """Batches an epoch."""
        return _steps(self._documents, self._size)

    def epoch(self, epoch: int) -> Iterator[Draw]:
        """Every document once, in the order of (seed, epoch)."""
        generator = np.random.default_rng([self._seed, epoch])
        yield from _cut(generator.permutation(self._documents), self._size)


class ByLabel:
    """Batches over labels (SiameseXML): every label once an epoch, each with one of its documents.

    Source: SiameseXML (Dahiya et al., 2021), section 4: with labels as the points of an epoch, rare labels are seen as
    often as frequent ones. A label's document is drawn by target. A document that two labels of a batch draw is in it
    once; a label without documents is left out.

    Args:
        targets: (N, L) true pairs.
        size: about how many labels a batch has.
        seed: of the order and of the documents drawn.
    """

    def __init__(self, targets: CSR, size: int, *, seed: int) -> None:
        self._by_label = targets.T.tocsr()  # (L, N)
        self._labels = np.flatnonzero(np.diff(self._by_label.indptr)).astype(np.int64)
        self._size, self._seed = size, seed

    def steps(self) -> int:
        """Batches an epoch."""
        return _steps(len(self._labels), self._size)

    def epoch(self, epoch: int) -> Iterator[Draw]:
        """Every label that has a document once, in the order of (seed, epoch)."""
        generator = np.random.default_rng([self._seed, epoch])
        for labels in np.array_split(generator.permutation(self._labels), self.steps()):
            drawn = drawn_entries(self._by_label, labels, generator.random((len(labels), 1)))
            yield Draw(np.unique(self._by_label.indices[drawn]).astype(np.int64), labels)


@dataclass(frozen=True, slots=True)
class SamplerKind:
    """A row of `SAMPLERS`.

    Attributes:
        make: a `Sampler` of (N, L) true pairs, the size of a batch and a seed.
        about: one line of help.
        over_labels: whether labels, and not documents, are what an epoch has once.
    """

    make: Callable[[CSR, int, int], Sampler]
    about: str
    over_labels: bool = False


SAMPLERS: dict[str, SamplerKind] = {
    "shuffled": SamplerKind(
        lambda targets, size, seed: Shuffled(targets.shape[0], size, seed=seed), "documents in random order"
    ),
    "clustered": SamplerKind(
        lambda targets, size, seed: Clustered(targets.shape[0], size, seed=seed),
        "clusters of near documents in random order, once they were regrouped (NGAME)",
    ),
    "by_label": SamplerKind(
        lambda targets, size, seed: ByLabel(targets, size, seed=seed),
        "labels in random order, each with one of its documents (SiameseXML)",
        over_labels=True,
    ),
}
"""Every sampler; one row each."""
