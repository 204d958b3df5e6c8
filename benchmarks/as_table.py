"""Some training documents of a data set as a CSV file, as a user would bring them: titles, and labels with bars."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

from longtail.data.dataset import Dataset


def main() -> None:
    """Write rows that are drawn at random."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--out", type=Path, default=Path("table.csv"))
    given = parser.parse_args()
    dataset = Dataset.read(given.data)
    titles, targets = dataset.train.documents.fields["title"], dataset.train.targets
    labels = [label.replace("|", "/") for label in dataset.labels.fields["title"]]
    with given.out.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["title", "labels"])
        for i in np.random.default_rng(0).permutation(len(titles))[: given.rows].tolist():
            ids = targets.indices[targets.indptr[i] : targets.indptr[i + 1]]
            table.writerow([titles[i], "|".join(labels[j] for j in ids.tolist())])


if __name__ == "__main__":
    main()
