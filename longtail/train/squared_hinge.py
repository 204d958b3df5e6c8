"""Separators by the squared hinge over sparse features: many labels at a time, each over the documents that matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from longtail.data.sparse import CSR, csr, row_of_entry, stacked, take_entries
from longtail.topk import AnyArray, BoolArray, FloatArray, IntArray

_FEW = 2048  # documents, of which the inner products of all pairs are held, for all labels
_VERY_FEW = 512  # documents of one label, of which they are
_MORE, _ROUNDS = 64, 8  # wrong documents that a label is told from at first; twice as many in each further round
_LEFT_OUT = 0.02  # within the margin, by which a wrong document that is left out would change next to nothing
_SCORED, _HELD = 2**23, 2**22  # pairs of a label and a document, and of two documents of a label, that are held at once
_NEWTON, _HALVINGS, _STEPS, _TOLERANCE, _SETTLED = 30, 10, 60, 1e-3, 1e-4

Product = Callable[[FloatArray], FloatArray]  # (n, c) to (n, c): the inner products of n documents, times that


class Separators:
    """Linear separators: w of a label minimises |w|^2 / 2 + C * sum over documents i of max(0, 1 - y_i <w, x_i>)^2.

    This is the L2-regularised squared hinge of LIBLINEAR (Fan et al., 2008). By the representer theorem w = sum over i
    of b_i x_i, where b_i is 0 for each document beyond its margin. So Newton's method finds b on the documents within
    it, which are few (Chapelle, 2007, section 3): each step by conjugate gradients, for a block of labels at once.

    Where there are many documents, a label is told from the wrong ones that are most like its own at first. Those that
    its separator then leaves within the margin are added, twice as many each time, until there are none. Those that
    share no word with it are in the sum as one without words, of which the bias is the score.

    Args:
        x: (N, V) features, the last of which is 1 for all.
        cost: C.
        least_weight: weights that are smaller are left out, but for that of the last feature.
    """

    def __init__(self, x: CSR, cost: float, least_weight: float) -> None:
        wordless = csr(np.zeros(1, np.int64), np.array([x.shape[1] - 1]), (1, x.shape[1]))
        self._x = stacked([x, wordless])  # (N + 1, V)
        self._words = CSR(x[:, :-1].T) if x.shape[0] > _FEW else None  # (V - 1, N) the documents of each but the last
        self._cost, self._least_weight = cost, least_weight

    def of(self, targets: CSR, ignored: CSR) -> CSR:
        """The separators of labels, (C, V).

        Args:
            targets: (C, N) of ones: the documents of each label.
            ignored: (C, N) of ones: documents that are neither its own nor wrong.
        """
        if targets.shape[1] <= _FEW:
            return self._among_all(targets, ignored)
        step = max(1, _SCORED // targets.shape[1])
        starts = range(0, targets.shape[0], step)
        return stacked([self._among_near(targets[i : i + step], ignored[i : i + step]) for i in starts])

    def _among_all(self, targets: CSR, ignored: CSR) -> CSR:
        """The same, with all documents for each label."""
        y = np.full((targets.shape[1], targets.shape[0]), -1, np.float32)
        y[targets.indices, row_of_entry(targets)] = 1
        cost = np.full(y.shape, self._cost, np.float32)
        cost[ignored.indices, row_of_entry(ignored)] = 0
        b = solved(product_of(self._x[:-1]), y, cost, np.zeros_like(y)).T
        label, document = np.nonzero(b)
        return self._weights(csr(label, document, (len(b), self._x.shape[0]), b[label, document]))

    def _among_near(self, targets: CSR, ignored: CSR) -> CSR:
        """The same, with its own documents, and the wrong ones that matter, for each label."""
        assert self._words is not None
        N, seen = targets.shape[1], np.zeros(targets.shape[1], bool)
        labels = [_Near.of(*some, N, self._cost) for some in zip(_rows(targets), _rows(ignored), strict=True)]
        changing, w = labels, CSR(targets @ self._x[:-1])  # with which all documents that share a word are near
        for turn in range(_ROUNDS):
            scored, bias = CSR(w[:, :-1] @ self._words), w[:, -1:].toarray()[:, 0].tolist()
            found = zip(changing, bias, _rows(scored), _rows(scored, scored.data), strict=True)
            changing = [
                one for one, b, documents, scores in found if one.grows(documents, scores + b, _MORE << turn, seen)
            ]
            if not changing:
                break
            for some in _alike(changing):
                self._solve(some)
            w = self._combined(changing)
        return self._combined(labels)

    def _solve(self, labels: Sequence[_Near]) -> None:
        """Find b of some labels."""
        size = max(len(one.documents) for one in labels)
        y, cost, b = (
            np.stack([np.pad(part, (0, size - len(part))) for part in parts], 1)
            for parts in zip(*((one.y, one.cost, one.b) for one in labels), strict=True)
        )
        product = _products([self._x[one.documents] for one in labels])
        for one, found in zip(labels, solved(product, y, cost, b).T, strict=True):
            one.b = found[: len(one.b)]

    def _combined(self, labels: Sequence[_Near]) -> CSR:
        """The separators of some labels."""
        rows = np.repeat(np.arange(len(labels)), [len(one.documents) for one in labels])
        documents, b = (np.concatenate([getattr(one, name) for one in labels]) for name in ("documents", "b"))
        return self._weights(csr(rows[b != 0], documents[b != 0], (len(labels), self._x.shape[0]), b[b != 0]))

    def _weights(self, b: CSR) -> CSR:
        """Separators by (c, N + 1) coefficients, without weights that are next to nothing."""
        w = CSR(b @ self._x)
        w = take_entries(w, (np.abs(w.data) >= self._least_weight) | (w.indices == w.shape[1] - 1))
        w.sort_indices()
        return w


@dataclass(slots=True)
class _Near:
    """The documents that a label is told from.

    Attributes:
        own: how many are its own, which stand first; then comes the one without words, for all that share none.
        documents: (n,) their rows.
        y: (n,) 1 for its own and -1 for others.
        cost: (n,) C of each, which is 0 where it is neither.
        b: (n,) as they are by now.
    """

    own: int
    documents: IntArray
    y: FloatArray
    cost: FloatArray
    b: FloatArray

    @classmethod
    def of(cls, own: IntArray, neither: IntArray, documents: int, cost: float) -> _Near:
        """A label's own documents out of so many, and the one without words."""
        here = np.concatenate([own, [documents], neither])
        y, costs = np.full(len(here), -1, np.float32), np.zeros(len(here), np.float32)
        y[: len(own)], costs[: len(own)], costs[len(own)] = 1, cost, cost * (documents - len(here) + 1)
        return cls(len(own), here, y, costs, np.zeros(len(here), np.float32))

    def grows(self, documents: IntArray, scores: FloatArray, most: int, seen: BoolArray) -> bool:
        """Take up to so many wrong documents for those that were of no effect, and say whether b is to be found anew.

        Args:
            documents: (n,) rows of those that have a word that the label gives weight to.
            scores: (n,) of these.
            most: to take.
            seen: (N,) False, and left so.
        """
        is_first, here = not self.b.any(), np.delete(self.documents, self.own)
        seen[here] = True
        known = seen[documents]
        more = np.flatnonzero((scores > _LEFT_OUT - 1) & ~known)
        wordless = len(seen) - len(documents) - len(here) + np.count_nonzero(known)
        seen[here] = False
        if not (is_first or len(more)):
            return False
        if len(more) > most:
            more = more[np.argpartition(-scores[more], most)[:most]]
        kept = (self.b != 0) | (self.cost == 0)
        kept[: self.own + 1] = True
        cost, wrong = self.cost[0], np.ones(len(more), np.float32)
        self.documents = np.concatenate([self.documents[kept], documents[more]])
        self.y, self.b = np.concatenate([self.y[kept], -wrong]), np.concatenate([self.b[kept], 0 * wrong])
        self.cost = np.concatenate([self.cost[kept], cost * wrong])
        self.cost[self.own] = cost * wordless
        return True


def solved(product: Product, y: FloatArray, cost: FloatArray, b: FloatArray) -> FloatArray:
    """Find b of c labels over n documents, (n, c), by Newton's method.

    Args:
        product: by the inner products of the documents.
        y: (n, c) 1 or -1.
        cost: (n, c) C of each document, at least 0.
        b: (n, c) to start from.
    """
    scores = product(b)
    ridge, value = np.float32(0.5) / np.maximum(cost, np.float32(1e-9)), _value(y, cost, b, scores)
    for _ in range(_NEWTON):
        within = (y * scores < 1) & (cost > 0)
        aim = _conjugate_gradients(product, within, y, ridge, b)
        towards, step = product(aim) - scores, np.ones(y.shape[1], np.float32)
        for _ in range(_HALVINGS):
            after = _value(y, cost, b + step * (aim - b), scores + step * towards)
            if not (worse := after > value * (1 + 1e-6)).any():
                break
            step[worse] /= 2
        b, scores, before, value = b + step * (aim - b), scores + step * towards, value, after
        if (before - after <= _SETTLED * np.abs(after)).all():
            break
    return b


def _value(y: FloatArray, cost: FloatArray, b: FloatArray, scores: FloatArray) -> FloatArray:
    """What is minimised, (c,)."""
    total: FloatArray = 0.5 * (b * scores).sum(0) + (cost * np.maximum(0, 1 - y * scores) ** 2).sum(0)
    return total


def _conjugate_gradients(
    product: Product, within: BoolArray, y: FloatArray, ridge: FloatArray, b: FloatArray
) -> FloatArray:
    """The b that is best while the documents within the margin are these, (n, c): (K + ridge) b = y on them, else 0."""
    b = np.where(within, b, 0)
    r = np.where(within, y - product(b) - ridge * b, 0)
    p, rr, goal = r, (r * r).sum(0), _TOLERANCE**2 * within.sum(0)
    for _ in range(_STEPS):
        if (rr <= goal).all():
            break
        q = np.where(within, product(p) + ridge * p, 0)
        step = np.where(rr > goal, rr / np.maximum((p * q).sum(0), 1e-30), 0)
        b, r, last = b + step * p, r - step * q, rr
        rr = (r * r).sum(0)
        p = r + rr / np.maximum(last, 1e-30) * p
    return b


def product_of(x: CSR) -> Product:
    """The product by the inner products of n documents, which are held where the documents are few."""
    if x.shape[0] <= _FEW:
        inner = inner_products(x)
        return lambda v: inner @ v
    transposed = CSR(x.T)
    return lambda v: np.asarray(x @ (transposed @ v))


def _products(parts: Sequence[CSR]) -> Product:
    """The product by the inner products of the documents of c labels, each its own, (n_i, V): held of very few ones.

    To make those of more takes longer than all that is asked of them by the words themselves.
    """
    size = max(x.shape[0] for x in parts)
    if size <= _VERY_FEW:
        inner = np.zeros((len(parts), size, size), np.float32)
        for x, held in zip(parts, inner, strict=True):
            held[: x.shape[0], : x.shape[0]] = inner_products(x)
        return lambda v: np.matmul(inner, v.T[..., None])[..., 0].T

    def product(v: FloatArray) -> FloatArray:
        found = np.zeros_like(v)
        for i, x in enumerate(parts):
            found[: x.shape[0], i] = x @ (x.T @ v[: x.shape[0], i])
        return found

    return product


def inner_products(x: CSR) -> FloatArray:
    """(n, n) those of n rows."""
    found: FloatArray = (x @ x.T).toarray()
    return found


def _rows(matrix: CSR, of: AnyArray | None = None) -> list[AnyArray]:
    """The columns of the entries of each row, or something else of theirs."""
    return np.split(matrix.indices if of is None else of, matrix.indptr[1:-1])


def _alike(labels: Sequence[_Near]) -> Iterator[list[_Near]]:
    """Labels with about as many documents, as many as may be held at once."""
    some: list[_Near] = []
    for one in sorted(labels, key=lambda one: len(one.documents)):
        if some and (len(some) + 1) * len(one.documents) ** 2 > _HELD:
            yield some
            some = []
        some.append(one)
    if some:
        yield some
