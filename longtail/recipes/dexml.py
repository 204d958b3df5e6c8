"""DEXML: one encoder for documents and labels, trained by a decoupled softmax over every label."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.negatives import Mined
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.dataset import Dataset
from longtail.errors import BadInput
from longtail.losses import LOSSES, full_loss_named, loss_named
from longtail.losses.full.targets import SparseTargets
from longtail.model import Bundle
from longtail.options import COUNT, NATURAL, POSITIVE, option
from longtail.recipes.all_labels_papers import DEXML
from longtail.stages.dual_encoder import train_encoder
from longtail.stages.held_out import FusionOptions
from longtail.stages.recipe import recipe
from longtail.stages.refresh import RenewalOptions, mine
from longtail.stages.task import EncoderOptions, read
from longtail.text.tokens import Tokens
from longtail.train.gradient_cache import encode_cached
from longtail.train.renewal import Moment, Renewal, When
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(RenewalOptions, EncoderOptions, FusionOptions):
    """DEXML."""

    random_negatives: int | None = option(  # type: ignore[assignment]
        None,
        "labels drawn at random into a pool (a shortlist), with a positive of each document; if left out, every label "
        "is in it",
        within=NATURAL,
    )
    hard_negatives: int = option(
        0, "wrong labels near each document that are drawn into a shortlist too", within=NATURAL
    )
    loss: str = option("decoupled_softmax", "of the encoder", choices=LOSSES)
    temperature: float = option(0.05, "of the loss", within=POSITIVE)
    refresh_from: int = option(2, "the first epoch with hard negatives, counted from 0", within=NATURAL)
    refresh_every: int = option(1, "epochs between two renewals of them", within=COUNT)
    labels_at_once: int = option(8192, "how many labels are encoded with their activations held", within=COUNT)
    batch: int = 1024
    warmup: float = 50


@recipe(Options, paper=DEXML)
def dexml(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train a dual encoder against all labels, or against a shortlist of them.

    Source: DEXML (Gupta et al., 2024): no classifiers and no sampled negatives. Every step encodes all labels, and the
    positives of a document compete with its negatives, not with each other. The labels are encoded some at a time, once
    for the loss and once more for the gradients, so that no more than that many are held with their activations.
    Departures and their measurements: docs/explanation/methods/dexml.md.
    """
    if o.random_negatives is None and o.hard_negatives:
        problem = f"expected 0 where every label is in the pool, found {o.hard_negatives}"
        raise BadInput("hard_negatives", problem, remedy="give random_negatives, too, for a shortlist")
    task = read(run, dataset, o)
    train, text, L = task.train, task.text, len(dataset.labels)
    sampler, mined = Shuffled(len(train), o.batch, seed=o.seed), Mined(len(train), o.hard_negatives)
    if o.random_negatives is None:
        batches = text.batches(train, sampler, Pool(train.targets, positives=0), encoded=False)
    else:
        batches = text.batches(train, sampler, Pool(train.targets, 1, o.random_negatives, mined))
    over_all_labels = full_loss_named(o.loss, temperature=o.temperature)
    over_pool = loss_named(o.loss, temperature=o.temperature)

    @cache
    def every_label() -> list[Tokens]:
        parts, tokens = np.array_split(np.arange(L), -(-L // o.labels_at_once)), text.source(text.labels)
        return [tokens(ids).to(run.device) for ids in parts]

    def objective(b: Batch) -> dict[str, Tensor]:
        if b.labels is not None:
            x, z = text.encode(b)  # (B, D), (P, D)
            return {"encoder": over_pool(x @ z.T, b.targets, b.mask)}
        x, z = text.encoder(b.documents), encode_cached(text.encoder, every_label())  # (B, D), (L, D)
        return {"encoder": over_all_labels(x, z, SparseTargets.of(train.targets, train.filtered, b.rows))}

    def renew(at: Moment) -> None:
        x, z = text.embed(text.documents), text.embed(text.labels)
        mined.renew(mine(run, train, x, z, o.hard_negatives * at.passes))

    when = When(o.refresh_from, o.refresh_every, o.refresh_steps)

    train_encoder(
        task,
        objective,
        batches,
        o,
        renewal=Renewal(when, renew) if o.hard_negatives else None,
        others={"mined": mined},
        reckoning=run.reckoning(text.encoder, L, text.labels),
    )
    return task.model({"encoder": text.embed(text.labels)})
