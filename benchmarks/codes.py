"""What label vectors in fewer bits are worth: quality, size and time of a run's best score, with rescoring.

    longtail compare SET NAME=RECIPE:... --out COMPARISON
    python benchmarks/codes.py COMPARISON/runs/NAME/seed-0 SET

Each row is an index of `longtail index --method ROW` at its default recall, chosen by texts of labels; `exact` is
float32. Prints bytes a label (`binary` has a rotation of W x W numbers besides), how many labels are scored exactly for
ten places, the recall@10 that test documents find, what the ranking is worth, and the milliseconds that a text of a
batch takes, the median of five.
"""

from __future__ import annotations

import time

import numpy as np
from judged import SHOWN, Judged, row

from longtail.search import build_index
from longtail.search.base import Index
from longtail.search.faiss import recall

_METHODS, _PLACES, _REPEATS, _SAMPLE, _RECALL = ("float16", "int8", "binary"), 10, 5, 1000, 0.95


def main() -> None:
    """Print the table."""
    judged = Judged.asked(__doc__)
    model, scorer, labels = judged.model, judged.model.scorer(), len(judged.model.labels)
    queries, width = scorer.queries(judged.vectors), scorer.table(slice(0, 1)).shape[1]
    some = np.random.default_rng(0).permutation(labels)[:_SAMPLE]
    asked = model.queries(model.encode(model.labels.take(some)))
    truth = scorer.index.search(queries, _PLACES).ids

    def said(name: str, index: Index, size: int, exactly: str) -> str:
        found, seconds = recall(index.search(queries, _PLACES), truth), []
        for _ in range(_REPEATS):
            start = time.perf_counter()
            index.search(queries, _PLACES)
            seconds.append(time.perf_counter() - start)
        worth = judged.worth(index.search(queries, _PLACES, exclude=judged.test.filtered))
        cells = [f"{worth[metric]:.1f}" for metric in SHOWN]
        took = f"{1000 * np.median(seconds) / len(queries):.2f}"
        return row(f"`{name}`", f"{size:,}", exactly, f"{100 * found:.2f}", values=[*cells, took])

    print(row(scorer.name, "bytes a label", "scored exactly", "recall@10", values=[*SHOWN, "ms a text"]))
    print("|" + "---|" * (5 + len(SHOWN)))
    print(said("exact", scorer.index, 4 * width, "all"))
    for method in _METHODS:
        index = build_index(scorer.table, labels, asked, method=method, target=_RECALL)
        print(said(method, index, index.index.sa_code_size(), f"{index.measured.effort:,}"))


if __name__ == "__main__":
    main()
