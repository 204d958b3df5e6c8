"""How good a trained model is on a test split."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from longtail.data.dataset import Dataset, Propensity
from longtail.data.holdout import rows_at_random, rows_evenly
from longtail.data.sparse import CSR
from longtail.data.split import Split
from longtail.errors import BadInput
from longtail.metrics.above import Above, above
from longtail.metrics.groups import BUILT_IN, groups_of
from longtail.metrics.ranking import KS, must_be_cut_offs
from longtail.metrics.summary import Drawn, Evaluation, Ranked, measure
from longtail.model import Model, load
from longtail.model.same_labels import must_be_as_many, must_be_labels
from longtail.model.scorers import MANY
from longtail.model.thresholds import at_most, must_be_threshold
from longtail.topk import IntArray

DEPTH = 10  # labels ranked for each document, at least


def evaluate(
    model: Model | str | Path,
    dataset: Dataset | Split | str | Path,
    *,
    train: CSR | None = None,
    propensity: Propensity | Sequence[Propensity] | None = None,
    ks: Sequence[int] = KS,
    intervals: bool = False,
    by: Sequence[str] = (),
    threshold: float | None = None,
    links: IntArray | None = None,
    sample: int | None = None,
    device: str = "auto",
) -> Evaluation:
    """Measure a trained model on a test split; ``longtail evaluate`` prints what this returns.

    Examples:
        >>> found = longtail.evaluate("runs/demo", "examples/debian-packages")
        >>> print(found)  # a table: metrics down, score kinds across
        >>> found.kinds[found.headline]["P@1"]  # in percent
        >>> found.as_dict()  # what longtail evaluate --json writes

    Args:
        model: a model, or the folder of a run.
        dataset: a data set with a test split, its folder, or a split of n documents with (n, L) targets, which needs
            ``train``. Its filtered pairs are not ranked.
        train: (N, L) CSR, the labels of the original training documents, which the propensities depend on; those of the
            data set if left out.
        propensity: the constants A and B, or several pairs of them, each of which has a PSP of its own; those of the
            data set if left out, and without any there is no PSP.
        ks: cut-offs, each at least 1.
        intervals: draw 95 % bootstrap intervals over test documents, with a generator of seed 0.
        by: what to group the test documents by: ``length``, ``labels``, ``rarest-word``, or a column of theirs, with
            ``:bins=10`` behind it for other bins of numbers than five; a folder is read with such columns.
        threshold: in [0, 1]: judge what a prediction gives with it, too, by the score kind that predictions use.
        links: (n, K) int64, for a model that enriches documents: the nodes of each, padded with -1; those that it finds
            itself if left out.
        sample: rank so many of the n documents, drawn at random with seed 0, where there are more, and draw intervals;
            all of them if left out.
        device: where a run folder's model is opened: a torch device, or ``auto`` for a GPU where there is one.

    Returns:
        The metrics by score kind, and the rankings that they were measured on; those under the second pair of constants
        and further ones are its ``others``.

    Raises:
        BadInput: there is no test split, or no training labels, or other labels than the model's; sample or threshold
            is out of range, or the model has no probabilities; or a file of the run or the data set is not as it must.
    """
    model = model if isinstance(model, Model) else load(model, device=device, changes=False)
    deep = _depth(model, ks, threshold)
    if isinstance(dataset, (str, Path)):
        dataset = Dataset.read(dataset, fields=fields_with(model.fields, by))
    whole = dataset if isinstance(dataset, Dataset) else None
    if isinstance(dataset, Dataset):
        train = dataset.train.targets if train is None else train
        propensity = propensity or dataset.propensity
        test = _test_of(dataset, model)
    else:
        test = dataset
    train = _labels_of_training(train, test, model)
    drawn = _drawn(len(test), sample)
    if drawn is not None:
        test, links = test.take(drawn.rows), None if links is None else links[drawn.rows]
    groups = {name.partition(":")[0]: groups_of(name, test, whole, model.fields) for name in by}
    ranked = rank_test(model, test, deep, links)
    draws = np.random.default_rng(0) if intervals or drawn else None
    constants = [propensity] if isinstance(propensity, Propensity) else propensity or []
    found = measure(ranked, test.targets, train, constants, headline=model.kinds[-1], ks=ks, generator=draws, by=groups)
    return replace(found, drawn=drawn, above=None if threshold is None else _above(found, test, threshold))


def _depth(model: Model, ks: Sequence[int], threshold: float | None) -> int:
    """Labels ranked for each document; cut-offs and a threshold that cannot be are refused."""
    must_be_cut_offs(ks)
    if threshold is None:
        return max([*ks, DEPTH])
    must_be_threshold(threshold)
    model.calibration()  # refuses a model without
    return max([*ks, at_most(None, threshold)])


def _above(found: Evaluation, test: Split, threshold: float) -> Above:
    """The labels that a prediction gives with this threshold."""
    ranked, kind, most = found.ranked, found.headline, at_most(None, threshold)
    return above(ranked.tops[kind].first(most), ranked.probabilities[kind][:, :most], test.targets, threshold)


def _test_of(dataset: Dataset, model: Model) -> Split:
    """The test split of a data set, which must be there and of the model's labels."""
    test = must_have_test(dataset)
    must_be_labels(model, dataset.labels, dataset.folder or "dataset")
    return test


def _labels_of_training(train: CSR | None, test: Split, model: Model) -> CSR:
    """The labels of the training documents, which must be there, and as many as the model has, as those of the test."""
    if train is None:
        problem = "expected the labels of the training documents beside a split, found none"
        raise BadInput("train", problem, remedy="give train=dataset.train.targets")
    for name, targets in (("dataset", test.targets), ("train", train)):
        must_be_as_many(model, targets.shape[1], name)
    return train


def _drawn(documents: int, sample: int | None) -> Drawn | None:
    """Which of so many documents a sample has; None where it has all of them."""
    if sample is None or sample >= documents:
        return None
    if sample < 1:
        raise BadInput("sample", f"expected a number of documents, at least 1, found {sample}", remedy="give more")
    return Drawn(rows_at_random(documents, sample, 0), documents, 0)


def fields_with(fields: Sequence[str], by: Sequence[str]) -> tuple[str, ...]:
    """The fields that a model reads, and the columns that documents are grouped by."""
    columns = (asked.partition(":")[0] for asked in by)
    return tuple(dict.fromkeys((*fields, *(name for name in columns if name not in BUILT_IN))))


def must_have_test(dataset: Dataset) -> Split:
    """The test split of a data set.

    Raises:
        BadInput: there is none.
    """
    if dataset.test is None:
        raise BadInput(dataset.name, "expected a test split, found none", remedy="longtail data split cuts one")
    return dataset.test


def latency(model: Model, test: Split, texts: int = 200, k: int = DEPTH) -> tuple[float, float]:
    """How long the labels of a single text take, one after the other: the median and the 99th percentile.

    Args:
        model: ranks, by the score kind that its predictions use.
        test: documents, of which as many are asked as ``texts`` says, evenly spread.
        texts: at most, and one before them that is not counted.
        k: labels of each.

    Returns:
        Milliseconds.
    """
    rows = rows_evenly(len(test), texts)
    times = []
    for row in (rows[0], *rows):
        start = time.perf_counter()
        model.search(model.encode(test.documents.take(np.array([row]))), k)
        times.append(1000 * (time.perf_counter() - start))
    p50, p99 = np.percentile(times[1:], [50, 99]).tolist()
    return round(p50, 4), round(p99, 4)


def rank_test(model: Model, test: Split, k: int = DEPTH, links: IntArray | None = None) -> Ranked:
    """Rank labels for test documents by every score kind, all documents at once, and take the time.

    Args:
        model: ranks.
        test: n documents.
        k: labels of each.
        links: (n, K) the nodes of each, for a model with a linker; those that it finds if left out.
    """
    model.encode(test.documents.take(np.arange(1)))  # what is done once is not in the time
    start = time.perf_counter()
    vectors = model.encode(test.documents, links)
    encoding = time.perf_counter() - start
    tops, seconds = {}, {}
    for kind in model.kinds:
        if len(test) <= MANY:
            model.search(vectors[:1], k, kind=kind)
        start = time.perf_counter()
        tops[kind] = model.search(vectors, k, kind=kind, exclude=test.filtered)
        seconds[kind] = encoding + time.perf_counter() - start
    probabilities = {kind: model.probabilities(tops[kind], kind) for kind in model.kinds if kind in model.calibrations}
    milliseconds = {kind: round(1000 * taken / len(test), 4) for kind, taken in seconds.items()}
    return Ranked(vectors, tops, milliseconds, probabilities)
