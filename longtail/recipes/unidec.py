"""UniDEC: a dual encoder and a classifier a label, trained in one pass on the same pools of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.loader import Loader
from longtail.batches.negatives import Mined
from longtail.batches.pool import Pool
from longtail.batches.samplers import Clustered
from longtail.data.dataset import Dataset
from longtail.devices import choose_device
from longtail.evaluate.propensity import log_odds
from longtail.model import Bundle
from longtail.modules.classifiers import classifiers_named
from longtail.modules.heads import TwoHeads
from longtail.stages.fusion import fuse, hold_out
from longtail.stages.graphs import graph_terms
from longtail.stages.text import begin, finish, learning_rate_of, loss_named, mine, read_text
from longtail.train.fit import fit, linear
from longtail.train.optimizer import AdamW
from longtail.train.plan import announce
from longtail.train.run import Run
from longtail.transforms.augment import augmented


def unidec(
    dataset: Dataset,
    *,
    out: str | Path | Run | None = None,
    encoder: str = "bag",
    fields: Sequence[str] = ("title",),
    width: int = 256,
    max_length: int = 32,
    static_vectors: str | None = None,
    augment: str = "none",
    graphs: Sequence[str] = ("none",),
    projection: int = 0,
    classifiers: str = "residual",
    epochs: int = 6,
    batch: int = 512,
    positives: int | None = None,
    random_negatives: int = 512,
    hard_negatives: int = 3,
    loss: str = "decoupled_softmax",
    classifier_loss: str = "decoupled_softmax",
    binary_weight: float = 0.0,
    symmetric: bool = False,
    mix: float = 0.5,
    temperature: float | None = None,
    classifier_temperature: float = 0.1,
    dropout: float = 0.4,
    learning_rate: float | None = None,
    classifier_learning_rate: float = 4e-3,
    warmup: int = 100,
    refresh_from: int = 2,
    refresh_every: int = 2,
    cluster_size: int = 8,
    validation: float = 0.05,
    seed: int = 0,
    device: str = "auto",
) -> Bundle:
    """Train a dual encoder and a classifier a label in one pass, and learn how to weigh their scores.

    Source: UniDEC (the thesis, chapter 2, Algorithm 1). Documents that are near each other share a batch; its pool
    holds some positives of each (pick some labels), every true pair in it counts, and two losses share it: between the
    vectors of documents and of label texts, and between a second view of the documents and the classifiers. Departures,
    and the settings of the thesis: docs/methods/unidec.md.

    Args:
        dataset: its training documents and labels; the test split is not read.
        out: the run folder, for checkpoints, the log and the model; nothing is written if left out.
        encoder: bag, convolution, minilm, or a transformer of Hugging Face or sentence-transformers by name or folder.
        fields: the fields of a text that the encoder reads.
        width: of the vectors of a bag encoder, or of words for a convolution; a transformer has its own.
        max_length: tokens of a text that a transformer reads, or words that a convolution does.
        static_vectors: an .npy file of word vectors that a bag encoder starts from, with its words in a .txt beside it.
        augment: training rows on top: none, gandalf (label texts with soft targets), or another augmentation, with its
            options as in gandalf:threshold=0.2; see docs/methods/gandalf.md.
        graphs: names of the metadata graphs whose neighbours make loss terms on top (RAMEN), all, or none; see
            docs/methods/ramen.md.
        projection: width of the projections of the thesis on top of the encoder; 0 for none.
        classifiers: residual (the label's text plus a free vector, and a bias) or free (as in the thesis).
        epochs: passes over the training documents.
        batch: documents of a batch.
        positives: how many true labels of each document are drawn into the pool (beta); all if left out.
        random_negatives: labels drawn at random into each pool.
        hard_negatives: wrong labels near each document that are drawn into the pool (eta).
        loss: of the encoder: triplet, decoupled_softmax, info_nce, sup_con or binary_cross_entropy.
        classifier_loss: of the classifiers: one of the same.
        binary_weight: weight of a binary cross-entropy that is added to the classifiers' loss.
        symmetric: both losses also in the other direction, from labels to documents, half and half.
        mix: share of the encoder's loss in the sum of both (lambda).
        temperature: of the encoder's loss; its own if left out (0.05 for a softmax, 0.1 for triplet).
        classifier_temperature: of the classifiers' loss.
        dropout: share of a document's second view that is dropped in a step.
        learning_rate: of the encoder; 1e-4 for a transformer and 4e-3 for others if left out.
        classifier_learning_rate: of the classifiers.
        warmup: steps over which the learning rate rises; it falls linearly to 0 after that.
        refresh_from: the first epoch, counted from 0, with batches of near documents and with hard negatives.
        refresh_every: epochs between two renewals of both (tau).
        cluster_size: the most documents of a cluster.
        validation: share of the training documents, 5,000 at most, held out to learn the fusion.
        seed: of all random numbers.
        device: cpu, cuda, or auto for a GPU where there is one.
    """
    run = begin("unidec", locals())
    where = choose_device(device)
    dataset, held_out = hold_out(dataset, validation, seed)
    rows = augmented(dataset, augment, seed=seed)
    train = rows.train
    text = read_text(rows, encoder, fields, width, max_length, static_vectors, run=run, device=where, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    trunk, heads = text.encoder, TwoHeads(text.encoder, projection, generator=generator).to(where)
    text = replace(text, encoder=heads.text)
    one_versus_all = binary_weight > 0 or classifier_loss == "binary_cross_entropy"
    bias = classifier_temperature * log_odds(train.targets) if one_versus_all else None
    weights = classifiers_named(classifiers, len(dataset.labels), heads.text.width, generator=generator, bias=bias).to(
        where
    )
    regulariser = graph_terms(
        rows,
        text,
        run,
        names=graphs,
        loss=loss,
        prune_from=refresh_from,
        prune_every=refresh_every,
        seed=seed,
    )
    sampler, mined = Clustered(len(train), batch, seed=seed), Mined(len(train), hard_negatives)
    pool = Pool(train.targets, positives, random_negatives, mined)
    batches = Loader(train, sampler, pool, *text.sources(), seed=seed, graphs=regulariser.pools)
    rate = learning_rate or learning_rate_of(trunk)
    groups = [
        {"params": list(trunk.parameters()), "lr": rate},
        {"params": heads.own_parameters(), "lr": rate if heads.table is not None else 2 * rate},
        {"params": list(weights.parameters()), "lr": classifier_learning_rate},
    ]
    optimizer = AdamW(groups, rate)
    encoder_loss = loss_named(loss, symmetric=symmetric, temperature=temperature)
    label_loss = loss_named(classifier_loss, symmetric=symmetric, temperature=classifier_temperature)
    binary_loss = loss_named("binary_cross_entropy", temperature=classifier_temperature)

    def objective(b: Batch) -> dict[str, Tensor]:
        assert b.labels is not None
        x, z, u, *anchors = heads.views(b.documents, b.labels, *b.nodes)  # (B, D), (P, D), (B, D), (A, D)
        w = weights(b.label_ids, z)  # (P, D), or (P, D + 1) with a bias
        by_text = x @ z.T  # (B, P)
        by_weight = F.pad(F.dropout(u, dropout), (0, w.shape[1] - u.shape[1]), value=1) @ w.T  # (B, P)
        terms = {
            "encoder": mix * encoder_loss(by_text, b.targets, b.mask),
            "classifier": (1 - mix) * label_loss(by_weight, b.targets, b.mask),
        }
        if binary_weight:
            terms["binary"] = (1 - mix) * binary_weight * binary_loss(by_weight, b.targets, b.mask)
        return terms | regulariser.terms(b, by_text, x, z, anchors)

    def before_epoch(epoch: int) -> None:
        regulariser.before_epoch(epoch)
        if epoch < refresh_from or (epoch - refresh_from) % refresh_every:
            return
        x = text.embed(text.documents)
        sampler.regroup(x, cluster_size, device=where, epoch=epoch)
        if hard_negatives:
            mined.renew(mine(train, x, text.embed(text.labels), hard_negatives * refresh_every, device=where))

    trained = {"heads": heads, "classifiers": weights}
    announce(objective, batches, optimizer, run=run, modules=trained, epochs=epochs)
    fit(
        objective,
        batches,
        optimizer,
        run=run,
        stage="joint",
        modules=trained,
        epochs=epochs,
        seed=seed,
        schedule=linear(warmup),
        before_epoch=before_epoch,
        others={"sampler": sampler, "mined": mined, "graphs": regulariser},
    )
    z = text.embed(text.labels)
    vectors = {"encoder": z, "classifier": weights.vectors(z)}
    bundle = Bundle("unidec", trunk, tuple(fields), dataset.labels, vectors, None, where, heads)
    return finish(run, fuse(bundle, held_out, dataset.train.targets))
