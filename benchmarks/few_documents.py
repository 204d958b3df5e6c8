"""A smaller data set: some training documents of one, drawn at random, with the labels that these have.

    python benchmarks/few_documents.py DATA --rows 1000 --out FEW
    python benchmarks/few_documents.py DATA --rows 12000 --tests 8000 --all-labels --out PART

Test documents keep those of their labels that are left, and go where none is; graphs and filters are left out. So every
label has a training document: it is a closed set. With ``--all-labels`` nothing but training documents is left out, and
their edges in graphs. ``--tests`` keeps so many test documents.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from longtail.data.dataset import Dataset


def main() -> None:
    """Write the data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--tests", type=int)
    parser.add_argument("--all-labels", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    dataset = Dataset.read(given.data)
    train, test = dataset.train, dataset.test
    assert test is not None, "expected a test split"
    generator = np.random.default_rng(0)
    rows, asked = (
        np.sort(generator.permutation(len(split))[:count])
        for split, count in ((train, given.rows), (test, given.tests))
    )
    test = test.take(asked)
    if given.all_labels:
        replace(dataset.only_rows(rows), test=test).write(given.out)
        return
    train = train.take(rows)
    used = np.unique(train.targets.indices)
    some = np.flatnonzero(np.diff(test.targets[:, used].indptr))
    splits = (replace(split, targets=split.targets[:, used], filtered=None) for split in (train, test.take(some)))
    few, left = splits
    replace(dataset, train=few, test=left, labels=dataset.labels.take(used), graphs={}).write(given.out)


if __name__ == "__main__":
    main()
