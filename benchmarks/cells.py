"""Search of very many queries in cells of near labels beside exact search: processor time, products and recall.

    python benchmarks/cells.py [--labels 200000] [--queries 60000] [--width 256] [--k 6] [--spread 0.7]

Vectors are made up: labels in groups around 2,000 middles, as far from these as the spread says, beside a distance of 1
between middles in each of their numbers, and queries between two labels. The more they are scattered, the more cells
are looked into; what a training run met is in its `metrics.jsonl`.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from longtail.search.cells import near
from longtail.search.exact import Exact
from longtail.topk import FloatArray


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


def main() -> None:
    """Print a line of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("labels", 200_000), ("queries", 60_000), ("width", 256), ("k", 6)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--spread", type=float, default=0.7)
    given = parser.parse_args()
    table, asked = made_up(given.labels, given.queries, given.width, given.spread)
    device = torch.device("cpu")
    start = time.process_time()
    found, looked = near(table, asked, given.k, device=device, generator=np.random.default_rng(0))
    cells = time.process_time() - start
    assert looked is not None, "so few pairs are searched exactly"
    start = time.process_time()
    truth = Exact(table, device=device).search(asked, given.k)
    exact = time.process_time() - start
    recall = (found.ids[:, :, None] == truth.ids[:, None, :]).any(1).mean()
    print(f"exact: {exact:.1f} s of processor time")
    print(f"cells: {cells:.1f} s, {cells / exact:.2f} of it, {looked.share:.3f} of the products, recall {recall:.3f}")


if __name__ == "__main__":
    main()
