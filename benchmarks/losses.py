"""Milliseconds of each loss, forward and backward, beside torch's own cross-entropy on the same scores.

    python benchmarks/losses.py [--rows 1024] [--pool 4096] [--positives 5] [--repeats 15] [--threads 1]

The functions take turns, so that other work on the machine falls on all of them alike.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from torch import Tensor
from torch.nn import functional

from longtail.losses.base import Loss
from longtail.losses.binary import binary_cross_entropy
from longtail.losses.softmax import decoupled_softmax, info_nce, sup_con
from longtail.losses.triplet import triplet


def log_softmax(scores: Tensor, _targets: Tensor, _mask: Tensor) -> Tensor:
    """What any loss over a pool pays at least."""
    return functional.log_softmax(scores, 1).sum()


def cross_entropy(scores: Tensor, _targets: Tensor, _mask: Tensor) -> Tensor:
    """One positive a row, the first column, and no mask."""
    return functional.cross_entropy(scores / 0.05, torch.zeros(len(scores), dtype=torch.int64))


def milliseconds(loss: Loss, scores: Tensor, targets: Tensor, mask: Tensor) -> float:
    """Time of one forward and backward pass."""
    leaf = scores.clone().requires_grad_()
    start = time.perf_counter()
    loss(leaf, targets, mask).backward()
    return 1000 * (time.perf_counter() - start)


def main() -> None:
    """Take turns, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in [("rows", 1024), ("pool", 4096), ("positives", 5), ("repeats", 15), ("threads", 1)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(options.rows, options.pool, generator=generator) * 2 - 1
    chosen = torch.randint(options.pool, (options.rows, options.positives), generator=generator)
    targets = torch.zeros_like(scores).scatter_(1, chosen, 1.0)
    mask = torch.rand(scores.shape, generator=generator) > 0.01

    losses: dict[str, Loss] = {
        "log_softmax": log_softmax,
        "cross_entropy": cross_entropy,
        "info_nce": info_nce,
        "sup_con": sup_con,
        "decoupled_softmax": decoupled_softmax,
        "triplet": triplet,
        "binary_cross_entropy": binary_cross_entropy,
    }
    times: dict[str, list[float]] = {name: [] for name in losses}
    for _ in range(options.repeats):
        for name, loss in losses.items():
            times[name].append(milliseconds(loss, scores, targets, mask))
    for name, values in times.items():
        print(f"{name:24} median {statistics.median(values):6.1f} ms   least {min(values):6.1f} ms")


if __name__ == "__main__":
    main()
