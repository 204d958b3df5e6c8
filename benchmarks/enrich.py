"""What the enrichment of OAK adds to the time of a prediction: the same encoder with and without linker and bank.

    python benchmarks/enrich.py examples/debian-packages [--encoder minilm] [--nodes 20000] [--labels 20000]
        [--texts 512] [--links 3] [--rounds 5]

Texts are titles of training documents. Labels, nodes and bank have random vectors: only the time is of interest. In
turns, in one run, medians over rounds: the model without nodes; with a linker that shares the encoder; with a linker
that has an encoder of its own, as large.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time

import numpy as np
import torch

from longtail.data.dataset import Dataset
from longtail.data.texts import Strings, Texts
from longtail.model import Bundle
from longtail.modules.combiners import Design, make_combiner
from longtail.modules.encoders.bag import BagEncoder
from longtail.modules.encoders.base import Encoder
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.modules.enrichment import Enrichment
from longtail.modules.linker import Linked
from longtail.text.bag import BagTokenizer
from longtail.topk import FloatArray

CPU = torch.device("cpu")


def units(rows: int, width: int, seed: int) -> FloatArray:
    """Random rows of unit length."""
    made = np.random.default_rng(seed).standard_normal((rows, width)).astype(np.float32)
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), np.float32)


def numbered(rows: int) -> Texts:
    """Texts that are numbers."""
    return Texts(Strings.of([""] * rows), {"title": Strings.of(map(str, range(rows)))})


def model(encoder: Encoder, labels: int, seed: int, linked: Linked | None = None) -> Bundle:
    """A model with random vectors."""
    vectors = {"encoder": units(labels, encoder.width, seed)}
    return Bundle("random", encoder, ("title",), numbered(labels), vectors, None, CPU, linked=linked)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--encoder", default="minilm")
    for name, default in (("nodes", 20_000), ("labels", 20_000), ("texts", 512), ("links", 3), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    documents = Dataset.read(options.data, fields=("title",), test=False, graphs=()).train.documents
    encoder: Encoder
    if options.encoder == "bag":
        encoder = BagEncoder(BagTokenizer.fit(documents.joined(("title",))), 256, generator=torch.Generator())
    else:
        encoder = TransformerEncoder(options.encoder, max_length=32).eval()
    enrichment = Enrichment(units(options.nodes, encoder.width, 1), make_combiner(encoder.width, Design())).eval()
    own = model(copy.deepcopy(encoder), options.nodes, 2)
    shared = model(encoder, options.nodes, 2)
    models = {
        "without nodes": model(encoder, options.labels, 3),
        "shared encoder": model(encoder, options.labels, 3, Linked(shared, options.links, enrichment)),
        "encoder of its own": model(encoder, options.labels, 3, Linked(own, options.links, enrichment)),
    }
    times: dict[str, list[float]] = {name: [] for name in models}
    texts = documents.take(np.arange(min(options.texts, len(documents))))
    for turn in range(options.rounds + 1):
        for name, bundle in models.items():
            start = time.process_time()
            bundle.rank(texts, 5, kind="encoder")
            if turn:  # the first builds the indexes
                times[name].append(1000 * (time.process_time() - start) / len(texts))
    base = statistics.median(times["without nodes"])
    for name, found in times.items():
        median = statistics.median(found)
        print(f"{name:20s} {median:8.3f} ms of processor time a text, {100 * (median / base - 1):+6.1f} %", flush=True)


if __name__ == "__main__":
    main()
