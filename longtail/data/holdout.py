"""Which rows to hold out of training so that as many labels as can be stay learnable."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.filters import either
from longtail.data.sparse import CSR, row_of_entry, take_entries
from longtail.data.split import Split
from longtail.errors import BadInput
from longtail.topk import BoolArray, Float64Array, IntArray

_OPEN = 0.1  # labels without any document to one that is orphaned, from which on a set of labels is open


def rows_at_random(n: int, rows: int, seed: int) -> IntArray:
    """Draw ``rows`` of n rows, ascending, each once: a fair sample, in which some labels occur in no other row."""
    return np.sort(np.random.default_rng(seed).choice(n, rows, replace=False)).astype(np.int64)


def rows_evenly(n: int, rows: int) -> IntArray:
    """``rows`` of n rows, ascending, the first and the last among them, or all where there are no more."""
    return np.linspace(0, n - 1, min(n, rows)).astype(np.int64)


def rows_to_hold_out(targets: CSR, rows: int, seed: int) -> IntArray:
    """Draw rows whose labels all keep another training row, as far as there are such rows.

    For each label one row is picked that stays: first among rows that have to stay anyhow (they hold a label that
    no other row has), then by lot. The rows held out are drawn from those that were picked for no label; if they are
    too few, also from the others; rows without labels come last, for they can measure nothing.

    Args:
        targets: (N, L) CSR, the labels of the training documents.
        rows: how many to hold out, in [1, N).
        seed: of the lot.

    Returns:
        (rows,) int64 ascending.

    Raises:
        BadInput: rows is not in [1, N).
    """
    N = int(targets.shape[0])
    _must_leave_some(N, rows)
    lot = np.random.default_rng(seed).random(N)
    worth = np.where(np.diff(targets.indptr) == 0, 0.0, np.where(_staying(targets, lot), 1.0, 2.0))
    return np.sort(np.lexsort((lot, -worth))[:rows])


def cut_as_test(dataset: Dataset, rows: IntArray) -> tuple[Dataset, Split, IntArray]:
    """Cut training documents out (`Dataset.holdout`), and take of them what a test split would have.

    Where no test pair is the way back of a training pair (`Dataset.one_way`), held-out documents lose such pairs, and
    one that loses all has nothing left to find: a test split has no such document, so it is in neither part.

    Args:
        dataset: N training documents.
        rows: to cut out, ascending, each once, in [0, N).

    Returns:
        The data set without these rows, the documents among them that have a label left or never had one, and the rows
        of those, int64 ascending.
    """
    rest, held = dataset.holdout(rows)
    had, has = (np.diff(targets.indptr) > 0 for targets in (dataset.train.targets[rows], held.targets))
    some = np.flatnonzero(has | ~had)
    return rest, held.take(some), rows[some]


def without_orphaned_labels(held: Split, frequency: IntArray) -> tuple[Split, IntArray]:
    """Held-out documents without pairs whose label has lost its only examples to them, where all labels had some.

    In a closed set of labels each has an example. One whose only documents were held out is orphaned: it looks as if it
    had never had one, and yet is right for one of these few documents for certain, where of later documents hardly one
    has it. To learn from that is to rank labels without examples first. So pairs with orphaned labels are filtered, and
    documents that have no other pair go.

    In an open set, labels without examples are right for later documents as often as for held-out ones, and all stays.
    A set is taken for open if it has at least a tenth as many labels without any document as orphaned ones.

    Args:
        held: n documents.
        frequency: (L,) int64 training documents of each label, without these.

    Returns:
        The documents, and their rows among the n, int64 ascending.
    """
    there = np.bincount(held.targets.indices, minlength=len(frequency)) > 0
    orphaned, without_any = (frequency == 0) & there, (frequency == 0) & ~there  # (L,) each
    if np.count_nonzero(without_any) >= _OPEN * np.count_nonzero(orphaned):
        return held, np.arange(len(held))
    gone = orphaned[held.targets.indices]
    hidden, targets = take_entries(held.targets, gone), take_entries(held.targets, ~gone)
    filtered = either(held.filtered, hidden)
    rows = np.flatnonzero((np.diff(targets.indptr) > 0) | (np.diff(held.targets.indptr) == 0))
    return replace(held, targets=targets, filtered=filtered).take(rows), rows


def with_test_split(dataset: Dataset, rows: int, seed: int, *, at_random: bool = False) -> tuple[Dataset, IntArray]:
    """The data set with a test split that is cut from its training documents by `rows_to_hold_out`.

    Args:
        dataset: its own test split is left out.
        rows: of the test split, in [1, N).
        seed: of the lot.
        at_random: cut any rows, by `rows_at_random`.

    Returns:
        The data set, and which rows its test split has, int64 ascending: those that were cut, but for such as have
        nothing left to find (`cut_as_test`).

    Raises:
        BadInput: rows is not in [1, N), seed is negative, or none that was cut has anything left to find.
    """
    if seed < 0:
        raise BadInput("seed", f"expected a number that is at least 0, found {seed}", remedy="give for example 0")
    _must_leave_some(len(dataset.train), rows)
    targets = dataset.train.targets
    cut = rows_at_random(len(dataset.train), rows, seed) if at_random else rows_to_hold_out(targets, rows, seed)
    rest, held, tested = cut_as_test(dataset, cut)
    if not len(tested):
        problem = f"expected documents to test on, found {rows} whose pairs training has all the other way"
        raise BadInput("rows", problem, remedy="cut more, or take another seed")
    return replace(rest, test=held), tested


def _must_leave_some(n: int, rows: int) -> None:
    if not 1 <= rows < n:
        raise BadInput("rows", f"cannot hold {rows} of {n} rows out", remedy=f"give a number from 1 to {n - 1}")


def _staying(targets: CSR, lot: Float64Array) -> BoolArray:
    """(N,) rows that stay, so that each label keeps one."""
    row, label = row_of_entry(targets), targets.indices
    stays = np.zeros(len(lot), bool)
    stays[row[np.bincount(label, minlength=targets.shape[1])[label] == 1]] = True
    order = np.lexsort((lot[row], stays[row], label))
    last = np.ones(len(order), bool)
    last[:-1] = label[order][1:] != label[order][:-1]
    stays[row[order[last]]] = True
    return stays
