"""Renee: an encoder and a classifier for every label, trained end to end against all labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.loader import Loader
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.dataset import Dataset
from longtail.devices import choose_device
from longtail.losses.triplet import triplet
from longtail.model import Bundle
from longtail.modules.classifiers import Classifiers
from longtail.modules.encoders.base import encode_together
from longtail.stages.all_labels import known, loss_over_all_labels, without_pool
from longtail.stages.fusion import fuse, hold_out
from longtail.stages.text import begin, finish, learning_rate_of, read_text
from longtail.train.fit import fit, linear
from longtail.train.in_backward import FusedSGD
from longtail.train.optimizer import AdamW
from longtail.train.plan import announce
from longtail.train.run import Run
from longtail.transforms.augment import augmented


def renee(
    dataset: Dataset,
    *,
    out: str | Path | Run | None = None,
    encoder: str = "bag",
    fields: Sequence[str] = ("title",),
    width: int = 256,
    max_length: int = 32,
    static_vectors: str | None = None,
    augment: str = "none",
    start_epochs: int = 3,
    epochs: int = 4,
    batch: int = 512,
    random_negatives: int = 512,
    loss: str = "binary_cross_entropy",
    temperature: float = 0.05,
    bias: float = -14.0,
    dropout: float = 0.5,
    learning_rate: float | None = None,
    slowdown: float = 0.4,
    classifier_learning_rate: float = 0.5,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    bfloat16: bool = False,
    warmup: int = 100,
    validation: float = 0.05,
    seed: int = 0,
    device: str = "auto",
) -> Bundle:
    """Train an encoder and a classifier for every label end to end, each document against all labels.

    Source: Renee (Jain et al., 2023). The classifiers start from the embeddings of the labels' texts, under an encoder
    that was trained to bring documents near them; then both are trained by binary cross-entropy over every label. No
    gradient of the classifiers is ever held: they are stepped some thousand at a time. Departures and their
    measurements: docs/methods/renee.md.

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
        start_epochs: passes in which the encoder alone is trained, as by dpr; 0 where it was trained before.
        epochs: passes of the encoder and the classifiers together.
        batch: documents of a batch.
        random_negatives: labels drawn at random into each pool of the start.
        loss: over all labels: binary_cross_entropy, decoupled_softmax or sup_con.
        temperature: inner products are divided by it: documents of unit length count in the logits as if they were
            longer by its inverse.
        bias: where the bias of each classifier starts, in logits.
        dropout: share of a document vector's numbers that are dropped in a step of the classifiers.
        learning_rate: of the start; 4e-3 for a bag encoder and 1e-4 for a transformer if left out.
        slowdown: the encoder's learning rate beside the classifiers, as a share of that of the start.
        classifier_learning_rate: of the classifiers, which are trained by SGD.
        momentum: of the classifiers; 0 saves the memory of a second table.
        weight_decay: of the classifiers.
        bfloat16: keep the classifiers in half the memory, and round their steps by chance.
        warmup: steps over which the learning rates rise; they fall linearly to 0 after that.
        validation: share of the training documents, 5,000 at most, held out to learn the fusion.
        seed: of all random numbers.
        device: cpu, cuda, or auto for a GPU where there is one.
    """
    run = begin("renee", locals())
    where = choose_device(device)
    dataset, held_out = hold_out(dataset, validation, seed)
    rows = augmented(dataset, augment, seed=seed)
    train = rows.train
    text = read_text(rows, encoder, fields, width, max_length, static_vectors, run=run, device=where, seed=seed)
    documents, labels = text.sources()
    sampler = Shuffled(len(train), batch, seed=seed)
    rate = learning_rate or learning_rate_of(text.encoder)
    table = torch.bfloat16 if bfloat16 else torch.float32
    classifiers = Classifiers(len(dataset.labels), text.encoder.width, dtype=table).to(where)
    optimizer = AdamW(text.encoder.parameters(), slowdown * rate)
    update = FusedSGD(
        optimizer, classifiers.table, classifier_learning_rate, momentum=momentum, weight_decay=weight_decay
    )
    over_all_labels = loss_over_all_labels(loss, temperature=temperature)

    def beginning(b: Batch) -> dict[str, Tensor]:
        assert b.labels is not None
        x, z = encode_together(text.encoder, b.documents, b.labels)  # (B, D), (P, D)
        return {"start": triplet(x @ z.T, b.targets, b.mask)}

    def objective(b: Batch) -> dict[str, Tensor]:
        x = F.dropout(text.encoder(b.documents), dropout)  # (B, D)
        x = F.pad(x, (0, 1), value=temperature)  # (B, D + 1)
        return {"classifier": over_all_labels(x, classifiers.table, known(train, b), update=update)}

    trained = {"encoder": text.encoder, "classifiers": classifiers}
    batches = without_pool(train, sampler, documents, seed=seed)
    announce(objective, batches, optimizer, run=run, modules=trained, epochs=epochs)
    fit(
        beginning,
        Loader(train, sampler, Pool(train.targets, random=random_negatives), documents, labels, seed=seed),
        AdamW(text.encoder.parameters(), rate),
        run=run,
        stage="start",
        modules={"encoder": text.encoder},
        epochs=start_epochs,
        seed=seed,
        schedule=linear(warmup),
    )
    classifiers.start_from(text.embed(text.labels), bias)
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
    )
    vectors = {"encoder": text.embed(text.labels), "classifier": classifiers.vectors(temperature)}
    bundle = Bundle("renee", text.encoder, tuple(fields), dataset.labels, vectors, None, where)
    return finish(run, fuse(bundle, held_out, dataset.train.targets))
