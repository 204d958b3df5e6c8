"""What one query costs: encoding, the bare product with all labels, exact search with and without a look in 8 bits.

    python benchmarks/single_query.py RUN [--queries 300] [--kind fused] [--pause 0.009]

Queries are titles of the test documents of the run's data set, one at a time, on one thread, in turns; medians of
processor time. Both searches must rank the same labels. With a pause, as between the requests of a quiet server, what a
query reads may have left the caches.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from longtail.data.dataset import Dataset
from longtail.data.sparse import CSR
from longtail.model import load

K = 5


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--kind")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds before each part of a query")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = load(options.run, device="cpu")
    settings = json.loads((options.run / "run.json").read_text(encoding="utf-8"))
    test = Dataset.read(settings["data"], fields=model.fields).test
    assert test is not None
    kind = options.kind or model.kinds[-1]
    texts = [test.documents.take(np.array([i])) for i in range(min(options.queries, len(test)))]
    queries = [model.queries(model.encode(text), kind) for text in texts]
    index, nothing = model.index(kind), CSR((1, len(model.labels)), dtype=np.float32)
    table = torch.from_numpy(np.array(model.table(kind)))
    parts: dict[str, Callable[[int], object]] = {
        "encoding": lambda i: model.encode(texts[i]),
        "bare product": lambda i: torch.from_numpy(queries[i]) @ table.T,
        "search in tiles": lambda i: index.search(queries[i], K, exclude=nothing),  # pairs to exclude go by tiles
        "search": lambda i: index.search(queries[i], K),
    }
    for i in range(len(texts)):
        tiles, prefiltered = (index.search(queries[i], K, exclude=given) for given in (nothing, None))
        assert (tiles.ids == prefiltered.ids).all(), f"query {i}"
    times: dict[str, list[float]] = {name: [] for name in parts}
    for i in range(len(texts)):
        for name, part in parts.items():
            time.sleep(options.pause)
            start = time.thread_time()
            part(i)
            times[name].append(1000 * (time.thread_time() - start))
    print(f"{len(model.labels):,} labels x {table.shape[1]}, {kind}, {len(texts)} queries")
    for name, found in times.items():
        print(f"{name:16s} {statistics.median(found):6.2f} ms")
    ratio = statistics.median(times["search in tiles"]) / statistics.median(times["search"])
    print(f"search in tiles / search: {ratio:.2f}")


if __name__ == "__main__":
    main()
