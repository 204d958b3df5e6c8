"""What the exports of a run's transformers are worth: recall, size, and the time that texts take with and without.

    python benchmarks/export.py RUN [--texts 256] [--singles 100] [--repeats 5] [--keep NAME]

A copy of the run is exported in float32 and in 8 bits, whatever their recall, with one thread. Then test documents are
encoded by PyTorch and by both, and labels of single ones predicted, in turns, in this process. Prints a row for each:
recall@5 and the share of PyTorch's first five labels, on the documents that `longtail export` asks about; MB; texts
encoded a second, the median over repeats; and the median and the 90th percentile of a single prediction. With --keep,
the rows become the table NAME of `benchmarks/tables.py`.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import torch

import longtail
from longtail.data.dataset import Dataset
from longtail.model import Model, load, open_model
from longtail.train.progress import settings_of

RESULTS = Path(__file__).parent / "results"
HEAD = ["encoder", "recall@5", "the same first five", "MB", "texts a second", "ms a prediction", "90 % within"]


def taken(models: dict[str, Model], dataset: Dataset, options: argparse.Namespace) -> dict[str, list[str]]:
    """The cells of times, by model."""
    assert dataset.test is not None
    rows = np.linspace(0, len(dataset.test) - 1, options.texts).astype(np.int64)
    documents = dataset.test.documents.take(rows)
    single = [dict(zip(documents.fields, row, strict=True)) for row in zip(*documents.fields.values(), strict=True)]
    encoding: dict[str, list[float]] = {name: [] for name in models}
    predicting: dict[str, list[float]] = {name: [] for name in models}
    for model in models.values():
        model.encode(documents)
    for _ in range(options.repeats):
        for name, model in models.items():
            start = time.perf_counter()
            model.encode(documents)
            encoding[name].append(len(documents) / (time.perf_counter() - start))
    for text in (single * options.singles)[: options.singles]:
        for name, model in models.items():
            start = time.perf_counter()
            model.predict([text])
            predicting[name].append(1000 * (time.perf_counter() - start))
    return {
        name: [f"{np.median(encoding[name]):,.0f}", *(f"{ms:.1f}" for ms in np.percentile(predicting[name], [50, 90]))]
        for name in models
    }


def main() -> None:
    """Export, take turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--singles", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--keep")
    options = parser.parse_args()
    torch.set_num_threads(1)
    settings = settings_of(options.run)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(shutil.copytree(options.run, Path(folder) / "run"))
        models: dict[str, Model] = {"PyTorch": open_model(run / "model", device=torch.device("cpu"))}
        dataset = Dataset.read(settings["data"], fields=models["PyTorch"].fields, graphs=())
        quality: dict[str, list[str]] = {}
        for name, int8 in (("ONNX, float32", False), ("ONNX, int8", True)):
            found = longtail.export(run, int8=int8, tolerance=1)
            for side, of, same in (("PyTorch", found.before, 1.0), (name, found.after, found.same)):
                quality[side] = [f"{of.recall:.4f}", f"{same:.1%}", f"{of.megabytes:.1f}"]
            models[name] = load(run, device="cpu")
            models[name].predict(["a text"])  # which opens the file that the next export takes the place of
        times = taken(models, dataset, options)
    table = [HEAD, *([name, *quality[name], *times[name]] for name in models)]
    for row in table:
        print("| " + " | ".join(row) + " |")
    if options.keep:
        machine = f"1 thread, {platform.machine()}"
        asked = {key: settings[key] for key in ("recipe", "arguments")}
        kept = {"scale": table, "date": datetime.now(timezone.utc).date().isoformat(), "machine": machine, **asked}
        (RESULTS / f"{options.keep}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
