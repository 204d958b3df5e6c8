"""A data set with wrong and missing labels planted: which ones they are is known."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.sparse import CSR, csr, row_of_entry
from longtail.data.split import Split


@dataclass(frozen=True, slots=True)
class WrongLabels:
    """A data set in which some labels of training documents are wrong, and some are missing.

    Attributes:
        dataset: with these labels, and without graphs.
        wrong: pairs of document and label that it has, and should not have.
        missing: pairs that it has not, and should have.
    """

    dataset: Dataset
    wrong: frozenset[tuple[int, int]]
    missing: frozenset[tuple[int, int]]


def with_wrong_labels(dataset: Dataset, share: float, seed: int) -> WrongLabels:
    """Replace a share of the labels of training documents, and leave as many others out.

    A label is replaced by that of a pair drawn at random, so that frequent labels are wrong more often.

    Args:
        dataset: whose labels are taken for right.
        share: of its pairs, in (0, 0.5].
        seed: of the draws.
    """
    targets, generator = dataset.train.targets, np.random.default_rng(seed)
    rows, labels = row_of_entry(targets), targets.indices.astype(np.int64)
    replaced, left_out = np.split(generator.permutation(len(rows))[: 2 * round(share * len(rows))], 2)
    given, kept = labels.copy(), np.ones(len(rows), bool)
    given[replaced], kept[left_out] = labels[generator.integers(0, len(rows), len(replaced))], False
    changed = csr(rows[kept], given[kept], targets.shape)
    before, after = _pairs(targets), _pairs(changed)
    train = Split(dataset.train.documents, changed, dataset.train.filtered)
    return WrongLabels(replace(dataset, train=train, graphs={}), after - before, before - after)


def _pairs(matrix: CSR) -> frozenset[tuple[int, int]]:
    return frozenset(zip(row_of_entry(matrix).tolist(), matrix.indices.tolist(), strict=True))
