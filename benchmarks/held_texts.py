"""A step of a transformer that holds the activations of few texts, beside one that holds those of all.

    python benchmarks/held_texts.py DATA [--encoder minilm] [--texts 512] [--at-once 32] [--rounds 3]

Each is taken in processes of their own, in turns: seconds of forward and backward pass of so many titles in training
mode, and the most bytes that the process held beyond those before the step.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

import numpy as np
import torch

from longtail import Dataset
from longtail.memory import peak_bytes, resident_bytes
from longtail.modules.encoders.named import make_encoder
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.text.tokens import token_table


def step(data: str, encoder: str, texts: int, at_once: int | None) -> tuple[float, int]:
    """Seconds of a second step, and bytes."""
    generator = torch.Generator().manual_seed(0)
    model = make_encoder(encoder, (), width=0, max_length=32, generator=generator).train()
    assert isinstance(model, TransformerEncoder)
    model.texts_at_once = at_once
    titles = Dataset.read(data).train.documents.take(np.arange(texts))
    table = token_table(titles, ("title",), model.tokenizer)
    batch = model.tokenizer.batch(table, np.arange(texts))
    seconds, before = 0.0, resident_bytes()
    for _ in range(2):
        start = time.process_time()
        vectors = model(batch)
        (vectors @ vectors.T / 0.05).log_softmax(1).diagonal().sum().backward()  # type: ignore[no-untyped-call]
        seconds = time.process_time() - start
    return seconds, peak_bytes() - before


def main() -> None:
    """Print medians, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--texts", type=int, default=512)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--step", type=int, help="take one step with so many at once, 0 for all, and print it")
    given = parser.parse_args()
    if given.step is not None:
        print(*step(given.data, given.encoder, given.texts, given.step or None))
        return
    found: dict[int, list[tuple[float, float]]] = {0: [], given.at_once: []}
    for _ in range(given.rounds):
        for at_once, steps in found.items():
            command = [sys.executable, __file__, given.data, "--encoder", given.encoder]
            command += ["--texts", str(given.texts), "--step", str(at_once)]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            steps.append((float(said[0]), float(said[1])))
    medians = {
        at_once: [statistics.median(column) for column in zip(*steps, strict=True)] for at_once, steps in found.items()
    }
    for at_once, (seconds, size) in medians.items():
        print(f"{at_once or 'all'} at once: {seconds:.2f} s of processor time, {size / 2**20:,.0f} MiB")
    ratios = [few / whole for few, whole in zip(medians[given.at_once], medians[0], strict=True)]
    print(f"{ratios[0]:.2f} times the time, {ratios[1]:.2f} times the memory")


if __name__ == "__main__":
    main()
