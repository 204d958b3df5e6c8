"""Which nodes of a metadata graph a batch meets: neighbours of its documents and labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch

from longtail.batches.batch import Anchors, AnchorTargets, entries_in_pool
from longtail.batches.node_texts import NodeTexts
from longtail.data.sparse import CSR, row_of_entry, take_entries
from longtail.shards.shard import WHOLE, Part
from longtail.text.tokens import Tokens
from longtail.topk import BoolArray, FloatArray, IntArray

_EDGES_AT_ONCE = 65_536


class Neighbours:
    """Draws the anchors of a batch from one graph: one neighbour of each document, and one of each of its labels.

    In proportion to the weights of the edges. The anchors of one row are negatives for the others, except where they
    are neighbours of those too, drawn or not. An edge that was pruned, one that is in ``known`` only, and a node whose
    text the row is known to go with (``texts``) count neither for nor against. Labels of the pool that no document of
    the batch has draw none.

    Source: RAMEN (Mittal et al., 2025), section 3.1, which takes every node without an edge for a negative.

    Args:
        edges: (N, M) of the ``documents``, (L, M) of the ``labels``, or one of them: what is drawn, by weights above 0.
        known: of the same sides and shapes: what is never a negative, on top of the edges.
        nodes: the tokens of nodes.
        texts: of the nodes, and those that rows go with; if left out, texts are not compared.
        share: in (0, 1], of the documents and labels that draw a neighbour in a batch; fewer cost less.
        walk: makes edges anew of what a pruning leaves of ``known``; if left out, the edges themselves are pruned.
    """

    def __init__(
        self,
        edges: Mapping[str, CSR],
        known: Mapping[str, CSR],
        nodes: Callable[[IntArray], Tokens],
        *,
        texts: NodeTexts | None = None,
        share: float = 1.0,
        walk: Callable[[CSR], CSR] | None = None,
    ) -> None:
        self.edges, self._known, self._nodes, self._texts = dict(edges), known, nodes, texts
        self._share, self._walk = share, walk
        self._left = {side: np.ones(known[side].nnz, bool) for side in edges if walk is not None}
        self._kept = {side: np.ones(matrix.nnz, bool) for side, matrix in edges.items()}
        self._drawn = {side: _Draws(matrix) for side, matrix in edges.items()}

    def __call__(
        self,
        rows: IntArray,
        label_ids: IntArray,
        targets: FloatArray,
        generator: np.random.Generator,
        part: Part = WHOLE,
    ) -> Anchors:
        """The anchors of a batch, or of a part of it.

        Args:
            rows: (B,) documents.
            label_ids: (P,) pool.
            targets: (B, P) true pairs.
            generator: draws the neighbours.
            part: of the documents, of the labels, and of the nodes that are encoded.
        """
        wanted = {"documents": (rows, np.arange(len(rows))), "labels": (label_ids, np.flatnonzero(targets.any(0)))}
        places: dict[str, IntArray] = {}
        shares: dict[str, float] = {}
        drawn = [np.zeros(0, np.int64)]
        for side, draws in self._drawn.items():
            ids, some = wanted[side]
            linked = draws.any(ids[some])
            shares[side] = float(linked.mean()) if len(some) else 0.0
            places[side] = some[linked & (generator.random(len(some)) < self._share)]
            drawn.append(draws(ids[places[side]], generator))
        node_ids = np.unique(np.concatenate(drawn))  # (A,)
        sides: dict[str, AnchorTargets] = {}
        for side, at in places.items():
            ids = wanted[side][0]
            own = part.of(len(rows))
            mine = at[part.of(len(at))] if side == "labels" else at[(own.start <= at) & (at < own.stop)]
            # A term is a mean over those that draw here, and counts as the documents that are here.
            counts = len(mine) * len(rows) / max(1, len(at) * (own.stop - own.start))
            found = self._linked(side, ids, mine, node_ids, shares[side] * (counts if len(at) else 1))
            sides[side] = found if side == "labels" else replace(found, at=found.at - own.start)
        return Anchors(torch.from_numpy(node_ids), self._nodes(node_ids[part.of(len(node_ids))]), sides)

    def _linked(self, side: str, ids: IntArray, at: IntArray, node_ids: IntArray, share: float) -> AnchorTargets:
        true = entries_in_pool(self._drawn[side].edges, ids[at], node_ids) > 0  # (R, A)
        unknown = np.zeros_like(true)
        for matrix in (self.edges[side], self._known[side]):
            unknown |= entries_in_pool(matrix, ids[at], node_ids) > 0
        if self._texts is not None:
            unknown |= self._texts.shared(side, ids[at], node_ids)
        return AnchorTargets(
            torch.from_numpy(at), torch.from_numpy(true.astype(np.float32)), torch.from_numpy(true | ~unknown), share
        )

    def prune(self, vectors: Mapping[str, FloatArray], nodes: FloatArray, *, above: float = 0.0) -> dict[str, int]:
        """Keep the edges whose two ends are similar under the current encoder; pruned edges may come back.

        Source: RAMEN, appendix A, which prunes what the walk found. A walk over the edges that are left, of which more
        are right, goes astray less often (docs/explanation/methods/ramen.md).

        Args:
            vectors: (N, D) of the ``documents`` and (L, D) of the ``labels``, unit rows; of the sides that there are.
            nodes: (M, D) unit rows.
            above: keep edges of a cosine above this.

        Returns:
            How many edges are left, by side.
        """
        for side in self.edges:
            if side in self._left:
                self._walk_again(side, similarities(self._known[side], vectors[side], nodes) > above)
            self._keep(side, similarities(self.edges[side], vectors[side], nodes) > above)
        return self.counts()

    def counts(self) -> dict[str, int]:
        """The edges that are drawn from, by side."""
        return {side: int(kept.sum()) for side, kept in self._kept.items()}

    def _walk_again(self, side: str, left: BoolArray) -> None:
        assert self._walk is not None
        self._left[side] = left
        self.edges[side] = self._walk(take_entries(self._known[side], left))

    def _keep(self, side: str, kept: BoolArray) -> None:
        self._kept[side] = kept
        self._drawn[side] = _Draws(take_entries(self.edges[side], kept))

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Which edges are kept, and what they were made of, for a checkpoint."""
        left = {f"{side}.left": kept for side, kept in self._left.items()}
        return {name: torch.from_numpy(kept) for name, kept in (self._kept | left).items()}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Take the kept edges back from a checkpoint."""
        for side in self.edges:
            if side in self._left:
                self._walk_again(side, state[f"{side}.left"].numpy())
            self._keep(side, state[side].numpy())


class _Draws:
    """Draws one edge of a row, in proportion to the weights."""

    def __init__(self, edges: CSR) -> None:
        self.edges = edges
        self._ends = np.cumsum(edges.data, dtype=np.float64)  # (E,)

    def any(self, rows: IntArray) -> BoolArray:
        """Which rows have an edge."""
        return np.asarray(self.edges.indptr[rows + 1] > self.edges.indptr[rows])

    def __call__(self, rows: IntArray, generator: np.random.Generator) -> IntArray:
        """A node for each row; every row has one."""
        first, last = self.edges.indptr[rows], self.edges.indptr[rows + 1] - 1
        low = self._ends[first] - self.edges.data[first]
        points = low + generator.random(len(rows)) * (self._ends[last] - low)
        at = np.clip(np.searchsorted(self._ends, points, side="right"), first, last)
        return np.asarray(self.edges.indices[at], np.int64)


def similarities(edges: CSR, rows: FloatArray, nodes: FloatArray) -> FloatArray:
    """(nnz,) the inner product of the two ends of each edge.

    Args:
        edges: (R, M).
        rows: (R, D).
        nodes: (M, D).
    """
    found, row = np.empty(edges.nnz, np.float32), row_of_entry(edges)
    for start in range(0, edges.nnz, _EDGES_AT_ONCE):
        part = slice(start, start + _EDGES_AT_ONCE)
        found[part] = np.einsum("ed,ed->e", rows[row[part]], nodes[edges.indices[part]])
    return found
