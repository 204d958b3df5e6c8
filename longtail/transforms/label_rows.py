"""Label texts as training rows: Gandalf, and the targets that it is compared with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from longtail.data.cooccurrence import conditional, related_labels, symmetric
from longtail.data.dataset import Dataset
from longtail.data.sparse import CSR, csr
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.topk import IntArray
from longtail.transforms.label_walk import walked_labels

Choose: TypeAlias = Literal["random", "tail"]
Rows: TypeAlias = Literal["all", "surrogate", "sample"]

_BINS = 5  # of equal volume, when tail labels come first


def gandalf(
    dataset: Dataset,
    *,
    seed: int,
    prior: float = 0.0,
    threshold: float = 0.1,
    labels: int | None = None,
    choose: Choose = "random",
    rows: Rows = "all",
) -> Dataset:
    """Label texts as training rows, with the labels that they occur with as soft targets. Thesis, eq. 1.4 to 1.6.

    The row of label l has target G_lm / (G_ll + c) for label m, with G_lm the number of training documents that have
    both and c the prior count, where that is above the threshold; its target for l itself is 1.

    Args:
        dataset: N training documents and L labels.
        seed: of what is drawn.
        prior: c, documents that each label is taken to have had by itself, besides those that it has; 0 in the thesis.
        threshold: delta, at least 0 and below 1.
        labels: how many labels become rows; all of them if left out.
        choose: where these are fewer than all: at random, or tail labels first. For the latter, labels are cut by
            frequency into five bins of equal volume, and a bin is used up at random before the next (thesis, section
            1.5); labels without a document, which have no volume, come last.
        rows: "all" has documents and label rows (the set G of the thesis, table 1.2); "surrogate" has label rows alone
            (Z); "sample" draws as many rows as there are documents from both (U(G, N)).
    """
    _check_threshold(threshold)

    def targets(chosen: IntArray) -> CSR:
        strength = partial(conditional, prior=prior)
        return related_labels(dataset.train.targets, chosen, threshold=threshold, strength=strength)

    return with_label_rows(dataset, targets, labels, choose, rows, seed)


def one_hot(
    dataset: Dataset, *, seed: int, labels: int | None = None, choose: Choose = "random", rows: Rows = "all"
) -> Dataset:
    """Label texts as training rows, each with its own label alone: self-annotation (thesis, table 1.2, Z^1).

    The arguments are those of `gandalf`.
    """

    def targets(chosen: IntArray) -> CSR:
        return csr(np.arange(len(chosen)), chosen, (len(chosen), len(dataset.labels)))

    return with_label_rows(dataset, targets, labels, choose, rows, seed)


def glas(
    dataset: Dataset,
    *,
    seed: int,
    threshold: float = 0.1,
    labels: int | None = None,
    choose: Choose = "random",
    rows: Rows = "all",
) -> Dataset:
    """Label texts as training rows whose targets are those of the GLaS regulariser. Thesis, eq. 1.9 and section 1.3.2.

    The target is sigma(S_lm), with S the mean of the conditional probabilities in both directions, for pairs whose S is
    above the threshold. Read to the letter, a pair that never occurs would have the target sigma(0) = 1/2, as would
    nearly all L^2 pairs; these are left at 0. The other arguments are those of `gandalf`.
    """
    _check_threshold(threshold)

    def targets(chosen: IntArray) -> CSR:
        related = related_labels(dataset.train.targets, chosen, threshold=threshold, strength=symmetric)
        related.data = 1 / (1 + np.exp(-related.data))
        return related

    return with_label_rows(dataset, targets, labels, choose, rows, seed)


def walk(
    dataset: Dataset,
    *,
    seed: int,
    threshold: float = 0.1,
    labels: int | None = None,
    choose: Choose = "random",
    rows: Rows = "all",
) -> Dataset:
    """Label texts as training rows, with the labels near them on a random walk as soft targets. Thesis, table 1.7.

    The targets are those of `longtail.transforms.label_walk.walked_labels`, the arguments those of `gandalf`.
    """
    _check_threshold(threshold)

    def targets(chosen: IntArray) -> CSR:
        return walked_labels(dataset.train.targets, chosen, threshold=threshold)

    return with_label_rows(dataset, targets, labels, choose, rows, seed)


def _check_threshold(threshold: float) -> None:
    if not 0 <= threshold < 1:
        problem = f"expected at least 0 and below 1, found {threshold:g}"
        raise BadInput("threshold", problem, remedy="a label's target for itself is 1, and must stay above it")


def with_label_rows(
    dataset: Dataset,
    targets: Callable[[IntArray], CSR],
    labels: int | None,
    choose: Choose,
    rows: Rows,
    seed: int,
) -> Dataset:
    """The data set with the texts of some labels as rows behind its documents; the targets are made of label ids."""
    N, L = len(dataset.train), len(dataset.labels)
    generator = np.random.default_rng([seed, 0, 0, 0, 3])  # the 3 parts it from what batches draw
    chosen = _chosen_labels(dataset.train.targets, L if labels is None else min(labels, L), choose, generator)
    texts = Texts.of_columns(dataset.labels.take(chosen).fields)
    combined = dataset.with_rows(Split(texts, targets(chosen)))
    if rows == "all":
        return combined
    n = N + len(chosen)
    drawn = np.arange(N, n) if rows == "surrogate" else np.sort(generator.choice(n, N, replace=False))
    return combined.only_rows(drawn)


def _chosen_labels(targets: CSR, count: int, choose: Choose, generator: np.random.Generator) -> IntArray:
    """``count`` labels, ascending."""
    L = targets.shape[1]
    lot = generator.random(L)
    bins = np.zeros(L, np.int64)
    if choose == "tail":
        frequency = np.bincount(targets.indices, minlength=L)
        order = np.argsort(frequency, kind="stable")
        volume = np.cumsum(frequency[order])
        bins[order] = np.ceil(_BINS * volume / max(int(volume[-1]), 1))
        bins[frequency == 0] = _BINS + 1
    return np.sort(np.lexsort((lot, bins))[:count])
