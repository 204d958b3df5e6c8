"""Labels that are near on a random walk, which goes by the documents that they share."""

from __future__ import annotations

import numpy as np

from longtail.data.cooccurrence import pattern
from longtail.data.sparse import CSR, csr, heaviest, row_blocks, row_of_entry, stacked
from longtail.topk import IntArray
from longtail.transforms.walk import walk


def label_walk(targets: CSR, *, restart: float = 0.8, keep: int = 10, documents: int = 64) -> CSR:
    """Where a random walk with restart from each label is found: the heaviest labels, by shares of its visits.

    A hop goes from a label to one of its documents, and on to one of that document's labels. With probability
    ``restart`` it starts at the first label, else at the last one, so that labels are reached which never occur
    together. It is the exact law of the walk (`longtail.transforms.walk.walk`), not a sample of it. Source: ECLARE
    (Mittal et al., 2021), section 3, the graph of GALE, which takes 400 hops at restart 0.8 and the 10 labels visited
    most.

    Args:
        targets: (N, L) labels of the training documents, by pattern.
        restart: in (0, 1].
        keep: labels that are kept of each label, itself among them as a rule.
        documents: the heaviest documents of a label that the walk is followed through; more frequent labels lose some.

    Returns:
        (L, L) float32, columns ascending; a label without documents has an empty row.
    """
    shares = pattern(targets)
    visits = walk(shares.T.tocsr(), restart=restart, keep=documents, beam=documents)  # (L, N)
    counts = np.diff(shares.indptr)
    shares.data /= np.repeat(counts, counts)
    parts = [csr(np.zeros(0, np.int64), np.zeros(0, np.int64), (0, targets.shape[1]))]
    parts += [heaviest((visits[rows] @ shares).tocsr(), keep) for rows in row_blocks((visits != 0) @ counts)]
    found = stacked(parts)
    found.sort_indices()
    return found


def walked_labels(targets: CSR, labels: IntArray, *, threshold: float) -> CSR:
    """Soft targets by random walk: visits of l's walk to m over its visits to l, at most 1, above the threshold.

    On the first hop this is the conditional probability of m given l, with documents weighed by 1 / their labels, so
    that the targets are of the same kind as those of eq. 1.6. The thesis says only that the graph is a random walk's.

    Args:
        targets: (N, L) labels of the original training documents, by pattern.
        labels: (n,) int64 in [0, L), the rows wanted.
        threshold: at least 0 and below 1.

    Returns:
        (n, L) CSR in (0, 1]; 1 for each label itself.
    """
    visits = label_walk(targets, keep=50)
    own = visits.diagonal()[labels]
    visits = visits[labels]
    row = row_of_entry(visits)
    values = np.minimum(visits.data / np.maximum(own[row], np.finfo(np.float32).tiny), 1)
    kept = (values > threshold) & (visits.indices != labels[row])
    rows, columns = np.append(row[kept], np.arange(len(labels))), np.append(visits.indices[kept], labels)
    return csr(rows, columns, visits.shape, np.append(values[kept], np.ones(len(labels), np.float32)))
