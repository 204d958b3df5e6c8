"""Search of very many queries, by 8 bits alone or in cells of near labels, beside exact search: time and recall.

    python benchmarks/cells.py [--labels 200000] [--queries 60000] [--width 256] [--k 6] [--spread 0.7]
    python benchmarks/cells.py --run RUN --data DATA [--kind fused] [--queries 5000] [--k 100]

Vectors are made up: labels in groups around 2,000 middles, as far from these as the spread says, beside a distance of 1
between middles in each of their numbers, and queries between two labels. The more they are scattered, the more cells
are looked into; what a training run met is in its `metrics.jsonl`. So few pairs that no cells are made are compared by
8 bits alone. With a run, its labels and the first test documents take their place, and with `--train` the first
training documents. Threads are torch's (OMP_NUM_THREADS).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch

import longtail
from longtail import Dataset
from longtail.search.cells import Near
from longtail.search.exact import Exact
from longtail.topk import FloatArray

Found = TypeVar("Found")


def made_up(labels: int, queries: int, width: int, spread: float) -> tuple[FloatArray, FloatArray]:
    """Vectors of labels and of queries."""
    draws = np.random.default_rng(0)
    middles = draws.standard_normal((2000, width), np.float32)
    table = middles[draws.integers(len(middles), size=labels)] + spread * draws.standard_normal(
        (labels, width), np.float32
    )
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    one, other = (table[draws.integers(labels, size=queries)] for _ in range(2))
    return table, (one + 0.8 * other).astype(np.float32)


def of_run(run: str, data: str, kind: str, queries: int, *, train: bool) -> tuple[FloatArray, FloatArray]:
    """Vectors of a run's labels and of documents, for a score kind."""
    model, dataset = longtail.load(run), Dataset.read(data)
    split = dataset.train if train else dataset.test
    assert split is not None, "expected a test split"
    asked = model.encode(split.documents.take(np.arange(min(queries, len(split)))))
    return model.table(kind), model.queries(asked, kind)


def timed(search: Callable[[], Found]) -> tuple[Found, tuple[float, float]]:
    """What a search finds, and what it takes: seconds of the clock, and of processor time."""
    clock, processor = time.perf_counter(), time.process_time()
    found = search()
    return found, (time.perf_counter() - clock, time.process_time() - processor)


def main() -> None:
    """Print a line of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("labels", 200_000), ("queries", 60_000), ("width", 256), ("k", 6)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--spread", type=float, default=0.7)
    parser.add_argument("--run")
    parser.add_argument("--data")
    parser.add_argument("--kind", default="fused")
    parser.add_argument("--train", action="store_true")
    given = parser.parse_args()
    if given.run and not given.data:
        parser.error("expected --data with --run")
    if given.run:
        table, asked = of_run(given.run, given.data, given.kind, given.queries, train=given.train)
    else:
        table, asked = made_up(given.labels, given.queries, given.width, given.spread)
    device = torch.device("cpu")
    truth, exact = timed(lambda: Exact(table, device=device).search(asked, given.k))
    print(f"exact: {exact[0]:.1f} s, {exact[1]:.1f} s of processor time")
    generator = np.random.default_rng(0)
    (found, looked), took = timed(lambda: Near(table, device=device, generator=generator).search(asked, given.k))
    recall = (found.ids[:, :, None] == truth.ids[:, None, :]).any(1).mean()
    how = "8 bits alone" if looked is None else f"cells, {looked.share:.3f} of the products"
    print(f"{how}: {took[0]:.1f} s, {took[1]:.1f} s of processor time, {took[1] / exact[1]:.2f} of it, ", end="")
    print(f"recall {recall:.4f}")


if __name__ == "__main__":
    main()
