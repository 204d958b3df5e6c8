"""What a text costs in batches, part by part, beside the bare matrix products that exact search cannot do without.

    python benchmarks/predict.py RUN [--texts 2048] [--repeats 9] [--threads 1 2]

Texts are the first test documents of the run's data set, all of them given at once, the parts in turns. A model that
keeps no memory is given one of its training documents, so that what it would cost is seen. "products" are the products
of the texts with all labels and with all documents that are remembered, in the tiles of exact search, into a buffer
that is allocated once: nothing is ranked. Prints a table in Markdown: medians with quartiles, in ms a text, of the
clock and of processor time (which other processes disturb less), and the ratio to "products" of the latter.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from longtail.data.dataset import Dataset
from longtail.model import load
from longtail.model.base import Model
from longtail.model.remembering import remember
from longtail.search.exact import Exact
from longtail.search.keys import keys_of
from longtail.search.remembering import SHORTLIST
from longtail.topk import FloatArray
from longtail.train.progress import settings_of

K = 5


def with_memory(model: Model, dataset: Dataset) -> Model:
    """The model, or, where it keeps no memory, one that has that of the training documents, at an even weight."""
    if model.memory is not None or model.fusion is None:
        return model
    weights = np.insert(model.fusion.weights, -1, [1.0, 0, 0], axis=0)
    return model.fused_by(model.fusion, remember(model, dataset.train.documents, dataset.train.targets, weights))


def products(pairs: list[tuple[FloatArray, FloatArray]]) -> Callable[[], None]:
    """What multiplies (n, D) queries by (L, D) tables in the tiles of exact search."""
    tensors = [(torch.from_numpy(queries), torch.from_numpy(np.array(table))) for queries, table in pairs]
    height, width = Exact(pairs[0][1][:1]).query_block, Exact(pairs[0][1][:1]).label_block
    buffer: Tensor = torch.empty(height * width)

    def multiply() -> None:
        for queries, table in tensors:
            for labels in torch.split(table, width):
                for rows in torch.split(queries, height):
                    out = buffer[: len(rows) * len(labels)].view(len(rows), len(labels))
                    torch.matmul(rows, labels.T, out=out)

    return multiply


def parts_of(model: Model, dataset: Dataset, texts: int) -> tuple[int, dict[str, Callable[[], object]]]:
    """How many texts there are, and what is measured, by name."""
    assert dataset.test is not None
    documents = dataset.test.documents.take(np.arange(min(texts, len(dataset.test))))
    scorer = model.scorer()
    memory, vectors = scorer.memory, model.encode(documents)
    assert memory is not None
    assert model.memory is not None
    queries, keys = scorer.queries(vectors), keys_of(vectors, memory.columns)
    top = scorer.index.search(queries, SHORTLIST)
    pairs = [(np.ascontiguousarray(queries), scorer.table()), (keys, model.memory.keys.vectors)]
    print(", ".join(f"{len(table):,} x {table.shape[1]}" for _, table in pairs), end="; ")
    return len(documents), {
        "tokens and encoder": lambda: model.encode(documents),
        "search among labels": lambda: scorer.index.search(queries, SHORTLIST),
        "search among documents": lambda: memory.neighbours(keys),
        "with votes and rescoring": lambda: memory.rescored(
            vectors, top, lambda i, ids: np.einsum("ij,ij->i", queries[i], scorer.table(ids)), K
        ),
        "names": lambda: list(model.named(top.first(K))),
        "all": lambda: list(model.named(model.rank(documents, K))),
        "products": products(pairs),
    }


def main() -> None:
    """Take turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--texts", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    model = load(options.run, device="cpu", changes=False)
    dataset = Dataset.read(settings_of(options.run)["data"], fields=model.fields)
    count, parts = parts_of(with_memory(model, dataset), dataset, options.texts)
    print(f"{count:,} texts, {options.repeats} repeats, load {os.getloadavg()[0]:.1f}\n")
    print("| threads | part | clock: median | quartiles | processor: median | quartiles | of the products |")
    print("|---|---|---|---|---|---|---|")
    for threads in options.threads:
        torch.set_num_threads(threads)
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in parts}
        for part in parts.values():
            part()
        for _ in range(options.repeats):
            for name, part in parts.items():
                clock, processor = time.perf_counter(), time.process_time()
                part()
                times[name].append((time.perf_counter() - clock, time.process_time() - processor))
        found = {name: 1000 / count * np.percentile(taken, [50, 25, 75], axis=0) for name, taken in times.items()}
        for name, (middle, low, high) in found.items():
            cells = [f"{middle[i]:.2f} | {low[i]:.2f} to {high[i]:.2f}" for i in (0, 1)]
            print(f"| {threads} | {name} | {' | '.join(cells)} | {middle[1] / found['products'][0][1]:.2f} |")


if __name__ == "__main__":
    main()
