"""Steps of classifiers over every label beside their three bare matrix products, in turns, in one run.

    python benchmarks/chunked.py [--labels 1000000] [--width 256] [--batch 256] [--rounds 3] [--threads 2]

A step is what `fit` does with a batch: dropout, loss, the gradient of the documents, and the update of every classifier
(SGD in the backward pass), with five positives and one filtered pair a document. The bare products are those
that no implementation can leave out: scores x W^T, the documents' gradient G W, and the classifiers' gradient G^T x, of
the same sizes, some thousand labels at a time into buffers that stay in the cache.

The floor, for L labels, D numbers a vector and B documents, at the defaults:

- operations: 3 products of 2 B L D, 393 GFLOP together; then some ten for each of the B L = 256 million scores (the
  sigmoid or the exponential, and adding up). A softmax needs a fourth product: its first slope asks for the sum over
  all labels. So does the exact value of the binary cross-entropy; recipes take it from an eighth of the negatives.
- bytes: the table is read and written once, 2 x 4 L D = 2.0 GB (half of that in bfloat16; twice with momentum), which
  at 10 GB/s takes a tenth of the time of the products; a softmax reads it once more. Scores stay in the cache.
- memory: the table, 4 L D = 1.0 GB (half in bfloat16, twice with momentum), and some ten MB of buffers.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from longtail.batches.batch import Batch
from longtail.data.sparse import CSR, csr
from longtail.losses.full.chunked import binary_cross_entropy, decoupled_softmax, sup_con
from longtail.losses.full.targets import SparseTargets
from longtail.memory import peak_bytes
from longtail.modules.table import Table
from longtail.text.tokens import VectorTokens
from longtail.train.fit import take_step
from longtail.train.in_backward import SGDInBackward
from longtail.train.optimizer import AdamW

LOSSES: dict[str, Callable[..., Tensor]] = {
    "binary cross-entropy, value from 1/8": partial(binary_cross_entropy, temperature=0.05, value_from=8),
    "binary cross-entropy, exact value": partial(binary_cross_entropy, temperature=0.05),
    "SupCon": sup_con,
    "decoupled softmax": decoupled_softmax,
}
TABLES = (("float32", torch.float32, 0.0), ("float32, momentum", torch.float32, 0.9), ("bfloat16", torch.bfloat16, 0.0))


def pairs(documents: int, labels: int, each: int, seed: int) -> CSR:
    """Some labels for each document."""
    draws = np.random.default_rng(seed).integers(labels, size=documents * each)
    return csr(np.repeat(np.arange(documents), each), draws, (documents, labels))


class Classifiers:
    """Everything that a step needs, for one kind of table."""

    def __init__(self, table: Table, momentum: float, batch: int) -> None:
        self.table = table
        width = table.width
        self.encoder = nn.Linear(width, width)
        self.optimizer = AdamW(self.encoder.parameters(), 1e-4)
        self.update = SGDInBackward(self.optimizer, table, 1e-3, momentum=momentum)
        rows, nothing = torch.arange(batch), torch.zeros(batch, 0)
        vectors = torch.randn(batch, width, generator=torch.Generator().manual_seed(1))
        self.batch = Batch(rows, VectorTokens(vectors), torch.zeros(0).long(), None, nothing, nothing.bool())
        self.targets = pairs(batch, len(table), 5, 0), pairs(batch, len(table), 1, 1)

    def step(self, loss: Callable[..., Tensor]) -> None:
        """One training step."""

        def objective(b: Batch) -> dict[str, Tensor]:
            assert isinstance(b.documents, VectorTokens)
            x = nn.functional.dropout(nn.functional.normalize(self.encoder(b.documents.values)), 0.5)
            return {"loss": loss(x, self.table, SparseTargets.of(*self.targets, b.rows), update=self.update)}

        take_step(objective, self.batch, self.optimizer, seed=0)


def products(x: Tensor, width: int, labels: int, at_once: int = 8192) -> None:
    """The three products, for labels that are the same few thousand again and again (so that none waits for memory)."""
    table, scores = torch.full((at_once, width), 0.01), torch.empty(at_once, len(x))
    dx, dtable = torch.zeros_like(x), torch.empty(at_once, width)
    for start in range(0, labels, at_once):
        size = min(at_once, labels - start)
        torch.mm(table[:size], x.T, out=scores[:size])
        dx.addmm_(scores[:size].T, table[:size])
        torch.mm(scores[:size], x, out=dtable[:size])


def seconds(action: Callable[[], object]) -> tuple[float, float]:
    """Wall-clock and processor time of one call."""
    start = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - start[0], time.process_time() - start[1]


def compare(name: str, step: Callable[[], object], bare: Callable[[], object], rounds: int) -> None:
    """Take turns, after one that warms up; print medians of wall-clock time, and both ratios."""
    times = np.array([[seconds(step), seconds(bare)] for _ in range(rounds + 1)])[1:]  # (rounds, 2, 2)
    (wall, cpu), (bare_wall, bare_cpu) = np.median(times, axis=0)
    print(
        f"{name:55} {wall:6.2f} s, bare products {bare_wall:6.2f} s: {wall / bare_wall:.2f} "
        f"({cpu / bare_cpu:.2f} by processor time), peak so far {peak_bytes() / 2**30:.2f} GiB",
        flush=True,
    )


def main() -> None:
    """Compare every loss with every kind of table, or some of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in [("labels", 1_000_000), ("width", 256), ("batch", 256), ("rounds", 3), ("threads", 2)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", default="", help="a part of the name of what is to be measured")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    bare = partial(products, torch.randn(options.batch, options.width), options.width, options.labels)
    for table, dtype, momentum in TABLES:
        names = [name for name in LOSSES if options.only in f"{table}, {name}"]
        if names:
            start = torch.randn(options.labels, options.width, dtype=dtype).mul_(options.width**-0.5)
            classifiers = Classifiers(Table(start), momentum, options.batch)
            for name in names:
                compare(f"{table}, {name}", partial(classifiers.step, LOSSES[name]), bare, options.rounds)


if __name__ == "__main__":
    main()
