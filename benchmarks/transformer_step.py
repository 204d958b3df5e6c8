"""Seconds of one training step of a transformer: longtail against sentence-transformers, side by side.

Both train the same model with dropout, on the same pairs in the same order, with AdamW (fused) and the in-batch softmax
over cosines times 20 (InfoNCE; MultipleNegativesRankingLoss there). After every step of the other's own trainer comes
one of ours in the same process, so that a busy machine slows both. Printed are the median and the least wall time, and
the median of the time that the processor worked. On a busy machine give ``--threads 1``: threads that wait for each
other measure the neighbours. Needs ``pip install 'longtail[minilm]' 'sentence-transformers[train]'``.

    python benchmarks/transformer_step.py ../shared/data/MSDocs-SeeAlso --batch 64 --steps 20
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.sampler import DefaultBatchSampler
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch.utils.data import SequentialSampler
from transformers import TrainerCallback

from longtail.data.dataset import Dataset
from longtail.modules.encoders.base import encode_together
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.topk import IntArray

SCALE = 20.0
WARM_UP = 3


@dataclass
class Seconds:
    """Wall and processor seconds, step by step."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def summary(self) -> tuple[float, float, float]:
        """Median and least wall time, and median processor time, of the steps after the warm-up."""
        wall = self.wall[WARM_UP:]
        return statistics.median(wall), min(wall), statistics.median(self.processor[WARM_UP:])


def now() -> tuple[float, float]:
    """Wall clock and processor time; a device's queue is emptied first."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter(), time.process_time()


def record(seconds: Seconds, since: tuple[float, float]) -> None:
    """Add what has passed since then."""
    wall, processor = now()
    seconds.wall.append(wall - since[0])
    seconds.processor.append(processor - since[1])


class Turns(TrainerCallback):  # the trainer's interface asks for a subclass
    """Times each step of the trainer, from the end of our step to the end of its own, then takes one of ours."""

    def __init__(self, step: Callable[[int], None]) -> None:
        self.step, self.ours, self.theirs, self.start = step, Seconds(), Seconds(), now()

    def on_step_end(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        """The trainer has just updated its model."""
        record(self.theirs, self.start)
        begin = now()
        self.step(state.global_step - 1)
        record(self.ours, begin)
        self.start = now()


def read_pairs(folder: Path, count: int, seed: int) -> tuple[list[str], list[str], IntArray]:
    """Titles of sampled documents, titles of all labels, and one random label of each document."""
    dataset, random = Dataset.read(folder), np.random.default_rng(seed)
    targets = dataset.train.targets
    counts = np.diff(targets.indptr)
    rows = random.permutation(np.flatnonzero(counts))[:count]
    labels = targets.indices[targets.indptr[rows] + random.integers(counts[rows])]
    return list(dataset.train.documents.take(rows).joined(["title"])), list(dataset.labels.joined(["title"])), labels


def our_step(
    encoder: TransformerEncoder, documents: list[str], labels: list[str], label_of: IntArray, batch: int, rate: float
) -> Callable[[int], None]:
    """Step s: rows of the token tables, each label once, forward, backward, update."""
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=rate, weight_decay=0.0, fused=True)
    tokenizer, device = encoder.tokenizer, next(encoder.parameters()).device
    begin = time.perf_counter()
    document_table, label_table = tokenizer(documents), tokenizer(labels)
    seconds = (time.perf_counter() - begin) / (len(documents) + len(labels))
    print(f"tokenised once, before training: {seconds * 1e6:.0f} microseconds a text")

    def step(s: int) -> None:
        rows = np.arange(s * batch, (s + 1) * batch)
        pool, targets = np.unique(label_of[rows], return_inverse=True)
        texts = tokenizer.batch(document_table, rows).to(device), tokenizer.batch(label_table, pool).to(device)
        x, z = encode_together(encoder, *texts)  # (B, D), (P, D)
        F.cross_entropy(SCALE * x @ z.T, torch.from_numpy(targets).to(device)).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def their_trainer(
    model: SentenceTransformer, pairs: datasets.Dataset, arguments: argparse.Namespace, out: str, turns: Turns
) -> SentenceTransformerTrainer:
    """Their trainer, with its own loader and tokenisation, on the pairs in our order."""
    return SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            out,
            per_device_train_batch_size=arguments.batch,
            max_steps=arguments.steps + WARM_UP,
            learning_rate=arguments.learning_rate,
            lr_scheduler_type="constant",
            max_grad_norm=0.0,  # no clipping, as in our step
            optim="adamw_torch_fused",
            bf16=torch.cuda.is_available(),  # as our encoder does there
            batch_sampler=lambda data, batch_size, drop_last, **_: DefaultBatchSampler(
                SequentialSampler(data), batch_size=batch_size, drop_last=drop_last
            ),
            dataloader_pin_memory=torch.cuda.is_available(),
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
            save_strategy="no",
        ),
        train_dataset=pairs,
        loss=MultipleNegativesRankingLoss(model, scale=SCALE),
        callbacks=[turns],
    )


def arguments_of(description: str | None) -> argparse.Namespace:
    """What a script that times steps is told."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--max-length", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=2e-5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    return parser.parse_args()


def main() -> None:
    """Run both and print the medians."""
    arguments = arguments_of(__doc__)
    torch.set_num_threads(arguments.threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    count = arguments.batch * (arguments.steps + WARM_UP)
    documents, labels, label_of = read_pairs(arguments.data, count, arguments.seed)

    encoder = TransformerEncoder(arguments.model, max_length=arguments.max_length).to(device)
    with tempfile.TemporaryDirectory() as folder:
        encoder.save(Path(folder) / "model")
        model = SentenceTransformer(str(Path(folder) / "model"), device=str(device))
        first = documents[: arguments.batch]
        with torch.inference_mode():
            tokens = encoder.tokenizer.batch(encoder.tokenizer(first), np.arange(len(first)))
            vectors = encoder.eval()(tokens.to(device)).cpu().numpy()
        print(
            f"largest difference of two vectors of the first batch: {np.abs(vectors - model.encode(first)).max():.1e}"
        )

        rate = arguments.learning_rate
        turns = Turns(our_step(encoder.train(), documents, labels, label_of, arguments.batch, rate))
        pairs = datasets.Dataset.from_dict({"anchor": documents, "positive": [labels[i] for i in label_of]})
        trainer = their_trainer(model, pairs, arguments, folder, turns)
        turns.start = now()
        trainer.train()

    ours, theirs = turns.ours.summary(), turns.theirs.summary()
    ratios = tuple(their / our for their, our in zip(theirs, ours, strict=True))
    print(
        f"{arguments.model}, batch {arguments.batch}, at most {arguments.max_length} tokens, {arguments.steps} steps, "
        f"{arguments.threads} threads, {device.type}"
    )
    print(f"{'seconds a step':24}{'median':>12}{'fastest':>12}{'processor':>12}")
    for name, row in (("sentence-transformers", theirs), ("longtail", ours), ("times as fast", ratios)):
        print(f"{name:24}" + "".join(f"{value:12.2f}" for value in row))


if __name__ == "__main__":
    main()
