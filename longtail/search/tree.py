"""Search down a tree of labels: a few nodes of each level are kept, and what stands below them is looked at next.

A label is worth the product of probabilities along its best path: that of each cluster on the way, the weight of each
link, and its own. That is no inner product. LightXML (Jiang et al., 2021), CascadeXML (Kharbanda et al., 2022),
AttentionXML (You et al., 2019) and ELIAS (Gupta et al., 2022) rank so; they differ in the levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.special import expit, softmax

from longtail.arrays import map_arrays, save_model_arrays
from longtail.data.filters import apart
from longtail.data.sparse import CSR, csr, gather, ranked, row_of_entry
from longtail.errors import BadInput
from longtail.files import COPY_AGAIN
from longtail.search.attention import Attention
from longtail.search.base import check_search
from longtail.topk import AnyArray, FloatArray, IntArray, TopK

_BLOCK = 256  # queries at a time
_PAIRS = 2**16  # of a query and a node, that are scored at a time
_FILE = "tree.safetensors"
_ARRAYS = ("vectors", "links", "offsets", "weights")  # of each level
# (levels + 1, 3): of each, where it starts, its beam and its scale; then where labels start, and widths of attention
_SETTINGS = "settings"


@dataclass(frozen=True, slots=True)
class Level:
    """K nodes, and what stands below them.

    Attributes:
        vectors: (K, W) float32, the last number of each its bias.
        start: the first of the W - 1 columns of a text's vector that they read; the bias meets the 1 at its end.
        children: (K, M) CSR, the nodes of the next level, or the labels, that are linked to each; the weight of a link
            is in [0, 1], and 1 in a tree.
        beam: nodes that are kept.
        scale: 0 where the nodes are asked one by one, with the logistic function of their scores; else the
            probabilities are min(1, scale * softmax), as if about so many of them were right (ELIAS).
    """

    vectors: FloatArray
    start: int
    children: CSR
    beam: int
    scale: float = 0.0


@dataclass(frozen=True, slots=True)
class Tree:
    """The levels above L labels, from the top.

    Attributes:
        levels: at least one; the children of the last are the labels.
        start: the first of the columns of a text's vector that the vectors of labels read.
        attention: how nodes and labels score a text; None where that is by inner products with the columns they read.
    """

    levels: tuple[Level, ...]
    start: int
    attention: Attention | None = None

    @property
    def links(self) -> CSR:
        """(K, L) the labels below the nodes of the last level."""
        return self.levels[-1].children

    def _over(self, links: CSR) -> Tree:
        return replace(self, levels=(*self.levels[:-1], replace(self.levels[-1], children=links)))

    def __getitem__(self, rows: IntArray | slice) -> Tree:
        """The tree over some labels."""
        return self._over(CSR(self.links[:, rows]))

    def followed_by(self, other: Tree) -> Tree:
        """The tree over its labels, and then those of another with the same clusters."""
        return self._over(CSR(sparse.hstack([self.links, other.links], format="csr")))

    def by_label(self) -> list[AnyArray]:
        """The (p, 2) float64 links of each label: the node, and the weight."""
        columns = self.links.tocsc()
        pairs = np.stack([columns.indices.astype(np.float64), columns.data], axis=1)
        return np.split(pairs, columns.indptr[1:-1])

    def of_parts(self, parts: Sequence[AnyArray]) -> Tree:
        """The tree over m other labels, by what `by_label` says of each."""
        pairs, owners = np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(one) for one in parts])
        weights = pairs[:, 1].astype(np.float32)
        return self._over(csr(pairs[:, 0].astype(np.int64), owners, (self.links.shape[0], len(parts)), weights))

    def labelled(self) -> Tree:
        """The same: its clusters are those of the model, whichever labels there are."""
        return self

    def with_new(self, texts: FloatArray, owners: IntArray) -> Tree:
        """The tree over m new labels, each below the node that is best for its texts.

        Args:
            texts: (n, D + 1), at least one of each label.
            owners: (n,) int64 in [0, m), whose each is.
        """
        top = self.nodes(texts)
        kept = top.ids >= 0
        rows = np.broadcast_to(owners[:, None], kept.shape)[kept]
        m = int(owners.max(initial=-1)) + 1
        best = ranked(csr(rows, top.ids[kept], (m, self.links.shape[0]), top.scores[kept]), 1).ids[:, 0]
        return self._over(csr(best, np.arange(m), (self.links.shape[0], m)))

    def nodes(self, queries: FloatArray) -> TopK:
        """The nodes of the last level that are kept for (Q, D + 1) texts, with the probabilities of their paths."""
        first, *others = self.levels
        shape = len(queries), len(first.vectors)
        rows, columns = np.indices(shape).reshape(2, -1)
        every = csr(rows, columns, shape)
        if self.attention is None:
            scores = seen_by(queries, first.start, first.vectors.shape[1]) @ first.vectors.T
        else:
            scores = self.attention.scores(every, queries, first.vectors).reshape(shape)
        odds = np.minimum(softmax(scores, axis=1) * first.scale, 1) if first.scale else expit(scores)
        top = ranked(CSR((odds.ravel(), every.indices, every.indptr), shape=shape), first.beam)
        for above, level in zip(self.levels, others, strict=False):
            top = ranked(self.worth(below(top, above.children), queries, level.vectors, level.start), level.beam)
        return top

    def worth(self, reached: CSR, queries: FloatArray, vectors: FloatArray, start: int) -> CSR:
        """What paths (Q, M) to nodes or labels are worth: times the probability at their end.

        Args:
            reached: those that there are.
            queries: (Q, D + 1) texts.
            vectors: (M, W) of the nodes, the last number of each its bias.
            start: the first of the columns of a text that they read.
        """
        if self.attention is None:
            scores = _inner_products(reached, seen_by(queries, start, vectors.shape[1]), vectors)
        else:
            scores = self.attention.scores(reached, queries, vectors)
        return CSR((reached.data * expit(scores), reached.indices, reached.indptr), shape=reached.shape)

    def save(self, folder: Path) -> None:
        """Write it into the folder of a model."""
        widths = (0, 0) if self.attention is None else (self.attention.keys, self.attention.values)
        settings = np.array([*((one.start, one.beam, one.scale) for one in self.levels), (self.start, *widths)])
        arrays: dict[str, AnyArray] = {_SETTINGS: settings}
        for i, level in enumerate(self.levels):
            links = level.children
            parts = (level.vectors, links.indices.astype(np.int64), links.indptr.astype(np.int64), links.data)
            arrays |= {f"{name}-{i}": array for name, array in zip(_ARRAYS, parts, strict=True)}
        save_model_arrays(folder / _FILE, arrays)

    @classmethod
    def in_folder(cls, folder: Path, labels: int) -> Tree | None:
        """What `save` wrote, memory-mapped; None where the folder has none.

        Raises:
            BadInput: it is no tree over so many labels.
        """
        path = folder / _FILE
        if not path.is_file():
            return None
        found = map_arrays(path)
        *settings, (of_labels, keys, values) = found.get(_SETTINGS, np.zeros((1, 3))).tolist()
        names = {f"{name}-{i}" for name in _ARRAYS for i in range(len(settings))} | {_SETTINGS}
        if not settings or found.keys() != names:
            problem = f"expected the levels of a tree, found {', '.join(found) or 'nothing'}"
            raise BadInput(path, problem, remedy=COPY_AGAIN)
        levels: list[Level] = []
        for i, (start, beam, scale) in reversed([*enumerate(settings)]):
            vectors, links, offsets, weights = (found[f"{name}-{i}"] for name in _ARRAYS)
            count = len(levels[0].vectors) if levels else labels
            if len(links) and not 0 <= links.min() <= links.max() < count:
                problem = f"expected nodes below {count}, found {links.min()} to {links.max()}"
                raise BadInput(path, problem, remedy=COPY_AGAIN)
            children = CSR((weights, links, offsets), shape=(len(vectors), count))
            levels.insert(0, Level(vectors, int(start), children, int(beam), scale))
        attention = Attention(int(keys), int(values)) if keys else None
        return cls(tuple(levels), int(of_labels), attention)


class TreeSearch:
    """Ranks the labels below the best nodes of a tree by the product of probabilities; on the CPU.

    Labels below no node that was kept are not ranked: a ranking may have fewer than k.

    Args:
        tree: the levels above L labels.
        vectors: (L, W) those of the labels, the last number of each its bias; memory-mapped or not.
        width: of a text's vector, D + 1.
    """

    def __init__(self, tree: Tree, vectors: FloatArray, width: int) -> None:
        self._tree, self._vectors, self._width = tree, vectors, width

    def search(self, queries: FloatArray, k: int, *, exclude: CSR | None = None) -> TopK:
        """The k best labels of each of (Q, D + 1) queries, without those of the (Q, L) pairs to exclude."""
        check_search(queries.shape, (len(self._vectors), self._width), k, exclude)
        found = [TopK.nothing(0, k)]
        for at in range(0, len(queries), _BLOCK):
            block = queries[at : at + _BLOCK]
            reached = below(self._tree.nodes(block), self._tree.links)
            if exclude is not None:
                reached = apart(reached, exclude[at : at + _BLOCK])
            found.append(ranked(self._tree.worth(reached, block, self._vectors, self._tree.start), k))
        return TopK.stacked(found)


def seen_by(queries: FloatArray, start: int, width: int) -> FloatArray:
    """Columns of (Q, D + 1) texts: ``width`` - 1 of them, and the 1 at the end."""
    if start + width == queries.shape[1]:
        return queries[:, start:]
    return np.concatenate([queries[:, start : start + width - 1], queries[:, -1:]], axis=1)


def below(top: TopK, children: CSR) -> CSR:
    """What is linked to some nodes of each query: (Q, M), the best of score * weight over the links to each.

    Args:
        top: (Q, b) nodes out of K, with their probabilities.
        children: (K, M) weights.
    """
    kept = top.ids >= 0
    positions, counts = gather(children.indptr, top.ids[kept])
    rows, scores = np.repeat(kept.nonzero()[0], counts), np.repeat(top.scores[kept], counts)
    values = scores * children.data[positions]
    ids = children.indices[positions].astype(np.int64)
    return csr(rows, ids, (len(top), children.shape[1]), values.astype(np.float32))


def _inner_products(pairs: CSR, queries: FloatArray, vectors: FloatArray) -> FloatArray:
    """Those of the pairs (Q, M) that are stored, (nnz,), of (Q, W) queries and (M, W) vectors."""
    of, scores = row_of_entry(pairs), np.empty(pairs.nnz, np.float32)
    for start in range(0, pairs.nnz, _PAIRS):
        some = slice(start, start + _PAIRS)
        scores[some] = np.einsum("ij,ij->i", queries[of[some]], vectors[pairs.indices[some]])
    return scores
