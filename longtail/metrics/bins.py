"""Where a metric is earned: by how often a label was seen in training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from longtail.data.sparse import CSR
from longtail.metrics.places import Placed, percent
from longtail.metrics.propensity import label_frequency
from longtail.metrics.ranking import KS
from longtail.topk import Float64Array, IntArray


@dataclass(frozen=True, slots=True)
class Bins:
    """Labels grouped by training frequency: equal volumes from the head to the tail, then labels never seen.

    Attributes:
        names: of the b bins: "1 head", "2", ..., "5 tail", "unseen".
        of_label: (L,) int64 in [0, b), the bin of each label.
        labels: (b,) int64, labels in each bin.
        frequency: (b,) float64, mean training documents a label in each bin; 0 where it is empty.
    """

    names: tuple[str, ...]
    of_label: IntArray
    labels: IntArray
    frequency: Float64Array


def label_bins(targets: CSR, count: int = 5) -> Bins:
    """Cut the labels, most frequent first, so that each bin holds an equal share of the training pairs.

    These are the equi-voluminous bins of the thesis, chapter 1, figure 1.3: bin 1 is the head and bin 5 the tail. A
    label is in the bin that the middle of its pairs falls in; of labels of one frequency the lower id comes first.
    Labels never seen in training have no pairs and are a bin of their own, the last.

    Args:
        targets: (N, L) CSR, labels of the original training documents, by pattern.
        count: bins of equal volume, at least 2.
    """
    frequency = label_frequency(targets)
    order = np.argsort(-frequency, kind="stable")
    ends = np.cumsum(frequency[order])
    middle_twice = 2 * ends - frequency[order]
    of_label = np.full(len(order), count, np.int64)
    seen = frequency[order] > 0
    of_label[order[seen]] = count * middle_twice[seen] // (2 * ends[-1])
    labels = np.bincount(of_label, minlength=count + 1)
    names = ("1 head", *(str(b) for b in range(2, count)), f"{count} tail", "unseen")
    volume = np.bincount(of_label, frequency, minlength=count + 1)
    return Bins(names, of_label, labels, volume / np.maximum(labels, 1))


def by_bin(pairs: Placed, bins: Bins, *, ks: Sequence[int] = KS) -> dict[str, Float64Array]:
    """P@k and R@k by bin, in percent.

    Args:
        pairs: places of the true pairs.
        bins: of the same L labels.
        ks: cut-offs.

    Returns:
        ``"P@k"``: (b,) what the hits on each bin's labels contribute to P@k; they sum to P@k. ``"R@k"``: (b,) share of
        the bin's test pairs that are hits, 0 where it has none: recall over pairs, not a mean over documents.
    """
    of_pair = bins.of_label[pairs.labels]  # (E,)
    size = len(bins.names)
    total = np.bincount(of_pair, minlength=size)  # (b,)
    hits = {k: np.bincount(of_pair, pairs.hits(k), minlength=size).astype(np.float64, copy=False) for k in ks}
    return {f"P@{k}": 100 * hits[k] / (k * pairs.n) for k in ks} | {f"R@{k}": percent(hits[k], total) for k in ks}
