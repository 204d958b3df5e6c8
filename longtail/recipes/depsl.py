"""DePSL: the dual encoder of UniDEC alone, trained on some positives of each document and on hard negatives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.loader import Loader
from longtail.batches.negatives import Mined
from longtail.batches.pool import Pool
from longtail.batches.samplers import Clustered
from longtail.data.dataset import Dataset
from longtail.devices import choose_device
from longtail.model import Bundle
from longtail.modules.encoders.base import encode_together
from longtail.stages.text import begin, finish, learning_rate_of, loss_named, mine, read_text
from longtail.train.fit import fit, linear
from longtail.train.optimizer import AdamW
from longtail.train.plan import announce
from longtail.train.run import Run
from longtail.transforms.augment import augmented


def depsl(
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
    batch: int = 512,
    positives: int | None = None,
    random_negatives: int = 512,
    hard_negatives: int = 3,
    loss: str = "decoupled_softmax",
    symmetric: bool = False,
    temperature: float | None = None,
    learning_rate: float | None = None,
    warmup: int = 100,
    refresh_from: int = 2,
    refresh_every: int = 2,
    cluster_size: int = 8,
    seed: int = 0,
    device: str = "auto",
) -> Bundle:
    """Train a dual encoder with the pick-some-labels loss: UniDEC without its classifiers.

    Source: DePSL (the thesis, chapter 2, sections 2.3.1 and 2.3.2). Documents that are near each other share a batch;
    its pool holds some positives of each, and every true pair in it counts. Departures: docs/methods/unidec.md.

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
        batch: documents of a batch.
        positives: how many true labels of each document are drawn into the pool (beta); all if left out.
        random_negatives: labels drawn at random into each pool.
        hard_negatives: wrong labels near each document that are drawn into the pool (eta).
        loss: triplet, decoupled_softmax, info_nce, sup_con or binary_cross_entropy.
        symmetric: half of the loss in the other direction, from labels to documents.
        temperature: of the loss; its own if left out (0.05 for a softmax, 0.1 for triplet).
        learning_rate: 4e-3 for a bag encoder and 1e-4 for a transformer if left out.
        warmup: steps over which the learning rate rises; it falls linearly to 0 after that.
        refresh_from: the first epoch, counted from 0, with batches of near documents and with hard negatives.
        refresh_every: epochs between two renewals of both (tau).
        cluster_size: the most documents of a cluster.
        seed: of all random numbers.
        device: cpu, cuda, or auto for a GPU where there is one.
    """
    run = begin("depsl", locals())
    where = choose_device(device)
    rows = augmented(dataset, augment, seed=seed)
    train = rows.train
    text = read_text(rows, encoder, fields, width, max_length, static_vectors, run=run, device=where, seed=seed)
    sampler, mined = Clustered(len(train), batch, seed=seed), Mined(len(train), hard_negatives)
    pool = Pool(train.targets, positives, random_negatives, mined)
    batches = Loader(train, sampler, pool, *text.sources(), seed=seed)
    optimizer = AdamW(text.encoder.parameters(), learning_rate or learning_rate_of(text.encoder))
    encoder_loss = loss_named(loss, temperature=temperature, symmetric=symmetric)

    def objective(b: Batch) -> dict[str, Tensor]:
        assert b.labels is not None
        x, z = encode_together(text.encoder, b.documents, b.labels)  # (B, D), (P, D)
        return {"encoder": encoder_loss(x @ z.T, b.targets, b.mask)}

    def before_epoch(epoch: int) -> None:
        if epoch < refresh_from or (epoch - refresh_from) % refresh_every:
            return
        x = text.embed(text.documents)
        sampler.regroup(x, cluster_size, device=where, epoch=epoch)
        if hard_negatives:
            mined.renew(mine(train, x, text.embed(text.labels), hard_negatives * refresh_every, device=where))

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
        others={"sampler": sampler, "mined": mined},
    )
    vectors = {"encoder": text.embed(text.labels)}
    return finish(run, Bundle("depsl", text.encoder, tuple(fields), dataset.labels, vectors, None, where))
