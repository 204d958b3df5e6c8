"""DEXML: one encoder for documents and labels, trained by a decoupled softmax over every label."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.loader import Loader
from longtail.batches.negatives import Mined
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.dataset import Dataset
from longtail.devices import choose_device
from longtail.model import Bundle
from longtail.modules.encoders.base import encode_together
from longtail.stages.all_labels import known, loss_over_all_labels, without_pool
from longtail.stages.text import begin, finish, learning_rate_of, loss_named, mine, read_text
from longtail.train.fit import fit, linear
from longtail.train.gradient_cache import encode_cached
from longtail.train.optimizer import AdamW
from longtail.train.plan import announce
from longtail.train.run import Run
from longtail.transforms.augment import augmented


def dexml(
    dataset: Dataset,
    *,
    out: str | Path | Run | None = None,
    encoder: str = "bag",
    fields: Sequence[str] = ("title",),
    width: int = 256,
    max_length: int = 32,
    static_vectors: str | None = None,
    augment: str = "none",
    epochs: int = 6,
    batch: int = 1024,
    random_negatives: int | None = None,
    hard_negatives: int = 0,
    loss: str = "decoupled_softmax",
    temperature: float = 0.05,
    learning_rate: float | None = None,
    warmup: int = 50,
    refresh_from: int = 2,
    refresh_every: int = 1,
    labels_at_once: int = 8192,
    seed: int = 0,
    device: str = "auto",
) -> Bundle:
    """Train a dual encoder against all labels, or against a shortlist of them.

    Source: DEXML (Gupta et al., 2024): no classifiers and no sampled negatives. Every step encodes all labels, and the
    positives of a document compete with its negatives, not with each other. The labels are encoded some at a time, once
    for the loss and once more for the gradients, so that no more than that many are held with their activations.
    Departures and their measurements: docs/methods/dexml.md.

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
        epochs: passes over the training documents.
        batch: documents of a batch; all labels are encoded for each batch, so that a large one is cheaper an epoch.
        random_negatives: labels drawn at random into a pool (a shortlist), with a positive of each document; if left
            out, every label is in it.
        hard_negatives: wrong labels near each document that are drawn into a shortlist too.
        loss: decoupled_softmax or sup_con.
        temperature: of the loss.
        learning_rate: 4e-3 for a bag encoder and 1e-4 for a transformer if left out.
        warmup: steps over which the learning rate rises; it falls linearly to 0 after that.
        refresh_from: the first epoch with hard negatives, counted from 0.
        refresh_every: epochs between two renewals of them.
        labels_at_once: how many labels are encoded with their activations held.
        seed: of all random numbers.
        device: cpu, cuda, or auto for a GPU where there is one.
    """
    run = begin("dexml", locals())
    where = choose_device(device)
    rows = augmented(dataset, augment, seed=seed)
    train, L = rows.train, len(dataset.labels)
    text = read_text(rows, encoder, fields, width, max_length, static_vectors, run=run, device=where, seed=seed)
    documents, labels = text.sources()
    sampler, mined = Shuffled(len(train), batch, seed=seed), Mined(len(train), hard_negatives)
    if random_negatives is None:
        batches = without_pool(train, sampler, documents, seed=seed)
        every_label = [labels(ids).to(where) for ids in np.array_split(np.arange(L), -(-L // labels_at_once))]
    else:
        pool = Pool(train.targets, 1, random_negatives, mined)
        batches = Loader(train, sampler, pool, documents, labels, seed=seed)
    optimizer = AdamW(text.encoder.parameters(), learning_rate or learning_rate_of(text.encoder))
    over_all_labels = loss_over_all_labels(loss, temperature=temperature)
    over_pool = loss_named(loss, temperature=temperature)

    def objective(b: Batch) -> dict[str, Tensor]:
        if b.labels is not None:
            x, z = encode_together(text.encoder, b.documents, b.labels)  # (B, D), (P, D)
            return {"encoder": over_pool(x @ z.T, b.targets, b.mask)}
        x, z = text.encoder(b.documents), encode_cached(text.encoder, every_label)  # (B, D), (L, D)
        return {"encoder": over_all_labels(x, z, known(train, b))}

    def before_epoch(epoch: int) -> None:
        if hard_negatives and epoch >= refresh_from and (epoch - refresh_from) % refresh_every == 0:
            x, z = text.embed(text.documents), text.embed(text.labels)
            mined.renew(mine(train, x, z, hard_negatives * refresh_every, device=where))

    trained: dict[str, torch.nn.Module] = {"encoder": text.encoder}
    announce(objective, batches, optimizer, run=run, modules=trained, epochs=epochs)
    fit(
        objective,
        batches,
        optimizer,
        run=run,
        stage="encoder",
        modules=trained,
        epochs=epochs,
        seed=seed,
        schedule=linear(warmup),
        before_epoch=before_epoch,
        others={"mined": mined},
    )
    vectors = {"encoder": text.embed(text.labels)}
    return finish(run, Bundle("dexml", text.encoder, tuple(fields), dataset.labels, vectors, None, where))
