"""ECLARE: as DECAF, with the texts of labels that are near in a graph of labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from longtail.data.dataset import Dataset
from longtail.devices import choose_device
from longtail.model import Bundle
from longtail.stages.fusion import fuse, hold_out
from longtail.stages.shortlists import (
    cluster_texts,
    clusters_of,
    label_centroids,
    shortlists,
    surrogate_labels,
    train_extreme,
    train_surrogate,
    unit_rows,
    with_neighbours,
)
from longtail.stages.text import begin, finish, learning_rate_of, loss_named, read_text
from longtail.train.run import Run
from longtail.transforms.augment import augmented
from longtail.transforms.cooccurrence import label_walk


def eclare(
    dataset: Dataset,
    *,
    out: str | Path | Run | None = None,
    encoder: str = "bag",
    fields: Sequence[str] = ("title",),
    width: int = 256,
    max_length: int = 32,
    static_vectors: str | None = None,
    augment: str = "none",
    neighbours: int = 10,
    cluster_size: int = 2,
    epochs: int = 5,
    batch: int = 512,
    random_negatives: int = 512,
    loss: str = "decoupled_softmax",
    temperature: float = 0.1,
    learning_rate: float | None = None,
    warmup: int = 100,
    shortlist_cluster_size: int = 8,
    beam: int = 4,
    shortlist_negatives: int = 4,
    classifier_epochs: int = 6,
    classifier_learning_rate: float = 3e-3,
    dropout: float = 0.3,
    glas_weight: float = 0.0,
    validation: float = 0.05,
    seed: int = 0,
    device: str = "auto",
) -> Bundle:
    """Train an encoder on clusters of labels, then classifiers that start at the texts of a label and its neighbours.

    Source: ECLARE (Mittal et al., 2021). It is DECAF with a graph of labels: a random walk over the training pairs says
    which labels are near each other, also some that never occur together. Labels are clustered by what they and their
    neighbours are, and a label's vector is the embedding of its text plus the mean of those of its neighbours, so that
    rare labels borrow from frequent ones. Departures and their measurements: docs/methods/eclare.md.

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
        neighbours: labels that are kept of the random walk of each label, itself among them.
        cluster_size: the most labels of a cluster that the encoder is trained on.
        epochs: of the encoder on clusters, passes over the training rows.
        batch: rows of a batch.
        random_negatives: labels (or clusters) drawn at random into each pool, on top of the positives of its rows.
        loss: of both stages: decoupled_softmax, info_nce or sup_con.
        temperature: of the loss.
        learning_rate: of the encoder; 1e-4 for a transformer and 4e-3 for others if left out.
        warmup: steps over which it rises; it falls linearly to 0 after that.
        shortlist_cluster_size: the most labels of a cluster of the shortlists.
        beam: clusters near to a row whose labels are its shortlist.
        shortlist_negatives: labels of its shortlist that each row draws into a pool.
        classifier_epochs: passes over the training rows.
        classifier_learning_rate: of the classifiers, also of those of clusters.
        dropout: share of a row vector's numbers that are dropped in a step.
        glas_weight: weight of the GLaS regulariser on the classifiers; 0 for none.
        validation: share of the training documents, 5,000 at most, held out to learn the fusion.
        seed: of all random numbers.
        device: cpu, cuda, or auto for a GPU where there is one.
    """
    run = begin("eclare", locals())
    where = choose_device(device)
    dataset, held_out = hold_out(dataset, validation, seed)
    rows = augmented(dataset, augment, seed=seed)
    train = rows.train
    text = read_text(rows, encoder, fields, width, max_length, static_vectors, run=run, device=where, seed=seed)
    label_loss = loss_named(loss, temperature=temperature)

    graph = label_walk(dataset.train.targets, keep=neighbours)  # (L, L)
    z = unit_rows(text.embed(text.labels) + label_centroids(train.targets, text.embed(text.documents)))  # (L, D)
    clusters = clusters_of(with_neighbours(graph, z), cluster_size, seed=seed, device=where)
    train_surrogate(
        run,
        text,
        surrogate_labels(train, clusters),
        cluster_texts(dataset.labels, fields, clusters),
        label_loss,
        epochs=epochs,
        batch=batch,
        random_negatives=random_negatives,
        learning_rate=learning_rate or learning_rate_of(text.encoder),
        classifier_learning_rate=classifier_learning_rate,
        warmup=warmup,
        dropout=dropout,
        seed=seed,
    )

    x, z = text.embed(text.documents), with_neighbours(graph, text.embed(text.labels))  # (N, D), (L, D)
    clusters = clusters_of(z, shortlist_cluster_size, seed=seed, device=where)
    near = shortlists(train, x, z, clusters, beam, device=where)
    w = train_extreme(
        run,
        train,
        x,
        z,
        label_loss,
        epochs=classifier_epochs,
        batch=batch,
        near=near,
        negatives=shortlist_negatives,
        random_negatives=random_negatives,
        learning_rate=classifier_learning_rate,
        dropout=dropout,
        glas_weight=glas_weight,
        related=dataset.train.targets,
        seed=seed,
        device=where,
    )
    vectors = {"encoder": z, "classifier": w}
    bundle = Bundle("eclare", text.encoder, tuple(fields), dataset.labels, vectors, None, where)
    return finish(run, fuse(bundle, held_out, dataset.train.targets))
