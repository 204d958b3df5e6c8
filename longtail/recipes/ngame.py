"""NGAME: a dual encoder on batches of near documents, classifiers on the frozen encoder, and one fused score."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.pool import Pool
from longtail.batches.samplers import Clustered
from longtail.data.dataset import Dataset
from longtail.losses import loss_named
from longtail.model import Bundle
from longtail.options import COUNT, NATURAL, option
from longtail.recipes.papers import NGAME
from longtail.stages.dual_encoder import train_encoder
from longtail.stages.frozen_encoder import ClassifierOptions, train_classifiers
from longtail.stages.recipe import recipe
from longtail.stages.refresh import ClusterOptions, regroup
from longtail.stages.task import read
from longtail.train.renewal import Moment, Renewal, When
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(ClusterOptions, ClassifierOptions):
    """NGAME."""

    cluster_from: int = option(2, "the first epoch whose batches are of near documents, counted from 0", within=NATURAL)
    cluster_every: int = option(1, "epochs between two clusterings", within=COUNT)


@recipe(Options, paper=NGAME)
def ngame(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train a dual encoder on batches of near documents, then a classifier a label, then the fusion of their scores.

    Source: NGAME (Dahiya et al., 2023). Documents that are near each other share a batch, so that the positives of one
    are hard negatives of the others, at no cost. The classifiers start from the embeddings of the labels' texts.
    Departures and their measurements: docs/explanation/methods/ngame.md.
    """
    task = read(run, dataset, o)
    train, text = task.train, task.text
    sampler = Clustered(len(train), o.batch, seed=o.seed)
    batches = text.batches(train, sampler, Pool(train.targets, positives=1, random=o.random_negatives))
    encoder_loss, label_loss = loss_named(o.loss), loss_named(o.classifier_loss)

    def objective(b: Batch) -> dict[str, Tensor]:
        x, z = text.encode(b)  # (B, D), (P, D)
        return {o.loss: encoder_loss(x @ z.T, b.targets, b.mask)}

    def renew(at: Moment) -> None:
        regroup(run, sampler, text.embed(text.documents), o, at)

    train_encoder(
        task,
        objective,
        batches,
        o,
        renewal=Renewal(When(o.cluster_from, o.cluster_every, o.refresh_steps), renew),
        others={"sampler": sampler},
    )

    vectors = {"encoder": text.embed(text.labels)}
    if o.classifier_epochs:
        x = text.embed(text.documents)  # (N, D)
        vectors["classifier"] = train_classifiers(
            run, train, x, vectors["encoder"], label_loss, o, epochs=o.classifier_epochs
        )
    return task.model(vectors)
