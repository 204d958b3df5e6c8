"""The bag encoder's training step beside the sum of its bare parts, in turns, in one run, on the titles of a data set.

    python benchmarks/bag_step.py DATA [--batch 512] [--random 512] [--width 256] [--batches 20] [--rounds 4]

The step is what `fit` does with a batch: encode documents and pool, score, loss, gradients, update. Its bare parts are
what no implementation in PyTorch can leave out, on the same batches and into buffers of the same size: the row gathers
of both sides and of their gradients (`embedding_bag`), the three matrix products of the scores and their gradients, and
the update of the distinct rows of the table and its two moments (gather, one fused elementwise pass, scatter).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import chain, islice
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from longtail.batches.batch import Batch
from longtail.batches.loader import Loader
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.dataset import Dataset
from longtail.losses.base import Loss
from longtail.losses.softmax import decoupled_softmax
from longtail.losses.triplet import triplet
from longtail.modules.encoders.bag import BagEncoder
from longtail.modules.encoders.base import encode_together
from longtail.text.bag import BagTokenizer
from longtail.text.tokens import BagTokens
from longtail.train.fit import take_step
from longtail.train.optimizer import AdamW

FIELDS = ("title",)
LOSSES = (triplet, decoupled_softmax)
ADAM: dict[str, Any] = {
    "lr": 1e-6,
    "beta1": 0.9,
    "beta2": 0.999,
    "weight_decay": 0.0,
    "eps": 1e-8,
    "amsgrad": False,
    "maximize": False,
}
Actions = dict[str, Callable[[], object]]


def loader(data: str, batch: int, random: int) -> tuple[BagTokenizer, Loader]:
    """Batches of titles, with one positive of each document and labels drawn at random."""
    dataset = Dataset.read(data, fields=FIELDS, test=False, graphs=())
    texts = [dataset.train.documents, dataset.labels]
    tokenizer = BagTokenizer.fit(chain.from_iterable(text.joined(FIELDS) for text in texts))
    documents, labels = (partial(tokenizer.batch, tokenizer(text.joined(FIELDS))) for text in texts)
    pool = Pool(dataset.train.targets, positives=1, random=random)
    return tokenizer, Loader(
        dataset.train, Shuffled(len(dataset.train), batch, seed=0), pool, documents, labels, seed=0
    )


class Bare:
    """The parts of a step, without anything around them."""

    def __init__(self, features: int, width: int) -> None:
        self.tables = [torch.randn(features, width, generator=torch.Generator().manual_seed(i)) for i in range(3)]
        self.step = torch.ones(())

    def parts(self, b: Batch) -> Actions:
        """Every part of the step of a batch, by name."""
        assert isinstance(b.documents, BagTokens)
        assert isinstance(b.labels, BagTokens)
        sides = (b.documents, b.labels)
        x, z = (self.gather(self.tables[0], side.ids, side.offsets, side.weights) for side in sides)
        scores = x @ z.T
        rows = torch.unique(torch.cat([side.ids for side in sides]))
        gradient = torch.randn(len(rows), x.shape[1], generator=torch.Generator().manual_seed(3)) * 1e-3
        actions: Actions = {}
        for name, side, vectors in (("documents", b.documents, x), ("labels", b.labels, z)):
            actions[f"gather {name}"] = partial(self.gather, self.tables[0], side.ids, side.offsets, side.weights)
            _, offsets, bags, weights = side.by_feature()
            actions[f"gather gradients of {name}"] = partial(self.gather, vectors, bags, offsets, weights)
        actions["scores"] = lambda: x @ z.T
        actions["gradient of document vectors"] = lambda: scores @ z
        actions["gradient of label vectors"] = lambda: scores.T @ x
        actions["update of rows"] = lambda: self.update(rows, gradient)
        return actions

    @staticmethod
    def gather(table: Tensor, ids: Tensor, offsets: Tensor, weights: Tensor) -> Tensor:
        """Weighted sums of rows."""
        return embedding_bag(ids, table, offsets, mode="sum", per_sample_weights=weights, include_last_offset=True)

    def update(self, rows: Tensor, gradient: Tensor, at_once: int = 2048) -> None:
        """Adam at some rows of a table and its moments, in blocks: the fastest size where threads sleep in between."""
        for ids, g in zip(rows.split(at_once), gradient.split(at_once), strict=True):
            value, first, second = (table.index_select(0, ids) for table in self.tables)
            torch._fused_adamw_([value], [g], [first], [second], [], [self.step], **ADAM)
            for table, part in zip(self.tables, (value, first, second), strict=True):
                table.index_copy_(0, ids, part)


def milliseconds(action: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - start)


def objective(encoder: BagEncoder, loss: Loss, b: Batch) -> dict[str, Tensor]:
    """The terms of a dual encoder, as in the recipes."""
    assert b.labels is not None
    x, z = encode_together(encoder, b.documents, b.labels)
    return {"loss": loss(x @ z.T, b.targets, b.mask)}


def take_turns(turns: list[Actions], rounds: int) -> dict[str, list[float]]:
    """Time every action of every turn, after a first round that warms up."""
    times: dict[str, list[float]] = {name: [] for name in turns[0]}
    for repeat in range(rounds + 1):
        for actions in turns:
            for name, action in actions.items():
                took = milliseconds(action)
                if repeat:
                    times[name].append(took)
    return times


def show(times: dict[str, list[float]]) -> None:
    """Print the parts, their sum, and the steps as multiples of it; medians, and the least in brackets."""
    steps = {name: times.pop(name) for name in [loss.__name__ for loss in LOSSES]}
    for name, values in times.items():
        print(f"{name:40} {statistics.median(values):6.1f} ({min(values):.1f})")
    middle, least = (sum(best(values) for values in times.values()) for best in (statistics.median, min))
    print(f"{'sum of the bare parts':40} {middle:6.1f} ({least:.1f})")
    for name, values in steps.items():
        median, best = statistics.median(values), min(values)
        print(f"{'step, ' + name:40} {median:6.1f} ({best:.1f})   ratio {median / middle:.2f} ({best / least:.2f})")


def main() -> None:
    """Take turns, and print medians and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    for name, default in [("batch", 512), ("random", 512), ("width", 256), ("batches", 20), ("rounds", 4)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    tokenizer, batches = loader(options.data, options.batch, options.random)
    start = time.perf_counter()
    some = list(islice(batches.epoch(0), options.batches))
    making = 1000 * (time.perf_counter() - start) / len(some)
    encoder = BagEncoder(tokenizer, options.width, generator=torch.Generator().manual_seed(0))
    optimizer, bare = AdamW(encoder.parameters(), 1e-3), Bare(len(tokenizer), options.width)

    def actions(b: Batch) -> Actions:
        terms = {loss.__name__: partial(objective, encoder, loss) for loss in LOSSES}
        steps = {name: partial(take_step, term, b, optimizer, seed=0) for name, term in terms.items()}
        return {**steps, **bare.parts(b)}

    pool = statistics.mean(len(b.label_ids) for b in some)
    print(
        f"batch {options.batch}, pool {pool:.0f}, width {options.width}, {len(tokenizer)} features, "
        f"{options.threads} threads, {options.batches} batches x {options.rounds} rounds; ms, median (least)"
    )
    print(f"{'making a batch, in another thread':40} {making:6.1f}")
    show(take_turns([actions(b) for b in some], options.rounds))


if __name__ == "__main__":
    main()
