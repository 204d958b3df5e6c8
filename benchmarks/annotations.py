"""How many of the labels that `longtail errors` lists as wrong or missing are: of those that are planted in a data set.

    python benchmarks/annotations.py DATA [--recipe unidec] [--folds 3] [--share 0.05]

A share of the labels of training documents is replaced and as many are left out, models are trained fold by fold, and
what they doubt is compared with what was planted. What was wrong before is taken for right.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from longtail.data.dataset import Dataset
from longtail.metrics.annotations import doubts
from longtail.recipes import RECIPES
from longtail.stages.unseen import of_folds
from longtail.testing.wrong_labels import with_wrong_labels

FIRST = (50, 200)


def main() -> None:
    """Print a row of a table for each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--recipe", default="unidec", choices=RECIPES)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.05)
    given = parser.parse_args()
    planted = with_wrong_labels(Dataset.read(given.data), given.share, seed=0)
    settings = {"hashes": planted.dataset.fingerprint(), "arguments": {"seed": 0}}
    found = of_folds(RECIPES[given.recipe], settings, planted.dataset, given.folds)
    parts = [part for part in found if part is not None]
    places = np.concatenate([part.rows for part in parts]).tolist()
    doubted = doubts([part.unseen for part in parts])
    print("| list | planted | pairs | right |", *(f"of the first {n} |" for n in FIRST), "found |")
    for kind, truth in (("wrong", planted.wrong), ("missing", planted.missing)):
        right = np.array([(places[one.document], one.label) in truth for one in doubted if one.kind == kind])
        shares = (f"{100 * right[:n].mean() if len(right) else 0:.0f} %" for n in (None, *FIRST))
        cells = f"{len(truth):,}", f"{len(right):,}", *shares, f"{100 * right.sum() / len(truth):.1f} %"
        print(f"| likely {kind} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
