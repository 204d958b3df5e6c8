"""Renee: an encoder and a classifier for every label, trained end to end against all labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.dataset import Dataset
from longtail.losses import LOSSES, full_loss_named
from longtail.losses.full.targets import SparseTargets
from longtail.losses.triplet import triplet
from longtail.model import Bundle
from longtail.modules.classifiers import Classifiers
from longtail.options import BELOW_ONE, NATURAL, POSITIVE, Range, option
from longtail.recipes.all_labels_papers import RENEE
from longtail.stages.biases import Start, some_rows
from longtail.stages.held_out import FusionOptions
from longtail.stages.recipe import recipe
from longtail.stages.task import MOST_OF_AUTO, EncoderOptions, read
from longtail.topk import FloatArray
from longtail.train.in_backward import SGDInBackward
from longtail.train.optimizer import adamw
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(EncoderOptions, FusionOptions):
    """Renee."""

    start_epochs: int = option(
        3, "passes in which the encoder alone is trained, as by dpr; 0 where it was trained before", within=NATURAL
    )
    epochs: int = option(
        4,
        "passes of the encoder and the classifiers together; or auto, see docs/guides/time.md",
        within=NATURAL,
        auto=MOST_OF_AUTO,
    )
    loss: str = option("binary_cross_entropy", "over all labels", choices=LOSSES)
    temperature: float = option(
        0.05,
        "inner products are divided by it: documents of unit length count in the logits as if they were longer by its "
        "inverse",
        within=POSITIVE,
    )
    bias: float | None = option(
        None,
        "where the bias of each classifier starts, in logits; where a document is expected to have as many labels as "
        "documents have if left out",
        within=Range(),
    )
    dropout: float = option(
        0.5, "share of a document vector's numbers that are dropped in a step of the classifiers", within=BELOW_ONE
    )
    slowdown: float = option(
        0.4, "learning-rate multiplier of the encoder beside the classifiers, on that of the start", within=NATURAL
    )
    classifier_learning_rate: float = option(
        1e-3, "of the classifiers, which are trained by SGD on the sum over the documents of a batch", within=NATURAL
    )
    momentum: float = option(0.0, "of the classifiers; 0 saves the memory of a second table", within=BELOW_ONE)
    weight_decay: float = option(0.0, "of the classifiers", within=NATURAL)
    bfloat16: bool = option(False, "keep the classifiers in half the memory, and round their steps by chance")


@recipe(Options, paper=RENEE)
def renee(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train an encoder and a classifier for every label end to end, each document against all labels.

    Source: Renee (Jain et al., 2023). The classifiers start from the embeddings of the labels' texts, under an encoder
    that was trained to bring documents near them; then both are trained by binary cross-entropy over every label. No
    gradient of the classifiers is ever held: they are stepped some thousand at a time. Departures and their
    measurements: docs/explanation/methods/renee.md.
    """
    task = read(run, dataset, o)
    train, text = task.train, task.text
    sampler, rate = Shuffled(len(train), o.batch, seed=o.seed), text.rate(o.learning_rate)
    L, dtype = len(dataset.labels), torch.bfloat16 if o.bfloat16 else torch.float32
    classifiers = Classifiers(L, text.encoder.width, dtype=dtype).to(run.device)
    optimizer = adamw((text.encoder, o.slowdown * rate))
    settings = {"momentum": o.momentum, "weight_decay": o.weight_decay}
    update = SGDInBackward(optimizer, classifiers.table, o.batch * o.classifier_learning_rate, **settings)
    over_all_labels = full_loss_named(o.loss, temperature=o.temperature)

    def beginning(b: Batch) -> dict[str, Tensor]:
        x, z = text.encode(b)  # (B, D), (P, D)
        return {"start": triplet(x @ z.T, b.targets, b.mask)}

    def objective(b: Batch) -> dict[str, Tensor]:
        x = F.dropout(text.encoder(b.documents), o.dropout)  # (B, D)
        x = F.pad(x, (0, 1), value=o.temperature)  # (B, D + 1)
        targets = SparseTargets.of(train.targets, train.filtered, b.rows)
        return {"classifier": over_all_labels(x, classifiers.table, targets, update=update)}

    def vectors() -> dict[str, FloatArray]:
        return {"encoder": text.embed(text.labels), "classifier": classifiers.vectors(o.temperature)}

    batches = text.batches(train, sampler, Pool(train.targets, random=o.random_negatives))
    start, trained = adamw((text.encoder, rate)), {"encoder": text.encoder}
    run.train("start", beginning, batches, start, trained, pace=o.pace(o.start_epochs))

    z, some = text.embed(text.labels), some_rows(train)  # (L, D)
    bias = np.full(L, o.bias or 0.0, np.float32)
    if o.bias is None:
        bias = Start(train, some, text.embed(text.documents.take(some)), z, o.temperature).bias(run)
    classifiers.start_from(z, bias)
    batches = text.batches(train, sampler, Pool(train.targets, positives=0), encoded=False)
    run.train(
        "joint",
        objective,
        batches,
        optimizer,
        {"encoder": text.encoder, "classifiers": classifiers},
        pace=o.pace(o.epochs),
        score=task.score(vectors),
        reckoning=run.reckoning(text.encoder, L),
    )
    return task.model(vectors())
