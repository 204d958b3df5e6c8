"""InceptionXML+: a convolution encoder that learns clusters of labels and labels together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from longtail.data.dataset import Dataset
from longtail.devices import choose_device
from longtail.model import Bundle
from longtail.stages.fusion import fuse, hold_out
from longtail.stages.meta_labels import train_together
from longtail.stages.shortlists import clusters_of, label_centroids
from longtail.stages.text import begin, finish, learning_rate_of, loss_named, read_text
from longtail.train.run import Run
from longtail.transforms.augment import augmented


def inceptionxml(
    dataset: Dataset,
    *,
    out: str | Path | Run | None = None,
    encoder: str = "convolution",
    fields: Sequence[str] = ("title",),
    width: int = 300,
    max_length: int = 32,
    static_vectors: str | None = None,
    augment: str = "none",
    cluster_size: int = 8,
    detached_epochs: int = 2,
    epochs: int = 6,
    batch: int = 256,
    random_negatives: int = 512,
    loss: str = "decoupled_softmax",
    temperature: float = 0.1,
    meta_weight: float = 1.0,
    learning_rate: float | None = None,
    warmup: int = 100,
    beam: int = 8,
    shortlist_negatives: int = 2,
    refresh_every: int = 2,
    classifier_learning_rate: float = 1e-2,
    dropout: float = 0.3,
    validation: float = 0.05,
    seed: int = 0,
    device: str = "auto",
) -> Bundle:
    """Train a convolution encoder on clusters of labels and on labels together, then the fusion of their scores.

    Source: InceptionXML+ (Kharbanda et al., 2023). It reads no texts of labels, unless these are training rows
    (``augment="gandalf"``). Labels are clustered by the tf-idf features of their documents. A label's score is the
    product of the probabilities of its cluster and of its own; it is first met by those documents whose best clusters
    hold it. Departures and their measurements: docs/methods/inceptionxml.md.

    Args:
        dataset: its training documents and labels; the test split is not read.
        out: the run folder, for checkpoints, the log and the model; nothing is written if left out.
        encoder: convolution, bag, minilm, or a transformer of Hugging Face or sentence-transformers by name or folder.
        fields: the fields of a text that the encoder reads.
        width: of the vectors of words, a multiple of 4; those of texts are 480 wide for 300. A transformer has its own.
        max_length: words of a text that are read, or tokens by a transformer.
        static_vectors: an .npy file of word vectors that the encoder starts from, with its words in a .txt beside it.
        augment: training rows on top: none, gandalf (label texts with soft targets), or another augmentation, with its
            options as in gandalf:threshold=0.2; see docs/methods/gandalf.md.
        cluster_size: the most labels of a cluster.
        detached_epochs: passes over the training rows in which the encoder learns clusters alone.
        epochs: passes after that, in which it learns labels too.
        batch: rows of a batch.
        random_negatives: labels drawn at random into each pool, on top of the positives of its rows.
        loss: of every task: decoupled_softmax, info_nce or sup_con.
        temperature: of the loss.
        meta_weight: of the task of clusters; that of labels has 1.
        learning_rate: of the encoder; 4e-3, and 1e-4 for a transformer, if left out.
        warmup: steps over which it rises, in both parts of the training; it falls linearly to 0 after that.
        beam: clusters with the highest scores for a row, whose labels are its shortlist.
        shortlist_negatives: labels of its shortlist that each row draws into a pool.
        refresh_every: epochs between two shortlists.
        classifier_learning_rate: of the vectors of clusters and labels.
        dropout: share of a row vector's numbers that are dropped in a step.
        validation: share of the training documents, 5,000 at most, held out to learn the fusion.
        seed: of all random numbers.
        device: cpu, cuda, or auto for a GPU where there is one.
    """
    run = begin("inceptionxml", locals())
    where = choose_device(device)
    dataset, held_out = hold_out(dataset, validation, seed)
    rows = augmented(dataset, augment, seed=seed)
    train = rows.train
    label_loss = loss_named(loss, temperature=temperature)

    bag = read_text(rows, "bag", fields, 256, max_length, None, run=run, device=where, seed=seed)
    z = label_centroids(train.targets, bag.embed(bag.documents))  # (L, D)
    clusters = clusters_of(z, cluster_size, seed=seed, device=where)
    text = read_text(rows, encoder, fields, width, max_length, static_vectors, run=run, device=where, seed=seed)
    w = train_together(
        run,
        text,
        train,
        clusters,
        label_loss,
        label_texts=False,
        detached_epochs=detached_epochs,
        epochs=epochs,
        batch=batch,
        positives=None,
        random_negatives=random_negatives,
        beam=beam,
        shortlist_negatives=shortlist_negatives,
        refresh_every=refresh_every,
        meta_weight=meta_weight,
        learning_rate=learning_rate or learning_rate_of(text.encoder),
        classifier_learning_rate=classifier_learning_rate,
        warmup=warmup,
        dropout=dropout,
        seed=seed,
    )
    vectors = {"encoder": label_centroids(train.targets, text.embed(text.documents)), "classifier": w}
    bundle = Bundle("inceptionxml", text.encoder, tuple(fields), dataset.labels, vectors, None, where)
    return finish(run, fuse(bundle, held_out, dataset.train.targets))
