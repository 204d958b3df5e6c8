"""Trees of labels over sparse features: from the root down to the best leaves, and the labels of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from longtail.data.filters import apart
from longtail.data.sparse import CSR, gather, offsets_of, ranked, row_of_entry
from longtail.search.base import check_search
from longtail.topk import FloatArray, IntArray, TopK

Link = Callable[[FloatArray], FloatArray]  # <w, x> to a summand of a score
ROOT = 0
_PAIRS = 2**21  # of a text and a label that are scored at once, about
_WHOLE = 4096  # labels, of which fewer are all scored: a beam would save next to nothing


@dataclass(frozen=True)
class LabelTree:
    """M nodes, the first of which is the root, and L labels, each under a node without nodes below it.

    Attributes:
        parents: (M,) int64, the node above each; -1 for the root. A node stands behind the one above it.
        nodes: (M, V) the separators of the nodes; none for the root.
        leaves: (L,) int64, the node that each label is under; -1 for a label that is never ranked.
        labels: (L, V) the separators of the labels.
    """

    parents: IntArray
    nodes: CSR
    leaves: IntArray
    labels: CSR

    @cached_property
    def below(self) -> tuple[_Below, _Below]:
        """The nodes, and the labels, by what they are below."""
        return _Below(self.parents, self.nodes), _Below(self.leaves, self.labels)

    @cached_property
    def inner(self) -> IntArray:
        """Nodes that have nodes below them, ascending."""
        return np.unique(self.parents[1:])

    def above_labels(self) -> LabelTree:
        """The same without nodes that have none of the labels below them, as of a model with a part of its labels."""
        there, above = np.zeros(len(self.parents), bool), self.leaves[self.leaves >= 0]
        there[ROOT] = True
        while len(above):
            there[above] = True
            above = np.unique(self.parents[above])
            above = above[above >= 0]
        if there.all():
            return self
        at = np.append(np.cumsum(there) - 1, -1)  # -1 stays -1
        return LabelTree(at[self.parents[there]], self.nodes[there], at[self.leaves], self.labels)

    def best_leaves(self, x: CSR, beam: int, link: Link) -> tuple[IntArray, IntArray, FloatArray]:
        """The leaves that a beam search ends in: texts (E,), nodes (E,), and the scores of these (E,).

        Args:
            x: (n, V) features.
            beam: nodes of a text that are kept at each depth.
            link: makes a summand of a score.
        """
        texts, nodes, scores = np.arange(x.shape[0]), np.full(x.shape[0], ROOT), np.zeros(x.shape[0], np.float32)
        while (inner := np.isin(nodes, self.inner)).any():
            found = self.below[0].scored(x, texts[inner], nodes[inner])
            above = row_of_entry(found)
            texts, nodes, scores = (
                np.concatenate(parts)
                for parts in (
                    (texts[~inner], texts[inner][above]),
                    (nodes[~inner], found.indices.astype(np.int64)),
                    (scores[~inner], scores[inner][above] + link(found.data)),
                )
            )
            order = np.lexsort((nodes, -scores, texts))
            first = np.searchsorted(texts[order], texts[order])
            order = order[np.arange(len(order)) - first < beam]
            texts, nodes, scores = texts[order], nodes[order], scores[order]
        return texts, nodes, scores

    def scored(self, x: CSR, beam: int, link: Link) -> CSR:
        """(n, L) the scores of the labels of the leaves that a beam search ends in."""
        texts, nodes, scores = self.best_leaves(x, beam, link)
        found = self.below[1].scored(x, texts, nodes)
        ends = found.indptr[np.searchsorted(texts, np.arange(x.shape[0] + 1))]  # of each text, over all of its leaves
        values = np.repeat(scores, np.diff(found.indptr)) + link(found.data)
        return CSR((values, found.indices, ends), shape=(x.shape[0], found.shape[1]))


class LabelTrees:
    """Ranks labels by trees of them: an index whose queries are sparse features.

    A label's score is the product, over the nodes on its path and itself, of exp(-max(0, 1 - <w, x>)^2), and its mean
    over the trees: Parabel (Prabhu et al., 2018). Where there are no nodes, that is one versus all: the score is
    <w, x>.

    Args:
        trees: over the same labels.
        beam: nodes that are kept at each depth. At most 4,096 labels are all scored.
    """

    def __init__(self, trees: Sequence[LabelTree], beam: int) -> None:
        self.trees, self.beam = trees, beam
        self._link: Link = _margin if all(len(tree.parents) == 1 for tree in trees) else _log_probability

    def search(self, queries: Any, k: int, *, exclude: CSR | None = None) -> TopK:
        """The k best labels of each of (Q, V) sparse queries, without those of the (Q, L) pairs to exclude."""
        check_search(queries.shape, self.trees[0].labels.shape, k, exclude)
        step = max(1, _PAIRS // self._labels_a_text())
        found = [TopK.nothing(0, k)]
        for start in range(0, queries.shape[0], step):
            scores = self._scored(CSR(queries[start : start + step]))
            if exclude is not None:
                scores = apart(scores, CSR(exclude[start : start + step]))
            found.append(ranked(scores, k))
        return TopK.stacked(found)

    def leaves(self, x: CSR) -> IntArray:
        """(n, T) the best leaf of each tree for n texts."""
        found = np.zeros((x.shape[0], len(self.trees)), np.int64)
        for t, tree in enumerate(self.trees):
            texts, nodes, _ = tree.best_leaves(x, 1, self._link)
            found[texts, t] = nodes
        return found

    @cached_property
    def _searched(self) -> tuple[Sequence[LabelTree], int]:
        """The trees that are searched, and the beam: of few labels, all nodes that are above one of them."""
        if self.trees[0].labels.shape[0] > _WHOLE:
            return self.trees, self.beam
        trees = [tree.above_labels() for tree in self.trees]
        return trees, max(len(tree.parents) for tree in trees)

    def _scored(self, x: CSR) -> CSR:
        """(n, L) the scores of labels that are found."""
        trees, beam = self._searched
        parts = [tree.scored(x, beam, self._link) for tree in trees]
        if self._link is _margin:
            return parts[0]
        for part in parts:
            part.data = np.exp(part.data) / np.float32(len(parts))
        return CSR(sum(parts[1:], start=parts[0]))

    def _labels_a_text(self) -> int:
        """How many labels are scored for a text, at most."""
        trees, beam = self._searched
        sizes = [np.sort(np.bincount(tree.leaves[tree.leaves >= 0], minlength=1))[-beam:] for tree in trees]
        return max(1, int(sum(size.sum() for size in sizes)))


class _Below:
    """C things by the node that they are below: for a text at a node, one product scores all that are below it.

    The weights are stored by pairs of a node and a feature, as in PECOS (Etter et al., 2022): what a text scores at a
    node is a sum over its features of rows that hold these things alone.

    Args:
        above: (C,) int64, the node of each; -1 for none.
        weights: (C, V), each with a weight of the last feature, which every text has.
    """

    def __init__(self, above: IntArray, weights: CSR) -> None:
        rows = row_of_entry(weights)
        self._features = weights.shape[1]
        keys = above[rows] * self._features + weights.indices
        order = np.argsort(keys, kind="stable")
        order = order[np.searchsorted(keys[order], 0) :]
        self._keys, starts = np.unique(keys[order], return_index=True)
        of = (weights.data[order], rows[order].astype(np.int32), np.append(starts, len(order)).astype(np.int32))
        self._table = CSR(of, shape=(len(self._keys), weights.shape[0]))

    def scored(self, x: CSR, texts: IntArray, nodes: IntArray) -> CSR:
        """(E, C) <w, x> of what is below some nodes, by the features of a text each.

        Args:
            x: (n, V) features.
            texts: (E,) rows of these.
            nodes: (E,) a node for each.
        """
        positions, counts = gather(x.indptr, texts)
        keys = np.repeat(nodes * self._features, counts) + x.indices[positions]
        at = np.minimum(np.searchsorted(self._keys, keys), max(0, len(self._keys) - 1))
        there = self._keys[at] == keys if len(self._keys) else np.zeros(len(keys), bool)
        ends = offsets_of(there)[offsets_of(counts)]
        shape = (len(texts), len(self._keys))
        return CSR(CSR((x.data[positions][there], at[there], ends), shape=shape) @ self._table)


def _margin(margins: FloatArray) -> FloatArray:
    return margins


def _log_probability(margins: FloatArray) -> FloatArray:
    found: FloatArray = -np.square(np.maximum(0, 1 - margins))
    return found
