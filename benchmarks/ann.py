"""Approximate search over a million labels, beside exact search: the time of single queries, and what they find.

    python benchmarks/ann.py RUN [--labels 1000000] [--queries 2000] [--method hnsw|ivfpq] [--out FOLDER]
    python benchmarks/ann.py RUN --own [--queries 2000] [--method hnsw|ivfpq]

Made-up labels, each half of the words of one real label and half of another's, get vectors from the encoder of RUN, and
every second one an example document; the table is that of the run's best score kind. Queries are titles made likewise
of the test documents of the run's data set; one half chooses the effort, and all figures are of the other. With
``--own``, labels and queries are the run's own labels and its test documents as they are.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.texts import Texts
from longtail.memory import peak_bytes
from longtail.model import Model, load
from longtail.search import build_index
from longtail.search.faiss import exact_in_blocks, recall
from longtail.topk import FloatArray, IntArray, TopK


def spliced(titles: list[str], count: int, generator: np.random.Generator) -> list[str]:
    """``count`` titles, each of the first half of one title's words and the second half of another's."""
    pairs = generator.integers(0, len(titles), (count, 2)).tolist()
    words = [title.split() for title in titles]
    return [" ".join(words[i][: (len(words[i]) + 1) // 2] + words[j][len(words[j]) // 2 :]) for i, j in pairs]


def many_labels(model: Model, count: int, generator: np.random.Generator) -> Model:
    """The model over made-up labels."""
    titles = spliced(list(model.labels.fields["title"]), count, generator)
    labels = Texts.of(titles, uids=[f"made-up-{i}" for i in range(count)])
    owners: IntArray = np.arange(0, count, 2)
    examples = Texts.of(spliced([titles[i] for i in owners.tolist()], len(owners), generator))
    return model.new_labels(labels, examples, owners)


def milliseconds(search: partial[TopK], queries: FloatArray, count: int) -> str:
    """Percentiles of the time of single queries."""
    times = []
    for i in range(min(count, len(queries))):
        start = time.perf_counter()
        search(queries[i : i + 1], k=10)
        times.append(1000 * (time.perf_counter() - start))
    p50, p95, p99 = np.percentile(times, [50, 95, 99])
    return f"p50 {p50:.2f} ms, p95 {p95:.2f} ms, p99 {p99:.2f} ms"


def main() -> None:
    """Make the labels, build the index, and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--labels", type=int, default=1_000_000)
    parser.add_argument("--own", action="store_true")
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--method", default="hnsw")
    parser.add_argument("--out", type=Path, help="keep the model and its index in this run folder")
    options = parser.parse_args()
    generator = np.random.default_rng(0)

    model = load(options.run, device="cpu")
    settings = json.loads((options.run / "run.json").read_text(encoding="utf-8"))
    test = Dataset.read(settings["data"], fields=model.fields).test
    assert test is not None
    start = time.monotonic()
    if options.own:
        large, asked = model, test.documents.take(np.arange(min(options.queries, len(test))))
    else:
        asked = Texts.of(spliced(list(test.documents.fields["title"]), options.queries, generator))
        large = many_labels(model, options.labels, generator)
    kind, labels = large.kinds[-1], len(large.labels)
    queries = large.queries(large.encode(asked), kind)
    print(f"{labels:,} labels, {kind}, width {queries.shape[1]}: {time.monotonic() - start:.0f} s", flush=True)
    if options.out is not None and not (options.out / "model").exists():
        large.save(options.out / "model")
    rows = partial(large.table, kind)
    start, processor = time.monotonic(), time.process_time()
    index = build_index(rows, labels, queries, method=options.method)
    took = f"{time.monotonic() - start:.0f} s, {time.process_time() - processor:.0f} s of processor time"
    print(f"{index.measured}, built in {took}, peak {peak_bytes() / 2**30:.1f} GiB", flush=True)
    if options.out is not None:
        index.save(options.out / "model" / "index" / kind)
    held, few = queries[1::2], 50
    truth = exact_in_blocks(rows, labels, held, 10)
    print(f"recall@10 {recall(index.search(held, 10), truth):.4f}")
    print("approximate:", milliseconds(partial(index.search), held, len(held)))
    print("exact:      ", milliseconds(partial(large.index(kind).search), held, few))


if __name__ == "__main__":
    main()
