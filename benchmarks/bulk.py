"""A job over Parquet files beside `Model.predict` of the same texts in memory: texts a second, and the peak of memory.

    python benchmarks/bulk.py RUN DATA [--rows 200000 1000000] [--parts 4] [--kind KIND] [--repeats 1]

Texts are titles of a data set, drawn at random. Each measurement is a process of its own: that of the job reads parts
and writes results, that in memory has all texts and gives arrays without names. Reading texts into memory and opening
the run are not in the seconds; both are in the memory. "CPU" is the time of the process on its cores, which a busy
neighbour changes less.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from longtail import Dataset, Ranker
from longtail.bulk.job import predict_parts
from longtail.memory import peak_bytes

_GROUP = 100_000  # rows of a row group


def write(data: str, folder: Path, rows: int, parts: int) -> None:
    """Write parts of texts."""
    titles = np.array([*Dataset.read(data).train.documents.fields["title"]], object)
    places = np.random.default_rng(0).integers(len(titles), size=rows)
    for i, own in enumerate(np.array_split(places, parts)):
        pq.write_table(pa.table({"number": own, "title": titles[own]}), folder / f"{i}.parquet", row_group_size=_GROUP)


def measure(run: str, folder: str, kind: str | None, way: str) -> dict[str, float]:
    """Texts, seconds and memory of one way, in this process."""
    ranker = Ranker(run, kind=kind)
    assert ranker.model
    with tempfile.TemporaryDirectory() as out:
        texts = pq.read_table(folder, columns=["title"])["title"].to_pylist() if way == "memory" else []
        start, cpu = time.perf_counter(), time.process_time()
        rows = len(ranker.model.predict(texts, kind=kind)) if texts else predict_parts(ranker, [folder], out).texts
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"texts": rows, "seconds": seconds, "cpu": cpu, "GiB": peak_bytes() / 2**30}


def main() -> None:
    """Take turns, and print a line a measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("data")
    parser.add_argument("--rows", type=int, nargs="+", default=[200_000, 1_000_000])
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--kind")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--memory-rows", type=int, default=200_000, help="most rows that are predicted in memory")
    parser.add_argument("--way", choices=["job", "memory"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        print(json.dumps(measure(options.run, options.data, options.kind, options.way)))
        return
    for rows in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            write(options.data, Path(folder), rows, options.parts)
            found: dict[str, list[dict[str, float]]] = {"job": [], "memory": []}
            for _ in range(options.repeats):
                for way in ["job", "memory"] if rows <= options.memory_rows else ["job"]:
                    command = [sys.executable, __file__, options.run, folder, "--way", way]
                    given = ["--kind", options.kind] if options.kind else []
                    done = subprocess.run([*command, *given], check=True, capture_output=True, text=True)
                    found[way].append(json.loads(done.stdout))
                    one = found[way][-1]
                    rates = f"{rows / one['seconds']:7,.0f} a second, {rows / one['cpu']:7,.0f} of CPU"
                    print(f"{rows:9,} {way:6}: {rates}, {one['GiB']:.2f} GiB", flush=True)
            if found["memory"]:
                clock, cpu = (
                    statistics.median(one[key] for one in found["memory"])
                    / statistics.median(one[key] for one in found["job"])
                    for key in ("seconds", "cpu")
                )
                print(
                    f"texts a second, job / memory, of medians: {clock:.2f} by the clock, {cpu:.2f} of CPU", flush=True
                )


if __name__ == "__main__":
    main()
