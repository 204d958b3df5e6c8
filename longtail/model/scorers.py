"""A score kind as a value: what it reads of an encoded text, and how it ranks labels by that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch

from longtail.data.sparse import CSR
from longtail.errors import BadInput
from longtail.model.reranking import Reranking
from longtail.search.base import Index
from longtail.search.exact import Exact
from longtail.search.fusion import Fusion
from longtail.search.narrow import Narrowed, Narrowing
from longtail.search.product import Product
from longtail.search.remembering import SHORTLIST, Remembering
from longtail.search.tree import Tree, TreeSearch
from longtail.topk import BoolArray, FloatArray, IntArray, TopK, best_of

Columns: TypeAlias = "slice | IntArray"
Rows: TypeAlias = Callable[["IntArray | slice"], FloatArray]  # ids of labels to (n, W) float32
Encoded: TypeAlias = Any
"""n encoded texts: a float32 array of n rows, or, of a model without an encoder, a CSR matrix; rows in brackets."""
ALL = slice(None)
MANY = 4096  # texts, of which more are very many: what is done once for them is next to nothing
ROWS = 2**17  # of a table, that are made at a time for so many


@dataclass(frozen=True, slots=True)
class Scorer:
    """One way in which a model scores its L labels for a text.

    Attributes:
        name: what the command line and JSON call it.
        columns: of an encoded text, W of them, that it reads.
        index: ranks the labels for these columns. A new kind of score is one more class that can.
        rows: reads rows of its (L, W) table, if the score is an inner product of the columns and a label's row; such
            scores can be mixed by a fusion, and searched by an approximate index. None if it is another score.
        memory: what is added to the inner product of the labels that it ranks first, if there is something.
        reranking: what ranks the first labels anew, if there is something.
    """

    name: str
    columns: Columns
    index: Index
    rows: Rows | None = None
    memory: Remembering | None = None
    reranking: Reranking | None = None

    def table(self, ids: IntArray | slice = ALL) -> FloatArray:
        """Its (L, W) table, or some rows of it.

        Raises:
            BadInput: the score is no inner product.
        """
        if self.rows is None:
            problem = f"expected an inner product, found {self.name}, which has no table"
            raise BadInput("kind", problem, remedy="choose another score kind")
        return self.rows(ids)

    def queries(self, vectors: Encoded) -> Encoded:
        """The (n, W) columns that it reads of n encoded texts."""
        return vectors[:, self.columns]

    def among(self, rows: IntArray, device: torch.device) -> Scorer:
        """The scorer of the labels in some rows alone, in their order, which are scored as they are among all.

        Raises:
            BadInput: the score is no inner product.
        """
        some = inner_product(self.name, self.columns, lambda ids: self.table(rows[ids]), device)
        return replace(
            some,
            memory=self.memory and self.memory.among(rows),
            reranking=self.reranking and self.reranking.among(rows),
        )

    def search(self, vectors: Encoded, k: int, *, exclude: CSR | None = None) -> TopK:
        """The k best labels of each of n encoded texts, without those of the (n, L) pairs to exclude."""
        if self.reranking is None:
            return self.found(vectors, k, exclude)
        return self.reranking(vectors, self.found(vectors, max(k, self.reranking.depth), exclude), k)

    def found(self, vectors: Encoded, k: int, exclude: CSR | None = None) -> TopK:
        """What `search` gives before any label is ranked anew."""
        queries = self.queries(vectors)
        if self.memory is None:
            return self.index.search(queries, k, exclude=exclude)
        said = self.memory.says_of(vectors)
        if not said.all():
            return self._found_apart(vectors, k, said, exclude)
        top = self.index.search(queries, max(k, SHORTLIST), exclude=exclude)

        def inner(texts: IntArray, labels: IntArray) -> FloatArray:
            products: FloatArray = np.einsum("ij,ij->i", queries[texts], self.table(labels))
            return products

        return self.memory.rescored(vectors, top, inner, k, exclude)

    def _found_apart(self, vectors: Encoded, k: int, said: BoolArray, exclude: CSR | None) -> TopK:
        """What is found where the memory says something of some of the texts alone."""
        tops, order = [], []
        for one, rows in ((replace(self, memory=None), np.flatnonzero(~said)), (self, np.flatnonzero(said))):
            tops.append(one.found(vectors[rows], k, None if exclude is None else CSR(exclude[rows])))
            order.append(rows)
        return TopK.stacked(tops).take(np.argsort(np.concatenate(order)))


class LazyExact:
    """Exact search over a table that is made when it is first asked, and kept.

    Whoever ranks very many texts may do it once, as an evaluation does. So the first such search of a large table makes
    some of its rows at a time, and lets them go; the second one keeps them.

    Args:
        rows: reads the table.
        device: where the search runs.
    """

    def __init__(self, rows: Rows, device: torch.device) -> None:
        self._rows, self._device = rows, device
        self._made: Exact | None = None
        self._passed = False

    def search(self, queries: FloatArray, k: int, *, exclude: CSR | None = None) -> TopK:
        """The k best labels of each of (Q, W) queries, without those of the (Q, L) pairs to exclude."""
        if self._made is None:
            in_passing = len(queries) > MANY and not self._passed and self._device.type == "cpu"
            rows = self._rows(slice(0, ROWS) if in_passing else ALL)
            if in_passing and len(rows) == ROWS:
                self._passed = True
                return self._in_passing(rows, queries, k, exclude)
            self._made = Exact(rows, device=self._device)
        return self._made.search(queries, k, exclude=exclude)

    def _in_passing(self, rows: FloatArray, queries: FloatArray, k: int, exclude: CSR | None) -> TopK:
        """The same, with some rows at a time, of which the first are given."""
        best, start = TopK.nothing(len(queries)), 0
        while len(rows):
            hidden = None if exclude is None else exclude[:, start : start + len(rows)]
            top = Exact(rows, device=self._device).search(queries, k, exclude=hidden)
            best, start = best_of([(0, best), (start, top)], k), start + len(rows)
            del rows  # before others take their place
            rows = self._rows(slice(start, start + ROWS))
        return best

    def rows(self, ids: IntArray | slice) -> FloatArray:
        """Rows of the table."""
        return self._rows(ids) if self._made is None else self._made.table[ids].cpu().numpy()


def inner_product(name: str, columns: Columns, rows: Rows, device: torch.device) -> Scorer:
    """The scorer of a table: a label's score is the inner product of its row and the columns of a text."""
    index = LazyExact(rows, device)
    return Scorer(name, columns, index, index.rows)


def cosine_sum(name: str, columns: Columns, z: FloatArray, w: FloatArray, device: torch.device) -> Scorer:
    """The sum of two cosines: of one half of the columns and z (L, D), and of the other and w (L, D or more)."""

    def rows(ids: IntArray | slice) -> FloatArray:
        others = w[ids, : z.shape[1]]
        lengths = np.maximum(np.linalg.norm(others, axis=1, keepdims=True), 1e-12)
        return np.concatenate([z[ids], others / lengths], axis=1)

    return inner_product(name, columns, rows, device)


def product(name: str, one: Scorer, z: FloatArray) -> Scorer:
    """The product of the score of ``one`` and the inner product of the same columns and z (L, D)."""
    return Scorer(name, one.columns, Product(one.index, z))


def below_tree(name: str, tree: Tree, w: FloatArray, width: int) -> Scorer:
    """The product of the probability of a label, by its vector in w (L, W), and that of the best path to it in a tree.

    Args:
        name: of the kind.
        tree: above the labels.
        w: vectors of labels, whose inner products are logits.
        width: of an encoded text, with the 1 at its end.
    """
    return Scorer(name, ALL, TreeSearch(tree, w, width))


def fused(
    fusion: Fusion, mixed: Sequence[Scorer], width: int, device: torch.device, narrow: Narrowing | None = None
) -> Scorer:
    """The scorer of a fusion, which is an inner product, too.

    Args:
        fusion: of the labels of the scorers.
        mixed: what it mixes, inner products all of them.
        width: of an encoded text, before its last number, which is 1.
        device: where the search runs.
        narrow: by which labels are looked for, if there is one.
    """

    def rows(ids: IntArray | slice) -> FloatArray:
        parts = [(scorer.table(ids), scorer.columns) for scorer in mixed]
        return Fusion(fusion.weights, fusion.frequency[ids]).table(parts, width)

    columns = slice(0, width + 1)
    if narrow is not None:
        return Scorer("fused", columns, Narrowed(rows, narrow, device), rows)
    return inner_product("fused", columns, rows, device)


def remembered(linear: Scorer, memory: Remembering) -> Scorer:
    """The scorer of an inner product and a memory beside it."""
    return replace(linear, name="memory", memory=memory)
