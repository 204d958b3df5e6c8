"""Time and memory of Gandalf's soft targets at the size of LF-AmazonTitles-1.3M, on labels that are made up.

    python benchmarks/augment.py [--documents 2248619] [--labels 1305265] [--each 22] [--threshold 0.1]

A document has a topic, a stretch of label ids; most of its labels lie near the middle of that, and the others are
drawn by Zipf's law from all labels, so that some labels have a hundred thousand documents.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from longtail.data.cooccurrence import related_labels
from longtail.data.sparse import CSR


def made_up(documents: int, labels: int, each: int, seed: int) -> CSR:
    """(documents, labels) CSR of ones, at most ``each`` a row (a label drawn twice counts once)."""
    rng = np.random.default_rng(seed)
    heads = each // 4
    near = rng.integers(labels, size=(documents, 1)) + rng.normal(0, 15, (documents, each - heads)).astype(np.int64)
    zipf = (labels ** rng.random((documents, heads))).astype(np.int64)  # density 1 / rank
    ids = np.sort(np.concatenate([near % labels, zipf % labels], axis=1), axis=1)
    new = np.ones(ids.shape, bool)
    new[:, 1:] = ids[:, 1:] != ids[:, :-1]
    indptr = np.append(0, np.cumsum(new.sum(1)))
    return CSR((np.ones(int(indptr[-1]), np.float32), ids[new], indptr), shape=(documents, labels))


def peak() -> str:
    """The most memory that this process held so far."""
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB at most"


def main() -> None:
    """Make the label matrix, then the soft targets, and say what each took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("documents", 2_248_619), ("labels", 1_305_265), ("each", 22)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--threshold", type=float, default=0.1)
    options = parser.parse_args()
    targets = made_up(options.documents, options.labels, options.each, seed=0)
    most = int(np.bincount(targets.indices).max())
    print(f"{targets.shape[0]:,} documents, {targets.shape[1]:,} labels, {targets.nnz:,} pairs; the most frequent")
    print(f"label has {most:,} documents; {peak()}")
    start = time.perf_counter()
    related = related_labels(targets, np.arange(options.labels), threshold=options.threshold)
    seconds = time.perf_counter() - start
    print(f"{related.nnz:,} soft targets, {related.nnz / options.labels:.1f} a label, in {seconds:.0f} s; {peak()}")


if __name__ == "__main__":
    main()
