"""What a run's scores are worth by three filters: what goes with labels is judged by none that forgives it.

    longtail data split SET --rows 4000 --seed 1 --at-random --out CUT
    longtail train unidec CUT --no-refit --out RUN
    python benchmarks/ways_back.py RUN CUT

A way back is a pair of which training holds the other direction (docs/guides/filters.md). The filter of a data set may
have those that are not true, so that whoever says all of them is right each time. So metrics are given by that filter,
by one of documents and themselves alone, where a way back that is not true is wrong, and without any way back, in the
truth or the ranking.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from longtail.data.dataset import Dataset, Propensity
from longtail.data.filters import identity_pairs, reciprocal_pairs, union, without
from longtail.data.split import Split
from longtail.metrics.summary import Ranked, measure
from longtail.model import load
from longtail.model.evaluation import must_have_test

SHOWN = ("P@1", "P@3", "P@5", "PSP@1", "PSP@5", "R@5", "C@5")


def by_filter(dataset: Dataset, test: Split) -> dict[str, Split]:
    """The test split with each filter."""
    itself = identity_pairs(test.documents, dataset.labels)
    of_train = identity_pairs(dataset.train.documents, dataset.labels)
    back = union(itself, reciprocal_pairs(itself, of_train, dataset.train.targets))
    return {
        "the data set's": test,
        "documents and themselves": replace(test, filtered=without(itself, test.targets)),
        "no way back at all": replace(test, targets=without(test.targets, back), filtered=back),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("data")
    given = parser.parse_args()
    model = load(given.run, changes=False)
    dataset = Dataset.read(given.data, fields=model.fields)
    test = must_have_test(dataset)
    vectors, constants = model.encode(test.documents), dataset.propensity or Propensity(0.55, 1.5)
    kinds: list[str] = [kind for kind in ("fused", "memory") if kind in model.kinds]
    print("| filter | score |", *(f" {name} |" for name in SHOWN), sep="")
    print("|", "---|" * (2 + len(SHOWN)), sep="")
    for name, split in by_filter(dataset, test).items():
        tops = {kind: model.search(vectors, 10, kind=kind, exclude=split.filtered) for kind in kinds}
        ranked = Ranked(vectors, tops, dict.fromkeys(kinds, 0.0))
        found = measure(ranked, split.targets, dataset.train.targets, [constants], headline=kinds[-1])
        for kind in kinds:
            print(f"| {name} | `{kind}` |", *(f" {found.kinds[kind][of]:.1f} |" for of in SHOWN), sep="", flush=True)


if __name__ == "__main__":
    main()
