"""OAK: documents enriched with what is known of the nodes that they are linked to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.loader import Loader
from longtail.batches.pool import Pool
from longtail.batches.samplers import Clustered, Sampler, Shuffled
from longtail.data.dataset import Dataset
from longtail.devices import choose_device
from longtail.errors import BadInput
from longtail.losses.calibration import calibration
from longtail.model import Bundle
from longtail.modules.enrichment import Design
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
from longtail.recipes.ramen import ramen
from longtail.recipes.renee import renee
from longtail.recipes.siamesexml import siamesexml
from longtail.recipes.unidec import unidec
from longtail.stages.enriching import appended_to, enriched_documents
from longtail.stages.fusion import fuse, hold_out
from longtail.stages.linking import links_of
from longtail.stages.text import begin, finish, learning_rate_of, loss_named, read_text, train_classifiers
from longtail.train.fit import fit, linear
from longtail.train.optimizer import AdamW
from longtail.train.plan import announce
from longtail.train.run import Run
from longtail.transforms.augment import augmented

BASES = ("ngame", "dpr")
LINKERS = {
    linker.__name__: linker
    for linker in (
        unidec,
        depsl,
        ramen,
        ngame,
        ance,
        dpr,
        siamesexml,
        astec,
        decaf,
        eclare,
        inceptionxml,
        inceptionxml_lf,
        renee,
        dexml,
    )
}
COMBINERS = ("attention", "mean", "early")


def oak(
    dataset: Dataset,
    *,
    out: str | Path | Run | None = None,
    graph: str | None = None,
    base: str = "ngame",
    linker: str = "ngame",
    linker_epochs: int = 6,
    share_encoder: bool = False,
    train_links: str = "true",
    folds: int = 2,
    links: int = 3,
    most_links: int = 15,
    bank: bool = True,
    bank_learning_rate: float = 2e-2,
    bank_row_wise: bool = False,
    combiner: str = "attention",
    combiner_learning_rate: float = 1e-3,
    heads: int = 1,
    spectral_norm: bool = True,
    attention_temperature: float | None = None,
    attention_dropout: float = 0.1,
    enriched_weight: float = 1.0,
    plain_weight: float = 1.0,
    calibration_weight: float = 0.0,
    encoder: str = "bag",
    fields: Sequence[str] = ("title",),
    width: int = 256,
    max_length: int = 32,
    static_vectors: str | None = None,
    augment: str = "none",
    epochs: int = 6,
    batch: int = 512,
    random_negatives: int = 512,
    loss: str = "triplet",
    learning_rate: float | None = None,
    warmup: int = 100,
    cluster_from: int = 2,
    cluster_every: int = 1,
    cluster_size: int = 8,
    classifier_loss: str = "decoupled_softmax",
    classifier_epochs: int = 6,
    classifier_learning_rate: float = 3e-3,
    dropout: float = 0.5,
    validation: float = 0.05,
    seed: int = 0,
    device: str = "auto",
) -> Bundle:
    """Train a linker of documents to the nodes of a graph, then an encoder of documents enriched with their nodes.

    Source: OAK (Mohan et al., 2024). Nodes (categories, linked pages, related queries) have a trainable vector each in
    a knowledge bank, started from their texts. A combiner attends to the nodes of a document and makes one enriched
    vector of both; losses on the enriched and the plain document, and a calibration loss between them, train encoder,
    bank and combiner. Classifiers of the labels on the frozen enriched documents follow. New documents have no links:
    the linker predicts them. Departures and their measurements: docs/methods/oak.md.

    Args:
        dataset: its training documents, labels and graph; the test split is not read.
        out: the run folder, for checkpoints, the log and the model; nothing is written if left out.
        graph: the graph whose nodes enrich documents; the only one if left out, and none for the base itself.
        base: ngame (batches of near documents, then classifiers and fusion) or dpr (shuffled batches, encoder only).
        linker: the recipe of the linker, trained with the graph's nodes as labels in a run of its own.
        linker_epochs: of the linker.
        share_encoder: no encoder of the linker's own: it is trained last, as classifiers of the nodes on the frozen
            encoder, so that a new document is encoded once for both.
        train_links: true, or out-of-fold (predicted by linkers that have not seen the document, as for new documents).
        folds: parts of the training documents for the out-of-fold links; each takes one more linker.
        links: nodes that the linker gives a document.
        most_links: nodes that a document has at most in training; of more, a random part in each step.
        bank: vectors of the nodes' own; without it nodes are encoded by the encoder (Table 4).
        bank_learning_rate: of the bank.
        bank_row_wise: keep one second moment a node for the bank, for a third less memory.
        combiner: attention, mean (each node counts the same, Table 6), or early (the nodes' texts are appended to the
            document's, with neither bank nor plain document, Table 7).
        combiner_learning_rate: of the combiner.
        heads: of the attention.
        spectral_norm: keep the combiner's projections at a spectral norm of 1.
        attention_temperature: of the attention; the root of the width if left out.
        attention_dropout: share of the attention weights that are dropped in a step.
        enriched_weight: of the loss of enriched documents.
        plain_weight: of the loss of the same documents without their nodes; 0 switches it off (Table 5).
        calibration_weight: of the calibration loss, 0.1 in the paper (Table 5); off, as it was worth nothing here.
        encoder: bag, minilm, or a transformer of Hugging Face or sentence-transformers by name or folder.
        fields: the fields of a text that the encoder reads.
        width: of the vectors of a bag encoder; a transformer has its own.
        max_length: tokens of a text that a transformer reads.
        static_vectors: an .npy file of word vectors that a bag encoder starts from, with its words in a .txt beside it.
        augment: training rows on top: none, gandalf (label texts with soft targets), or another augmentation, with its
            options as in gandalf:threshold=0.2; see docs/methods/gandalf.md. They have no links.
        epochs: of the encoder, passes over the training documents.
        batch: documents of a batch.
        random_negatives: labels drawn at random into each pool, on top of the positives of its documents.
        loss: of the encoder: triplet, decoupled_softmax, info_nce, sup_con or binary_cross_entropy.
        learning_rate: of the encoder; 4e-3 for a bag and 1e-4 for a transformer if left out.
        warmup: steps over which the learning rate rises; it falls linearly to 0 after that.
        cluster_from: the first epoch whose batches are of near (enriched) documents, counted from 0; base ngame.
        cluster_every: epochs between two clusterings.
        cluster_size: the most documents of a cluster.
        classifier_loss: triplet, decoupled_softmax, info_nce, sup_con or binary_cross_entropy; base ngame.
        classifier_epochs: passes over the training documents; 0 trains no classifiers; base ngame.
        classifier_learning_rate: of the classifiers.
        dropout: share of a document vector's numbers that are dropped in a step of the classifiers.
        validation: share of the training documents, 5,000 at most, held out to learn the fusion and to measure the
            linker; base ngame.
        seed: of all random numbers.
        device: cpu, cuda, or auto for a GPU where there is one.
    """
    run = begin("oak", locals())
    _check(base, combiner, linker)
    where, validation = choose_device(device), validation if base == "ngame" else 0.0
    linking = links_of(
        dataset,
        graph,
        LINKERS[linker],
        {
            "encoder": encoder,
            "fields": fields,
            "width": width,
            "max_length": max_length,
            "static_vectors": static_vectors,
            "epochs": linker_epochs,
            "batch": batch,
            "random_negatives": random_negatives,
            "seed": seed,
            "device": device,
        },
        validation,
        train_links,
        shared=share_encoder,
        run=run,
        device=where,
        seed=seed,
    )
    dataset, held_out = hold_out(dataset, validation, seed)
    rows = augmented(linking.into(dataset), augment, seed=seed)
    train, edges, early = rows.train, linking.edges_of(rows), combiner == "early"
    # The vocabulary of a bag encoder has the words of nodes where it is to read them.
    read = appended_to(train.documents, edges if early else None, linking.nodes, most_links)
    shown = replace(rows, train=replace(train, documents=read))
    text = read_text(shown, encoder, fields, width, max_length, static_vectors, run=run, device=where, seed=seed)
    design = Design(combiner == "attention", heads, spectral_norm, attention_temperature, attention_dropout)
    late = None if early or edges is None else design
    known = enriched_documents(text, linking.nodes, late, most=most_links, bank=bank, run=run, seed=seed)
    link = partial(known.link, documents=train.documents, fields=fields, nodes=linking.nodes)
    link(edges)  # true ones, for the plan
    clustered = Clustered(len(train), batch, seed=seed)
    sampler: Sampler = clustered if base == "ngame" else Shuffled(len(train), batch, seed=seed)
    pool = Pool(train.targets, positives=1, random=random_negatives)
    batches = Loader(train, sampler, pool, known.source, text.sources()[1], seed=seed, links=known.links)
    rate = learning_rate or learning_rate_of(text.encoder)
    optimizer = AdamW(known.groups(rate, combiner_learning_rate, bank_learning_rate, row_wise=bank_row_wise), rate)
    encoder_loss, label_loss = loss_named(loss), loss_named(classifier_loss)

    def objective(b: Batch) -> dict[str, Tensor]:
        x, z, e, linked = known.views(b)  # (B, D), (P, D), (B, D), (B,)
        by_all = e @ z.T  # (B, P)
        terms = {"enriched": enriched_weight * encoder_loss(by_all, b.targets, b.mask)}
        if linked is None or not (plain_weight or calibration_weight):
            return terms
        by_text, seen, share = x @ z.T, b.mask & linked[:, None], linked.float().mean()  # (B, P), (B, P), ()
        if plain_weight:
            terms["plain"] = plain_weight * share * encoder_loss(by_text, b.targets, seen)
        if calibration_weight:
            terms["calibration"] = calibration_weight * share * calibration(by_all, b.targets, seen, plain=by_text)
        return terms

    def before_epoch(epoch: int) -> None:
        if epoch == 0:
            known.fill()
        if base == "ngame" and epoch >= cluster_from and (epoch - cluster_from) % cluster_every == 0:
            clustered.regroup(known.documents(), cluster_size, device=where, epoch=epoch)

    announce(objective, batches, optimizer, run=run, modules=known.modules, epochs=epochs)
    linked_to = linking.links_to_train_with(train_links, folds=folds, most=links, seed=seed)
    link(linking.edges_of(augmented(linking.into(dataset, linked_to), augment, seed=seed)))
    fit(
        objective,
        batches,
        optimizer,
        run=run,
        stage="encoder",
        modules=known.modules,
        epochs=epochs,
        seed=seed,
        schedule=linear(warmup),
        before_epoch=before_epoch,
        others={"sampler": clustered},
    )

    classifiers = partial(
        train_classifiers,
        run,
        epochs=classifier_epochs,
        batch=batch,
        random_negatives=random_negatives,
        learning_rate=classifier_learning_rate,
        dropout=dropout,
        seed=seed,
        device=where,
    )
    vectors = {"encoder": text.embed(text.labels)}
    linked = linking.linked(text, fields, known.enrichment, links, partial(classifiers, epochs=linker_epochs))
    classify = base == "ngame" and classifier_epochs > 0
    if classify:
        vectors["classifier"] = classifiers(train, known.documents(), vectors["encoder"], label_loss)
    bundle = Bundle("oak", text.encoder, tuple(fields), dataset.labels, vectors, None, where, linked=linked)
    return finish(run, fuse(bundle, held_out, dataset.train.targets) if classify else bundle)


def _check(base: str, combiner: str, linker: str) -> None:
    for option, value, allowed in (
        ("--base", base, BASES),
        ("--combiner", combiner, COMBINERS),
        ("--linker", linker, LINKERS),
    ):
        if value not in allowed:
            raise BadInput(option, f"expected one of {', '.join(allowed)}, found {value}", remedy="choose one of those")
