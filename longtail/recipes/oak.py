"""OAK: documents enriched with what is known of the nodes that they are linked to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.pool import Pool
from longtail.batches.samplers import Clustered, Sampler, Shuffled
from longtail.data.dataset import Dataset
from longtail.losses import loss_named
from longtail.losses.calibration import calibration
from longtail.model import Bundle
from longtail.model.bundle import PLAIN
from longtail.options import COUNT, NATURAL, option
from longtail.recipes.papers import OAK
from longtail.stages.enriching import GraphEncoderOptions, read_enriched
from longtail.stages.frozen_encoder import ClassifierOptions, train_classifiers
from longtail.stages.graphs import GraphOptions, graph_terms
from longtail.stages.recipe import recipe
from longtail.stages.refresh import ClusterOptions, regroup
from longtail.train.optimizer import adamw
from longtail.train.renewal import Moment, Renewal, When
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(ClusterOptions, GraphEncoderOptions, ClassifierOptions, GraphOptions):
    """OAK."""

    base: str = option(
        "ngame",
        "ngame (batches of near documents, then classifiers and fusion) or dpr (shuffled batches, encoder only)",
        choices=("ngame", "dpr"),
    )
    calibration_weight: float = option(
        0.0, "of the calibration loss, 0.1 in the paper (Table 5); off, as it was worth nothing here", within=NATURAL
    )
    cluster_from: int = option(
        2, "the first epoch whose batches are of near (enriched) documents, counted from 0; base ngame", within=NATURAL
    )
    cluster_every: int = option(1, "epochs between two clusterings", within=COUNT)
    graphs: Sequence[str] = ("none",)
    graph_loss: str | None = None


@recipe(Options, paper=OAK)
def oak(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train a linker of documents to the nodes of a graph, then an encoder of documents enriched with their nodes.

    Source: OAK (Mohan et al., 2024). Nodes (categories, linked pages, related queries) have a trainable vector each in
    a knowledge bank, started from their texts. A combiner attends to the nodes of a document and makes one enriched
    vector of both; losses on the enriched and the plain document, and a calibration loss between them, train encoder,
    bank and combiner. Classifiers of the labels on the frozen enriched documents follow. New documents have no links:
    the linker predicts them. Departures and their measurements: docs/explanation/methods/oak.md.
    """
    return train_with_nodes(run, dataset, o)


def train_with_nodes(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train a model of documents with their nodes: the page of `oak`, and of the graph encoders beside it."""
    enriched = read_enriched(run, dataset, o)
    task, text = enriched.task, enriched.task.text
    train, known = task.train, enriched.enriched(text, o)
    graphs = graph_terms(task, o, loss=o.loss, first=o.cluster_from, every=o.cluster_every)
    clustered = Clustered(len(train), o.batch, seed=o.seed)
    sampler: Sampler = clustered if o.base == "ngame" else Shuffled(len(train), o.batch, seed=o.seed)
    pool = Pool(train.targets, positives=1, random=o.random_negatives)
    batches = text.batches(train, sampler, pool, documents=known.source, links=known.links, graphs=graphs.pools)
    rate = text.rate(o.learning_rate)
    optimizer = adamw((text.encoder, rate), more=known.groups(o))
    encoder_loss, label_loss = loss_named(o.loss), loss_named(o.classifier_loss)

    def objective(b: Batch) -> dict[str, Tensor]:
        x, z, *others = text.encode(b, *known.nodes(b))  # (B, D), (P, D)
        anchors, nodes = others[: len(b.nodes)], others[len(b.nodes) :]  # (A, D) each
        (e,), linked = known.views(b, nodes, x)  # (B, D), (B,)
        y = known.of_labels(b, nodes, z)  # (P, D)
        by_all = e @ y.T  # (B, P)
        terms = {"enriched": o.enriched_weight * encoder_loss(by_all, b.targets, b.mask)}
        terms |= graphs.terms(b, by_all, x, z, anchors)
        if linked is None or not (o.plain_weight or o.calibration_weight):
            return terms
        by_text, seen, share = known.alone(x) @ y.T, b.mask & linked[:, None], linked.float().mean()  # (B, P) twice, ()
        if o.plain_weight:
            terms["plain"] = o.plain_weight * share * encoder_loss(by_text, b.targets, seen)
        if o.calibration_weight:
            apart = calibration(by_all, b.targets, seen, plain=by_text)
            terms["calibration"] = o.calibration_weight * share * apart
        return terms

    def before_epoch(epoch: int) -> None:
        if epoch == 0:
            known.fill()
        graphs.before_epoch(epoch)

    def renew(at: Moment) -> None:
        regroup(run, clustered, known.documents(), o, at)

    when = When(o.cluster_from, o.cluster_every, o.refresh_steps)

    enriched.train_linkers(known)
    run.train(
        "encoder",
        objective,
        batches,
        optimizer,
        {"encoder": text.encoder, **known.modules},
        pace=o.pace(o.epochs),
        before_epoch=before_epoch,
        renewal=Renewal(when, renew) if o.base == "ngame" else None,
        score=task.score(lambda: {"encoder": known.labels()}, linked=lambda: enriched.linked_now(known)),
        others={"sampler": clustered, "graphs": graphs},
    )

    vectors = {"encoder": known.labels()}
    linked = enriched.linked(known)
    if o.base == "ngame" and o.classifier_epochs:
        z, x = vectors["encoder"], known.documents()  # (L, D), (N, D)
        vectors["classifier"] = train_classifiers(run, train, x, z, label_loss, o, epochs=o.classifier_epochs)
        if o.plain_classifiers and known.enrichment is not None:
            x = known.plain(text.embed(text.documents))
            vectors[PLAIN] = train_classifiers(run, train, x, z, label_loss, o, epochs=o.classifier_epochs, stage=PLAIN)
    return task.model(vectors, linked=linked)
