"""Labels that are added to a trained model, against the same model trained with them.

    python benchmarks/new_labels.py examples/debian-packages [--share 0.1] [--epochs N] [--seed 0]

A share of the labels, drawn at random, is taken out of the training data. A model is trained on the rest, the labels
are added to it (by their text, and once more with their training documents as examples), and test documents are ranked
over all labels. P@k and R@k are of the test pairs that need these labels, over the documents that have such a pair.
"""

from __future__ import annotations

import argparse
import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.sparse import CSR, row_of_entry
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.metrics.ranking import metrics_of
from longtail.model import Model
from longtail.recipes import RECIPES
from longtail.topk import BoolArray, IntArray

KS = (1, 3, 5, 10)


def without(split: Split, kept: IntArray) -> Split:
    """The documents that still have a label, over the kept labels only."""
    filtered = None if split.filtered is None else split.filtered[:, kept]
    cut = Split(split.documents, split.targets[:, kept], filtered)
    return cut.take(np.flatnonzero(np.diff(cut.targets.indptr)))


def examples_of(split: Split, labels: IntArray) -> tuple[Texts, IntArray]:
    """Training documents of labels, and which of the labels each has."""
    matrix = split.targets[:, labels]
    return split.documents.take(row_of_entry(matrix)), matrix.indices.astype(np.int64)


def show(name: str, bundle: Model, test: Split, columns: IntArray, needed: CSR) -> None:
    """One line a score kind; column j of the bundle's labels is label columns[j] of the data set."""
    vectors = bundle.encode(test.documents)
    filtered = None if test.filtered is None else test.filtered[:, columns]
    for kind in bundle.kinds:
        top = bundle.search(vectors, max(KS), kind=kind, exclude=filtered)
        found = replace(top, ids=np.where(top.ids < 0, -1, columns[top.ids]))
        values = metrics_of(found, needed, ks=KS)
        figures = "  ".join(f"{name} {values[name]:5.1f}" for name in ("P@1", "P@3", "P@5", "R@1", "R@5", "R@10"))
        print(f"{name:24s} {kind:10s} {figures}", flush=True)


def held_out(count: int, share: float, seed: int) -> BoolArray:
    """(count,) which labels are taken out of training."""
    return np.random.default_rng(seed).permutation(count) < share * count


def main() -> None:
    """Train twice and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--recipe", default="ngame")
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    recipe: Any = RECIPES[options.recipe]
    epochs = options.epochs or inspect.signature(recipe).parameters["epochs"].default

    dataset = Dataset.read(options.data)
    assert dataset.test is not None
    out = held_out(len(dataset.labels), options.share, options.seed)
    kept, new = np.flatnonzero(~out), np.flatnonzero(out)
    needed = dataset.test.targets[:, new]
    rows = np.flatnonzero(np.diff(needed.indptr))
    test = dataset.test.take(rows)
    truth = CSR(test.targets.multiply(out[None, :]))
    print(f"{len(new):,} labels held out, {len(rows):,} test documents with {truth.nnz:,} pairs that need them")

    smaller = replace(
        dataset, train=without(dataset.train, kept), labels=dataset.labels.take(kept), graphs={}, test=None
    )
    bundle = recipe(smaller, epochs=epochs, seed=options.seed)
    columns = np.concatenate([kept, new])
    nothing = (dataset.train.documents.take(np.zeros(0, np.int64)), np.zeros(0, np.int64))
    for name, (examples, owners) in (
        ("added by text", nothing),
        ("added with examples", examples_of(dataset.train, new)),
    ):
        grown = bundle.followed_by(bundle.new_labels(dataset.labels.take(new), examples, owners))
        show(name, grown, test, columns, truth)
    whole = recipe(replace(dataset, graphs={}, test=None), epochs=epochs, seed=options.seed)
    show("trained with them", whole, test, np.arange(len(dataset.labels)), truth)


if __name__ == "__main__":
    main()
