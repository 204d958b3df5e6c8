"""DePSL: the dual encoder of UniDEC alone, trained on some positives of each document and on hard negatives."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.negatives import Mined
from longtail.batches.pool import Pool
from longtail.batches.samplers import Clustered
from longtail.data.dataset import Dataset
from longtail.losses import loss_named
from longtail.model import Bundle
from longtail.options import COUNT, POSITIVE, option
from longtail.recipes.papers import DEPSL
from longtail.stages.recipe import recipe
from longtail.stages.refresh import RefreshOptions, renew
from longtail.stages.task import EncoderOptions, read
from longtail.train.optimizer import adamw
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(RefreshOptions, EncoderOptions):
    """DePSL."""

    positives: int | None = option(
        None, "how many true labels of each document are drawn into the pool (beta); all if left out", within=COUNT
    )
    symmetric: bool = option(False, "half of the loss in the other direction, from labels to documents")
    temperature: float | None = option(
        None, "of the loss; its own if left out (0.05 for a softmax, 0.1 for triplet)", within=POSITIVE
    )
    loss: str = "decoupled_softmax"


@recipe(Options, paper=DEPSL)
def depsl(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train a dual encoder with the pick-some-labels loss: UniDEC without its classifiers.

    Source: DePSL (the thesis, chapter 2, sections 2.3.1 and 2.3.2). Documents that are near each other share a batch;
    its pool holds some positives of each, and every true pair in it counts. Departures: docs/methods/unidec.md.
    """
    task = read(run, dataset, o)
    train, text = task.train, task.text
    sampler, mined = Clustered(len(train), o.batch, seed=o.seed), Mined(len(train), o.hard_negatives)
    batches = text.batches(train, sampler, Pool(train.targets, o.positives, o.random_negatives, mined))
    optimizer = adamw((text.encoder, text.rate(o.learning_rate)))
    encoder_loss = loss_named(o.loss, temperature=o.temperature, symmetric=o.symmetric)

    def objective(b: Batch) -> dict[str, Tensor]:
        x, z = text.encode(b)  # (B, D), (P, D)
        return {"encoder": encoder_loss(x @ z.T, b.targets, b.mask)}

    run.train(
        "encoder",
        objective,
        batches,
        optimizer,
        {"encoder": text.encoder},
        epochs=o.epochs,
        warmup=o.warmup,
        before_epoch=lambda epoch: renew(epoch, text, train, sampler, mined, o),
        others={"sampler": sampler, "mined": mined},
    )
    return task.model({"encoder": text.embed(text.labels)})
