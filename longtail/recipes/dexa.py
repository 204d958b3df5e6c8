"""DEXA: NGAME with free vectors of label clusters, for what the texts of labels do not say (Dahiya et al., 2023)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.pool import Pool
from longtail.batches.samplers import Clustered
from longtail.data.dataset import Dataset
from longtail.losses import loss_named
from longtail.metrics.propensity import label_frequency
from longtail.model import Bundle
from longtail.modules.auxiliary import AuxiliaryVectors
from longtail.options import COUNT, NATURAL, option
from longtail.recipes.ngame import Options as OfNGAME
from longtail.recipes.papers import DEXA
from longtail.stages.frozen_encoder import train_classifiers
from longtail.stages.recipe import recipe
from longtail.stages.refresh import regroup
from longtail.stages.task import read
from longtail.topk import FloatArray, IntArray
from longtail.train.optimizer import adamw
from longtail.train.renewal import Moment, Renewal, When
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(OfNGAME):
    """DEXA."""

    own_vectors: int = option(1000, "labels, the most frequent ones, with an auxiliary vector each", within=NATURAL)
    label_cluster: int = option(2, "the most of the other labels that share an auxiliary vector", within=COUNT)


@recipe(Options, paper=DEXA)
def dexa(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train a dual encoder with free vectors of label clusters, then a classifier a label, then their fusion.

    Source: DEXA (Dahiya et al., 2023). The vector of a label is that of its text plus one that it shares with the
    labels near it under the encoder as it begins; frequent labels have one of their own. The rest is NGAME. Departures
    and their measurements: docs/explanation/methods/dexa.md.
    """
    task = read(run, dataset, o)
    train, text = task.train, task.text
    sampler = Clustered(len(train), o.batch, seed=o.seed)
    batches = text.batches(train, sampler, Pool(train.targets, positives=1, random=o.random_negatives))
    frequency = label_frequency(task.dataset.train.targets)
    auxiliary = AuxiliaryVectors(clusters_of(run, text.embed(text.labels), frequency, o), text.encoder.width)
    rate = text.rate(o.learning_rate)
    optimizer = adamw((text.encoder, rate), (auxiliary.to(run.device), rate))
    encoder_loss, label_loss = loss_named(o.loss), loss_named(o.classifier_loss)

    def objective(b: Batch) -> dict[str, Tensor]:
        x, z = text.encode(b)  # (B, D), (P, D)
        return {o.loss: encoder_loss(x @ auxiliary(b.label_ids, z).T, b.targets, b.mask)}

    def renew(at: Moment) -> None:
        regroup(run, sampler, text.embed(text.documents), o, at)

    def labels() -> FloatArray:
        return auxiliary.vectors(text.embed(text.labels))  # (L, D)

    run.train(
        "encoder",
        objective,
        batches,
        optimizer,
        {"encoder": text.encoder, "auxiliary": auxiliary},
        pace=o.pace(o.epochs),
        renewal=Renewal(When(o.cluster_from, o.cluster_every, o.refresh_steps), renew),
        score=task.score(lambda: {"encoder": labels()}),
        others={"sampler": sampler},
    )

    vectors = {"encoder": labels()}
    if o.classifier_epochs:
        x = text.embed(text.documents)  # (N, D)
        vectors["classifier"] = train_classifiers(
            run, train, x, vectors["encoder"], label_loss, o, epochs=o.classifier_epochs
        )
    return task.model(vectors)


def clusters_of(run: Run, z: FloatArray, frequency: IntArray, o: Options) -> IntArray:
    """Which auxiliary vector each label has, (L,): the most frequent ones their own, the others that of their cluster.

    Args:
        run: clusters.
        z: (L, D) the vectors of the labels' texts under the encoder as it begins.
        frequency: (L,) training documents of each label.
        o: how many have their own, and how many share one.
    """
    rarest_first = np.argsort(frequency, kind="stable")
    rest, head = np.split(rarest_first, [max(0, len(frequency) - o.own_vectors)])
    clusters = np.empty(len(frequency), np.int64)
    clusters[head] = np.arange(len(head))
    generator = np.random.default_rng([run.seed, 0, 0, 0, 8])
    clusters[rest] = len(head) + run.clusters("clusters of labels", z[rest], o.label_cluster, generator)
    return clusters
