"""Time and memory of the walk with restart on made-up graphs of 1, 3 and 10 million edges.

    python benchmarks/walk.py [EDGES ...]

The graphs have the averages of the hyperlink graph of the RAMEN paper (40 edges a row, 12 a node), with rows and nodes
of very differing degree. A process each, one thread, and its processor time; memory is the peak of the process, edges
included.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import numpy as np

from longtail.data.sparse import CSR, csr
from longtail.transforms.walk import walk

SIZES = (1_000_000, 3_000_000, 10_000_000)


def graph(edges: int) -> CSR:
    """About ``edges`` edges (some are drawn twice); a row or node of low number has more."""
    rng = np.random.default_rng(0)
    rows, nodes = edges // 40, edges // 12
    row = (rows * rng.random(edges) ** 1.5).astype(np.int64)
    node = (nodes * rng.random(edges) ** 2.5).astype(np.int64)
    return csr(row, node, (rows, nodes))


def one(size: int) -> None:
    """Walk on one graph, and print a line of the table."""
    edges = graph(size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    start = time.process_time()
    found = walk(edges)
    seconds = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    rows, nodes = edges.shape
    print(
        f"| {edges.nnz:,} | {rows:,} | {nodes:,} | {found.nnz:,} | {seconds:.0f} s | {memory:.1f} ({before:.1f}) GiB |"
    )


if __name__ == "__main__":
    if len(sys.argv) == 2:
        one(int(sys.argv[1]))
    else:
        print("| edges | rows | nodes | kept | processor time | peak memory (before the walk) |", flush=True)
        print("|---|---|---|---|---|---|", flush=True)
        for size in sys.argv[1:] or SIZES:
            subprocess.run([sys.executable, __file__, str(size)], check=True)
