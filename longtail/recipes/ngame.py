"""NGAME: a dual encoder on batches of near documents, classifiers on the frozen encoder, and one fused score."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.loader import Loader
from longtail.batches.pool import Pool
from longtail.batches.samplers import Clustered
from longtail.data.dataset import Dataset
from longtail.devices import choose_device
from longtail.model import Bundle
from longtail.modules.encoders.base import encode_together
from longtail.stages.fusion import fuse, hold_out
from longtail.stages.text import begin, finish, learning_rate_of, loss_named, read_text, train_classifiers
from longtail.train.fit import fit, linear
from longtail.train.optimizer import AdamW
from longtail.train.plan import announce
from longtail.train.run import Run
from longtail.transforms.augment import augmented


def ngame(
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
    """Train a dual encoder on batches of near documents, then a classifier a label, then the fusion of their scores.

    Source: NGAME (Dahiya et al., 2023). Documents that are near each other share a batch, so that the positives of one
    are hard negatives of the others, at no cost. The classifiers start from the embeddings of the labels' texts.
    Departures and their measurements: docs/methods/ngame.md.

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
        epochs: of the encoder, passes over the training documents.
        batch: documents of a batch.
        random_negatives: labels drawn at random into each pool, on top of the positives of its documents.
        loss: of the encoder: triplet, decoupled_softmax, info_nce, sup_con or binary_cross_entropy.
        learning_rate: of the encoder; 1e-4 for a transformer and 4e-3 for others if left out.
        warmup: steps over which the learning rate rises; it falls linearly to 0 after that.
        cluster_from: the first epoch whose batches are of near documents, counted from 0.
        cluster_every: epochs between two clusterings.
        cluster_size: the most documents of a cluster.
        classifier_loss: triplet, decoupled_softmax, info_nce, sup_con or binary_cross_entropy.
        classifier_epochs: passes over the training documents; 0 trains no classifiers.
        classifier_learning_rate: of the classifiers.
        dropout: share of a document vector's numbers that are dropped in a step of the classifiers.
        validation: share of the training documents, 5,000 at most, held out to learn the fusion.
        seed: of all random numbers.
        device: cpu, cuda, or auto for a GPU where there is one.
    """
    run = begin("ngame", locals())
    where = choose_device(device)
    dataset, held_out = hold_out(dataset, validation, seed)
    rows = augmented(dataset, augment, seed=seed)
    train = rows.train
    text = read_text(rows, encoder, fields, width, max_length, static_vectors, run=run, device=where, seed=seed)
    sampler = Clustered(len(train), batch, seed=seed)
    pool = Pool(train.targets, positives=1, random=random_negatives)
    batches = Loader(train, sampler, pool, *text.sources(), seed=seed)
    optimizer = AdamW(text.encoder.parameters(), learning_rate or learning_rate_of(text.encoder))
    encoder_loss, label_loss = loss_named(loss), loss_named(classifier_loss)

    def objective(b: Batch) -> dict[str, Tensor]:
        assert b.labels is not None
        x, z = encode_together(text.encoder, b.documents, b.labels)  # (B, D), (P, D)
        scores = x @ z.T  # (B, P)
        return {loss: encoder_loss(scores, b.targets, b.mask)}

    def before_epoch(epoch: int) -> None:
        if epoch >= cluster_from and (epoch - cluster_from) % cluster_every == 0:
            sampler.regroup(text.embed(text.documents), cluster_size, device=where, epoch=epoch)

    trained = {"encoder": text.encoder}
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
        others={"sampler": sampler},
    )

    vectors = {"encoder": text.embed(text.labels)}
    if classifier_epochs:
        vectors["classifier"] = train_classifiers(
            run,
            train,
            text.embed(text.documents),
            vectors["encoder"],
            label_loss,
            epochs=classifier_epochs,
            batch=batch,
            random_negatives=random_negatives,
            learning_rate=classifier_learning_rate,
            dropout=dropout,
            seed=seed,
            device=where,
        )
    bundle = Bundle("ngame", text.encoder, tuple(fields), dataset.labels, vectors, None, where)
    return finish(run, fuse(bundle, held_out, dataset.train.targets) if classifier_epochs else bundle)
