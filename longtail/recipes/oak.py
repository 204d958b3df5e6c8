"""OAK: documents enriched with what is known of the nodes that they are linked to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.pool import Pool
from longtail.batches.samplers import Clustered, Sampler, Shuffled
from longtail.data.dataset import Dataset
from longtail.losses import loss_named
from longtail.losses.calibration import calibration
from longtail.model import Bundle
from longtail.model.bundle import PLAIN
from longtail.modules.enrichment import Design
from longtail.options import BELOW_ONE, COUNT, NATURAL, POSITIVE, option
from longtail.recipes.ance import ance
from longtail.recipes.astec import astec
from longtail.recipes.decaf import decaf
from longtail.recipes.depsl import depsl
from longtail.recipes.dexml import dexml
from longtail.recipes.dpr import dpr
from longtail.recipes.eclare import eclare
from longtail.recipes.inceptionxml import inceptionxml
from longtail.recipes.inceptionxml_lf import inceptionxml_lf
from longtail.recipes.ngame import ngame
from longtail.recipes.papers import OAK
from longtail.recipes.ramen import ramen
from longtail.recipes.renee import renee
from longtail.recipes.siamesexml import siamesexml
from longtail.recipes.unidec import unidec
from longtail.stages.enriching import appended_to, enriched_documents
from longtail.stages.frozen_encoder import train_classifiers
from longtail.stages.held_out import hold_out
from longtail.stages.linking import LinkOptions, links_of
from longtail.stages.recipe import Recipe, recipe
from longtail.stages.refresh import ClusterOptions, due, regroup
from longtail.stages.task import Task, text_of
from longtail.train.optimizer import AdamW
from longtail.train.run import Run
from longtail.transforms import augmented

LINKERS: Mapping[str, Recipe] = {
    linker.__name__: linker
    for linker in (
        *(unidec, depsl, ramen, ngame, ance, dpr, siamesexml, astec, decaf, eclare),
        *(inceptionxml, inceptionxml_lf, renee, dexml),
    )
}


@dataclass(frozen=True, kw_only=True)
class Options(ClusterOptions, LinkOptions):
    """OAK."""

    base: str = option(
        "ngame",
        "ngame (batches of near documents, then classifiers and fusion) or dpr (shuffled batches, encoder only)",
        choices=("ngame", "dpr"),
    )
    linker: str = option(
        "unidec",
        "the recipe of the linker, trained with the graph's nodes as labels in a run of its own",
        choices=LINKERS,
    )
    bank: bool = option(True, "vectors of the nodes' own; without it nodes are encoded by the encoder (Table 4)")
    bank_residual: bool = option(
        False,
        "the bank starts at zero and is added to what the encoder says of the nodes in each step, so that a node "
        "without links is its text; else it starts at the untrained encoder's vectors, as published",
    )
    bank_learning_rate: float = option(2e-2, "of the bank", within=NATURAL)
    bank_row_wise: bool = option(
        False,
        "row-wise Adam for the bank: one second moment a node, for a third less memory",
    )
    combiner: str = option(
        "attention",
        "attention, mean (each node counts the same, Table 6), or early (the nodes' texts are appended to the "
        "document's, with neither bank nor plain document, Table 7)",
        choices=("attention", "mean", "early"),
    )
    combiner_learning_rate: float = option(1e-3, "of the combiner", within=NATURAL)
    heads: int = option(1, "of the attention", within=COUNT)
    spectral_norm: bool = option(True, "keep the combiner's projections at a spectral norm of 1")
    attention_temperature: float | None = option(
        None, "of the attention; the root of the width if left out", within=POSITIVE
    )
    attention_dropout: float = option(
        0.1, "share of the attention weights that are dropped in a step", within=BELOW_ONE
    )
    enriched_weight: float = option(1.0, "of the loss of enriched documents", within=NATURAL)
    plain_weight: float = option(
        1.0, "of the loss of the same documents without their nodes; 0 switches it off (Table 5)", within=NATURAL
    )
    calibration_weight: float = option(
        0.0, "of the calibration loss, 0.1 in the paper (Table 5); off, as it was worth nothing here", within=NATURAL
    )
    plain_classifiers: bool = option(
        True, "classifiers of documents without their nodes, too, which the fusion mixes with those of enriched ones"
    )
    cluster_from: int = option(
        2, "the first epoch whose batches are of near (enriched) documents, counted from 0; base ngame", within=NATURAL
    )
    cluster_every: int = option(1, "epochs between two clusterings", within=COUNT)


@recipe(Options, paper=OAK)
def oak(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train a linker of documents to the nodes of a graph, then an encoder of documents enriched with their nodes.

    Source: OAK (Mohan et al., 2024). Nodes (categories, linked pages, related queries) have a trainable vector each in
    a knowledge bank, started from their texts. A combiner attends to the nodes of a document and makes one enriched
    vector of both; losses on the enriched and the plain document, and a calibration loss between them, train encoder,
    bank and combiner. Classifiers of the labels on the frozen enriched documents follow. New documents have no links:
    the linker predicts them. Departures and their measurements: docs/explanation/methods/oak.md.
    """
    classify = o.base == "ngame" and o.classifier_epochs > 0
    validation = o.validation if o.base == "ngame" else 0.0  # linkers are measured, and may learn a fusion, on it
    linking = links_of(run, dataset, LINKERS[o.linker], o, validation=validation)
    rest, held_out = hold_out(dataset, validation, o.seed)
    rows = augmented(linking.into(rest), o.augment, seed=o.seed)
    train, edges, early = rows.train, linking.edges_of(rows), o.combiner == "early"
    # The vocabulary of a bag encoder has the words of nodes where it is to read them.
    documents = appended_to(train.documents, edges if early else None, linking.nodes, o.most_links)
    shown = replace(rows, train=replace(train, documents=documents))
    text = text_of(run, "text", shown, o)
    task = Task(run.recipe, rest, held_out, rows, text, tuple(o.fields), o)
    design = Design(o.combiner == "attention", o.heads, o.spectral_norm, o.attention_temperature, o.attention_dropout)
    late = None if early or edges is None else design
    known = enriched_documents(text, linking.nodes, late, most=o.most_links, bank=o.bank, residual=o.bank_residual)
    link = partial(known.link, documents=train.documents, fields=o.fields, nodes=linking.nodes)
    link(edges)  # true ones, for the plan
    clustered = Clustered(len(train), o.batch, seed=o.seed)
    sampler: Sampler = clustered if o.base == "ngame" else Shuffled(len(train), o.batch, seed=o.seed)
    pool = Pool(train.targets, positives=1, random=o.random_negatives)
    batches = text.batches(train, sampler, pool, documents=known.source, links=known.links)
    rate = text.rate(o.learning_rate)
    groups = known.groups(rate, o.combiner_learning_rate, o.bank_learning_rate, row_wise=o.bank_row_wise)
    optimizer = AdamW(groups, rate)
    encoder_loss, label_loss = loss_named(o.loss), loss_named(o.classifier_loss)

    def objective(b: Batch) -> dict[str, Tensor]:
        x, z, e, linked = known.views(b)  # (B, D), (P, D), (B, D), (B,)
        by_all = e @ z.T  # (B, P)
        terms = {"enriched": o.enriched_weight * encoder_loss(by_all, b.targets, b.mask)}
        if linked is None or not (o.plain_weight or o.calibration_weight):
            return terms
        by_text, seen, share = x @ z.T, b.mask & linked[:, None], linked.float().mean()  # (B, P), (B, P), ()
        if o.plain_weight:
            terms["plain"] = o.plain_weight * share * encoder_loss(by_text, b.targets, seen)
        if o.calibration_weight:
            apart = calibration(by_all, b.targets, seen, plain=by_text)
            terms["calibration"] = o.calibration_weight * share * apart
        return terms

    def before_epoch(epoch: int) -> None:
        if epoch == 0:
            known.fill()
        if o.base == "ngame" and due(epoch, o.cluster_from, o.cluster_every):
            regroup(run, clustered, known.documents(), o, epoch=epoch)

    linked_rows = linking.into(rest, linking.links_to_train_with())
    link(linking.edges_of(augmented(linked_rows, o.augment, seed=o.seed)), chances=linking.are_chances)
    run.train(
        "encoder",
        objective,
        batches,
        optimizer,
        known.modules,
        epochs=o.epochs,
        warmup=o.warmup,
        before_epoch=before_epoch,
        score=task.score(lambda: {"encoder": text.embed(text.labels)}),
        others={"sampler": clustered},
    )

    vectors = {"encoder": text.embed(text.labels)}
    linked = linking.linked(text, known.finished())
    if classify:
        z, x = vectors["encoder"], known.documents()  # (L, D), (N, D)
        vectors["classifier"] = train_classifiers(run, train, x, z, label_loss, o)
        if o.plain_classifiers and linked is not None and not early:
            vectors[PLAIN] = train_classifiers(run, train, text.embed(text.documents), z, label_loss, o, stage=PLAIN)
    return task.model(vectors, linked=linked)
