"""Identity and reciprocal pairs: predictions that are neither right nor wrong where labels are documents too."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

import numpy as np

from longtail.data.sparse import CSR, csr, offsets_of, row_of_entry, take_entries
from longtail.data.split import Split
from longtail.data.texts import Strings, Texts


def matches(left: Strings, right: Strings) -> CSR:
    """(n, m) CSR of ones: which strings are equal. The empty string equals none. One pass over each side."""
    texts = left.encoded(), right.encoded()
    group_of = dict(zip(texts[1], range(len(right)), strict=True))  # equal strings share the last one's place
    group_of[b""] = -1
    of_left, of_right = (
        _one_hot(np.fromiter(map(group_of.get, side, repeat(-1)), np.int64, len(side)), len(right)) for side in texts
    )
    return _ones(of_left @ of_right.T)


def same_texts(left: Strings, right: Strings) -> CSR:
    """(n, m) CSR of ones: which strings are the same text, in Unicode NFC. The empty one is the same as none."""
    return matches(left.canonical(), right.canonical())


class Same:
    """Which of m strings are equal to others: `matches` for one side that is asked again and again, 16 bytes a string.

    Args:
        strings: m of them.
    """

    def __init__(self, strings: Strings) -> None:
        hashes = np.fromiter(map(hash, strings), np.int64, len(strings))
        self._strings, self._order = strings, np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]

    def first(self, text: str) -> int | None:
        """The first of the m strings that equals one, or None."""
        start, end = (int(np.searchsorted(self._hashes, hash(text), side)) for side in ("left", "right"))
        return next(self._equal(text, start, end), None)

    def pairs(self, left: Strings) -> CSR:
        """(n, m) CSR of ones: which of the m strings each of n others equals. The empty string equals none."""
        wanted = np.fromiter(map(hash, left), np.int64, len(left))
        first, last = (np.searchsorted(self._hashes, wanted, side=side) for side in ("left", "right"))
        rows, columns = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for i in np.flatnonzero(last > first).tolist():
            found = list(self._equal(left[i], first[i], last[i])) if left[i] else []
            rows.append(np.full(len(found), i))
            columns.append(np.array(found, np.int64))
        return csr(np.concatenate(rows), np.concatenate(columns), (len(left), len(self._strings)))

    def _equal(self, text: str, start: int, end: int) -> Iterator[int]:
        """The strings that equal one, of those whose hashes stand from ``start`` to ``end``."""
        return (j for j in self._order[start:end].tolist() if self._strings[j] == text)


def identity_pairs(documents: Texts, labels: Texts) -> CSR:
    """(n, L) CSR of ones: document i *is* label l.

    They are the same where they have the same uid, or, where documents or labels have no uids at all, the same title,
    in Unicode NFC.

    Args:
        documents: n of them.
        labels: L of them.
    """
    if len(documents.uids.blob) and len(labels.uids.blob):
        return matches(documents.uids, labels.uids)
    return same_texts(documents.fields["title"], labels.fields["title"])


def reciprocal_pairs(itself: CSR, train_itself: CSR, train_targets: CSR) -> CSR:
    """(n, L) CSR of ones: pairs (i, l) of which training holds the way back, from item l to the label that i is.

    Args:
        itself: (n, L) the identity pairs of some documents, `identity_pairs`.
        train_itself: (N, L) the identity pairs of the training documents.
        train_targets: (N, L) the labels of the training documents.
    """
    return _ones(itself @ train_targets.T @ train_itself)


def answers(targets: CSR, nodes: Strings, labels: Texts) -> CSR:
    """(n, M) CSR of ones: node m of a graph *is* a true label of document i. It has the label's uid, or its title.

    Args:
        targets: (n, L) the true labels of some documents.
        nodes: M texts.
        labels: L of them.
    """
    same = union(same_texts(nodes, labels.fields["title"]), matches(nodes, labels.uids))
    return _ones(targets @ same.T)


def proposed_pairs(split: Split, train: Split, labels: Texts) -> CSR:
    """(n, L) CSR of ones: the identity and reciprocal pairs of a split that are not in its truth.

    Args:
        split: n documents.
        train: the training documents, whose pairs are turned round.
        labels: L of them.
    """
    itself = identity_pairs(split.documents, labels)
    train_itself = itself if split is train else identity_pairs(train.documents, labels)
    return without(union(itself, reciprocal_pairs(itself, train_itself, train.targets)), split.targets)


def proposed_filter(train: Split, test: Split | None, labels: Texts) -> tuple[CSR, CSR | None]:
    """The filter that a data set should have, where some of its labels are documents too.

    Args:
        train: N training documents.
        test: n test documents, or None.
        labels: L of them.

    Returns:
        train: (N, L) CSR of ones, `proposed_pairs` of the training documents.
        test: (n, L) CSR of ones, those of the test documents, or None where the data set has no test split.
    """
    return proposed_pairs(train, train, labels), None if test is None else proposed_pairs(test, train, labels)


def union(left: CSR, right: CSR) -> CSR:
    """The pairs of either."""
    return _ones(left + right)


def either(left: CSR | None, right: CSR | None) -> CSR | None:
    """The pairs of either that is there, or None."""
    if left is None or right is None:
        return right if left is None else left
    return union(left, right)


def without(pairs: CSR, others: CSR) -> CSR:
    """The pairs that are not among the others."""
    return _ones(apart(pairs, others))


def apart(edges: CSR, others: CSR) -> CSR:
    """Weighted edges without those where another matrix stores a pair, whatever its value."""
    keys, hidden = (row_of_entry(one) * edges.shape[1] + one.indices for one in (edges, others))
    return take_entries(edges, ~np.isin(keys, hidden))


def unfiltered(split: Split) -> CSR:
    """(n, L) the true pairs that are not filtered."""
    return split.targets if split.filtered is None else apart(split.targets, split.filtered)


def by_label(split: Split) -> tuple[CSR, CSR]:
    """(L, n) the documents of each label, but for filtered pairs, and (L, n) its filtered ones."""
    filtered = CSR(split.targets.shape, dtype=np.float32) if split.filtered is None else split.filtered
    return CSR(unfiltered(split).T), CSR(filtered.T)


def _one_hot(groups: np.ndarray[tuple[int], np.dtype[np.int64]], width: int) -> CSR:
    """(n, width) CSR: row i has a one in column ``groups[i]``, or nothing where that is -1."""
    there = groups >= 0
    ones = np.ones(int(there.sum()), np.float32)
    return CSR((ones, groups[there], offsets_of(there)), shape=(len(groups), width))


def _ones(matrix: CSR) -> CSR:
    """The pattern of a matrix: sorted, float32, every stored entry that is not 0 a one."""
    matrix = CSR(matrix, dtype=np.float32)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    ones = np.ones(matrix.nnz, np.float32)
    return CSR((ones, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)), shape=matrix.shape)
