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

from dataclasses import replace

from judged import SHOWN, Judged, row

from longtail.data.dataset import Dataset
from longtail.data.filters import identity_pairs, reciprocal_pairs, union, without
from longtail.data.split import Split


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
    judged = Judged.asked(__doc__)
    print(row("filter", "score", values=SHOWN))
    print("|", "---|" * (2 + len(SHOWN)), sep="")
    for name, split in by_filter(judged.dataset, judged.test).items():
        for kind in ("fused", "memory"):
            if kind in judged.model.kinds:
                found = judged.metrics(judged.model, kind, split)
                print(row(name, f"`{kind}`", values=[f"{found[one]:.1f}" for one in SHOWN]), flush=True)


if __name__ == "__main__":
    main()
