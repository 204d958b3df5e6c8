"""Exact search beside its floor: the bare matrix product and top-k over the same tiles, in turns, in one run.

    python benchmarks/search.py [--queries 512] [--labels 300000] [--width 384] [--k 100] [--repeats 5] [--device cpu]

"bare" is `torch.matmul` of each tile, into a buffer that is allocated once, and `torch.topk` of it, with no merging, no
ids and no rule for ties: it does less than a search has to. "product" is the `torch.matmul` alone.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from longtail.search.exact import Exact


def unit_vectors(rows: int, width: int, seed: int) -> Tensor:
    """(rows, width) float32, uniform on the sphere."""
    return torch.nn.functional.normalize(torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)))


def bare(index: Exact, queries: Tensor, k: int) -> None:
    """The product and top-k of every tile of a search; k = 0 leaves out the top-k."""
    buffer = torch.empty(index.query_block, index.label_block, device=index.device)
    for labels in index.table.split(index.label_block):
        for rows in queries.split(index.query_block):
            tile = buffer.flatten()[: len(rows) * len(labels)].view(len(rows), len(labels))
            torch.matmul(rows, labels.T, out=tile)
            if k:
                tile.topk(min(k, len(labels)))


def seconds(action: Callable[[], object], device: torch.device) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    action()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def main() -> None:
    """Take turns, and print medians and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in [("queries", 512), ("labels", 300_000), ("width", 384), ("k", 100), ("repeats", 5)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--query-block", type=int)
    parser.add_argument("--label-block", type=int)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()

    table = unit_vectors(options.labels, options.width, seed=0).numpy()
    queries = unit_vectors(options.queries, options.width, seed=1)
    index = Exact(table, device=options.device, query_block=options.query_block, label_block=options.label_block)
    there, rows = queries.to(index.device), queries.numpy()
    actions: dict[str, Callable[[], object]] = {
        "search": lambda: index.search(rows, options.k),
        "bare": lambda: bare(index, there, options.k),
        "product": lambda: bare(index, there, 0),
    }
    times: dict[str, list[float]] = {name: [] for name in actions}
    for repeat in range(options.repeats + 1):
        for name, action in actions.items():
            took = seconds(action, index.device)
            if repeat:  # the first round warms up
                times[name].append(took)
    median = {name: statistics.median(values) for name, values in times.items()}
    print(
        f"{options.queries} queries, {options.labels} labels, width {options.width}, k {options.k}, tiles of "
        f"{index.query_block} x {index.label_block}, {torch.get_num_threads()} threads, {options.repeats} repeats"
    )
    for name, value in median.items():
        print(f"{name:8} median {value:7.3f} s   least {min(times[name]):7.3f} s")
    for other in ("bare", "product"):
        print(f"search / {other:8} {median['search'] / median[other]:.2f}")


if __name__ == "__main__":
    main()
