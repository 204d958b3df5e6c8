"""RAMEN: metadata graphs as a regulariser of the encoder, on either of two bases (Mittal et al., 2025)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.negatives import Mined
from longtail.batches.pool import Pool
from longtail.batches.samplers import Clustered, Sampler, Shuffled
from longtail.data.dataset import Dataset
from longtail.losses import loss_named
from longtail.model import Bundle
from longtail.options import COUNT, NATURAL, option
from longtail.recipes.papers import RAMEN
from longtail.stages.dual_encoder import train_encoder
from longtail.stages.frozen_encoder import ClassifierOptions, train_classifiers
from longtail.stages.graphs import GraphOptions, graph_terms
from longtail.stages.recipe import recipe
from longtail.stages.refresh import RefreshOptions, mine, regroup
from longtail.stages.task import read
from longtail.train.renewal import Moment, Renewal
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(GraphOptions, RefreshOptions, ClassifierOptions):
    """RAMEN."""

    base: str = option(
        "ngame",
        "ngame (batches of near documents, then classifiers and fusion) or ance (mined hard negatives)",
        choices=("ngame", "ance"),
    )
    mine_length: int = option(20, "hard negatives on the list of a document; base ance", within=COUNT)
    hard_negatives: int = option(
        1, "labels drawn for each document from its list of hard negatives; base ance", within=NATURAL
    )
    refresh_every: int = 1


@recipe(Options, paper=RAMEN)
def ramen(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train a dual encoder whose documents and labels are also drawn to their neighbours in metadata graphs.

    Source: RAMEN (Mittal et al., 2025). To the task loss comes a triplet loss for each graph and side: a document, or a
    label, shall be nearer to a neighbour than to the other nodes of the batch. Neighbours are found by a random walk,
    and pruned by the encoder while it trains; the weights of the terms are fixed, or bandits set them. The model is
    that of the base, and predicts without any graph. Departures and their measurements:
    docs/explanation/methods/ramen.md.
    """
    clustering, classify = o.base == "ngame", o.base == "ngame" and o.classifier_epochs > 0
    task = read(run, dataset, o)
    train, text = task.train, task.text
    graphs = graph_terms(task, o, loss=o.loss, first=o.refresh_from, every=o.refresh_every)
    clustered = Clustered(len(train), o.batch, seed=o.seed)
    sampler: Sampler = clustered if clustering else Shuffled(len(train), o.batch, seed=o.seed)
    mined = Mined(len(train), 0 if clustering else o.hard_negatives)
    pool = Pool(train.targets, positives=1, random=o.random_negatives, mined=mined)
    batches = text.batches(train, sampler, pool, graphs=graphs.pools)
    encoder_loss, label_loss = loss_named(o.loss), loss_named(o.classifier_loss)

    def objective(b: Batch) -> dict[str, Tensor]:
        x, z, *anchors = text.encode(b)  # (B, D), (P, D), (A, D)
        scores = x @ z.T  # (B, P)
        return {o.loss: encoder_loss(scores, b.targets, b.mask)} | graphs.terms(b, scores, x, z, anchors)

    def renew(at: Moment) -> None:
        x = text.embed(text.documents)
        if clustering:
            regroup(run, clustered, x, o, at)
        else:
            mined.renew(mine(run, train, x, text.embed(text.labels), o.mine_length))

    train_encoder(
        task,
        objective,
        batches,
        o,
        before_epoch=graphs.before_epoch,
        renewal=Renewal(o.renewed(), renew),
        others={"sampler": clustered, "mined": mined, "graphs": graphs},
    )

    vectors = {"encoder": text.embed(text.labels)}
    if classify:
        x = text.embed(text.documents)  # (N, D)
        vectors["classifier"] = train_classifiers(
            run, train, x, vectors["encoder"], label_loss, o, epochs=o.classifier_epochs
        )
    return task.model(vectors)
