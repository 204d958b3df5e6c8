"""DePSL: the dual encoder of UniDEC alone, trained on some positives of each document and on hard negatives."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.negatives import Mined
from longtail.batches.samplers import Clustered
from longtail.data.dataset import Dataset
from longtail.losses import loss_named
from longtail.model import Bundle
from longtail.recipes.papers import DEPSL
from longtail.stages.dual_encoder import train_encoder
from longtail.stages.held_out import FusionOptions
from longtail.stages.picked import PickOptions, pool_of
from longtail.stages.recipe import recipe
from longtail.stages.refresh import renew
from longtail.stages.task import read
from longtail.stages.teacher import taught
from longtail.train.renewal import Renewal
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(PickOptions, FusionOptions):
    """DePSL."""


@recipe(Options, paper=DEPSL)
def depsl(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train a dual encoder with the pick-some-labels loss: UniDEC without its classifiers.

    Source: DePSL (the thesis, chapter 2, sections 2.3.1 and 2.3.2). Documents that are near each other share a batch;
    its pool holds some positives of each, and every true pair in it counts. Departures:
    docs/explanation/methods/unidec.md.
    """
    task = read(run, dataset, o)
    train, text = task.train, task.text
    sampler, mined = Clustered(len(train), o.batch, seed=o.seed), Mined(len(train), o.hard_negatives)
    batches = text.batches(train, sampler, pool_of(train.targets, mined, o))
    teacher_terms = taught(run, task, o)
    encoder_loss = loss_named(o.loss, temperature=o.temperature, symmetric=o.symmetric)

    def objective(b: Batch) -> dict[str, Tensor]:
        x, z = text.encode(b)  # (B, D), (P, D)
        scores = x @ z.T
        return {"encoder": encoder_loss(scores, b.targets, b.mask), **teacher_terms(b, encoder=scores)}

    train_encoder(
        task,
        objective,
        batches,
        o,
        renewal=Renewal(o.renewed(), lambda at: renew(at, text, train, sampler, mined, o)),
        others={"sampler": sampler, "mined": mined},
    )
    return task.model({"encoder": text.embed(text.labels)})
