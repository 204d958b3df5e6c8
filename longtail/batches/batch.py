"""What one training step sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from longtail.data.sparse import CSR, gather, values_at
from longtail.data.split import Split
from longtail.text.tokens import Tokens
from longtail.topk import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class AnchorTargets:
    """R documents or labels of a batch that have a neighbour among A anchors.

    Attributes:
        at: (R,) int64 ascending, their places among the documents, or in the pool.
        targets: (R, A) float32, 1 for every edge to an anchor, drawn or not.
        mask: (R, A) bool, False where an edge counts neither for nor against.
        share: of the documents, or of their labels, that have a neighbour at all, in [0, 1].
    """

    at: Tensor
    targets: Tensor
    mask: Tensor
    share: float

    def to(self, device: torch.device) -> AnchorTargets:
        """The same on a device."""
        return AnchorTargets(self.at.to(device), self.targets.to(device), self.mask.to(device), self.share)


@dataclass(frozen=True, slots=True)
class Anchors:
    """The A nodes of one metadata graph that a batch meets; both sides share them, so that each is encoded once.

    Attributes:
        node_ids: (A,) int64 in [0, M), ascending, each once.
        nodes: their tokens; of a part of a batch, those of a part of them.
        sides: who is linked to them, under ``documents`` and ``labels``, or one of the two.
    """

    node_ids: Tensor
    nodes: Tokens
    sides: Mapping[str, AnchorTargets]

    def to(self, device: torch.device) -> Anchors:
        """The same on a device."""
        sides = {side: linked.to(device) for side, linked in self.sides.items()}
        return Anchors(self.node_ids.to(device), self.nodes.to(device), sides)


@dataclass(frozen=True, slots=True)
class Links:
    """The nodes that enrich the documents of a batch, and its labels, each once, and which of these has which.

    Attributes:
        node_ids: (A,) int64 in [0, M), ascending, each once.
        places: (B, K) int64 in [0, A): the nodes of each document, and -1 behind the last of them.
        nodes: their tokens, in a part of a batch those of a part of them; None where nodes have vectors of their own.
        chances: (B, K) float32, how probable each link is; None where all are certain.
        of_labels: (P, K) int64 in [0, A), as places, of the labels of the pool; None where labels are not enriched.
    """

    node_ids: Tensor
    places: Tensor
    nodes: Tokens | None
    chances: Tensor | None = None
    of_labels: Tensor | None = None

    def to(self, device: torch.device) -> Links:
        """The same on a device."""
        nodes = None if self.nodes is None else self.nodes.to(device)
        chances = None if self.chances is None else self.chances.to(device)
        of_labels = None if self.of_labels is None else self.of_labels.to(device)
        return Links(self.node_ids.to(device), self.places.to(device), nodes, chances, of_labels)


@dataclass(frozen=True, slots=True)
class Batch:
    """B documents and the pool of P labels that they are scored against, or a part of such a batch.

    A part has some of the documents, and the tokens of some of the labels and nodes, which others encode for it
    (`longtail.shards.shard.everyones`); the ids are those of the whole pool.

    Attributes:
        rows: (B,) int64 in [0, N), each once.
        documents: the tokens of those documents.
        label_ids: (P,) int64 in [0, L), ascending, each once.
        labels: the tokens of those labels, each encoded once however many rows share it; None where labels have
            vectors of their own.
        targets: (B, P) float32 in [0, 1]: every true pair inside the pool, sampled or not.
        mask: (B, P) bool, False on filtered pairs: no reward and no penalty.
        places: (B, S) int64 in [0, P): the labels of the pool that each document is scored against alone, and -1 where
            there are fewer; targets and mask, False on these, are then (B, S). None where all share the whole pool.
        graphs: a pool of nodes for each metadata graph, by its name; empty where no graph is used.
        links: the nodes that documents are enriched with; None where they are not.
        positives: true labels of a document in the pool, a mean over the documents of the whole batch; where each has a
            shortlist, over those of the part.
    """

    rows: Tensor
    documents: Tokens
    label_ids: Tensor
    labels: Tokens | None
    targets: Tensor
    mask: Tensor
    places: Tensor | None = None
    graphs: Mapping[str, Anchors] = field(default_factory=dict)
    links: Links | None = None
    positives: float = 0.0

    @property
    def nodes(self) -> list[Tokens]:
        """The tokens of each graph's anchors: what is encoded besides documents and labels."""
        return [anchors.nodes for anchors in self.graphs.values()]

    def shared_ids(self) -> list[Tensor]:
        """The ids that all parts of a batch have: of labels and nodes."""
        links = [] if self.links is None else [self.links.node_ids]
        return [self.label_ids, *(anchors.node_ids for anchors in self.graphs.values()), *links]

    def wholes(self) -> dict[int, int]:
        """How many labels and nodes the whole batch has, by the `id` of the tokens of those that this part has."""
        found = {id(self.labels): len(self.label_ids)}
        found |= {id(anchors.nodes): len(anchors.node_ids) for anchors in self.graphs.values()}
        return found if self.links is None else found | {id(self.links.nodes): len(self.links.node_ids)}

    def to(self, device: torch.device) -> Batch:
        """The same batch on a device."""
        return Batch(
            self.rows.to(device),
            self.documents.to(device),
            self.label_ids.to(device),
            None if self.labels is None else self.labels.to(device),
            self.targets.to(device),
            self.mask.to(device),
            None if self.places is None else self.places.to(device),
            {name: anchors.to(device) for name, anchors in self.graphs.items()},
            None if self.links is None else self.links.to(device),
            self.positives,
        )


def positives_in_pool(matrix: CSR, rows: IntArray, label_ids: IntArray) -> float:
    """How many entries of a row of a matrix are in a pool, a mean over some of its rows.

    Args:
        matrix: (N, L).
        rows: (B,) int64 in [0, N).
        label_ids: (P,) int64 in [0, L), ascending, each once.
    """
    labels = matrix.indices[gather(matrix.indptr, rows)[0]]
    at = np.searchsorted(label_ids, labels)
    inside = np.append(label_ids, -1)[at] == labels
    return float(inside.sum() / max(len(rows), 1))


def pairs_in_pool(
    split: Split, rows: IntArray, label_ids: IntArray, places: IntArray | None = None
) -> tuple[FloatArray, BoolArray]:
    """What is known of some documents and labels.

    Args:
        split: N documents and their labels out of L.
        rows: (B,) int64 in [0, N).
        label_ids: (P,) int64 in [0, L), ascending, each once.
        places: (B, S) int64 in [-1, P), those of the labels that each document meets; all of them if left out.

    Returns:
        targets: (B, P), or (B, S), float32, 0 where a pair is not true.
        mask: of the same shape, False on filtered pairs, and where there is no label.
    """
    if places is not None:
        ids = np.where(places >= 0, label_ids[places], -1)
        mask = places >= 0
        if split.filtered is not None:
            mask &= values_at(split.filtered, rows, ids) == 0
        return values_at(split.targets, rows, ids), mask
    mask = np.ones((len(rows), len(label_ids)), bool)
    if split.filtered is not None:
        mask = entries_in_pool(split.filtered, rows, label_ids) == 0
    return entries_in_pool(split.targets, rows, label_ids), mask


def pairs_on_device(
    split: Split, rows: Tensor, label_ids: Tensor, places: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """What `pairs_in_pool` says, as tensors beside the rows: for an objective that chooses itself what rows meet."""
    own = None if places is None else places.cpu().numpy()
    targets, mask = pairs_in_pool(split, rows.cpu().numpy(), label_ids.cpu().numpy(), own)
    return torch.from_numpy(targets).to(rows.device), torch.from_numpy(mask).to(rows.device)


def entries_in_pool(matrix: CSR, rows: IntArray, label_ids: IntArray) -> FloatArray:
    """The dense (B, P) part of a matrix: some of its rows and some of its columns.

    Args:
        matrix: (N, L).
        rows: (B,) int64 in [0, N).
        label_ids: (P,) int64 in [0, L), ascending, each once.
    """
    dense = np.zeros((len(rows), len(label_ids)), np.float32)
    if not len(label_ids):
        return dense
    positions, counts = gather(matrix.indptr, rows)
    labels = matrix.indices[positions]
    at = np.minimum(np.searchsorted(label_ids, labels), len(label_ids) - 1)
    inside = label_ids[at] == labels
    dense[np.repeat(np.arange(len(rows)), counts)[inside], at[inside]] = matrix.data[positions[inside]]
    return dense
