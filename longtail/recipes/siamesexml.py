"""SiameseXML: a dual encoder trained on batches of labels, then classifiers that are a label's text plus a residual."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.loader import Loader
from longtail.batches.pool import Pool
from longtail.batches.samplers import ByLabel
from longtail.data.dataset import Dataset
from longtail.devices import choose_device
from longtail.model import Bundle
from longtail.modules.encoders.base import encode_together
from longtail.stages.fusion import fuse, hold_out
from longtail.stages.shortlists import clusters_of, shortlists, train_extreme
from longtail.stages.text import begin, finish, learning_rate_of, loss_named, read_text
from longtail.train.fit import fit, linear
from longtail.train.optimizer import AdamW
from longtail.train.plan import announce
from longtail.train.run import Run
from longtail.transforms.augment import augmented


def siamesexml(
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
    cluster_size: int = 8,
    beam: int = 8,
    shortlist_negatives: int = 4,
    classifier_loss: str = "decoupled_softmax",
    classifier_temperature: float = 0.1,
    classifier_epochs: int = 6,
    classifier_learning_rate: float = 3e-3,
    dropout: float = 0.3,
    glas_weight: float = 0.0,
    validation: float = 0.05,
    seed: int = 0,
    device: str = "auto",
) -> Bundle:
    """Train a dual encoder on batches of labels, then a classifier a label over shortlists, then their fusion.

    Source: SiameseXML (Dahiya et al., 2021). An epoch goes once over the labels, each with one of its documents, so
    that the tail is seen as often as the head. A classifier is the embedding of its label's text plus a free residual.
    Departures and their measurements: docs/methods/siamesexml.md.

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
        epochs: of the encoder, passes over the labels.
        batch: labels of a batch of the encoder, rows of a batch of the classifiers.
        random_negatives: labels drawn at random into each pool, on top of the positives of its rows.
        loss: of the encoder: probabilistic_contrastive (the paper's), triplet, decoupled_softmax, info_nce or sup_con.
        learning_rate: of the encoder; 1e-4 for a transformer and 4e-3 for others if left out.
        warmup: steps over which it rises; it falls linearly to 0 after that.
        cluster_size: the most labels of a cluster, for the shortlists.
        beam: clusters of labels near to a row whose labels are its shortlist.
        shortlist_negatives: labels of its shortlist that each row draws into a pool.
        classifier_loss: decoupled_softmax, info_nce or sup_con.
        classifier_temperature: of the classifiers' loss.
        classifier_epochs: passes over the training rows.
        classifier_learning_rate: of the residuals.
        dropout: share of a row vector's numbers that are dropped in a step of the classifiers.
        glas_weight: weight of the GLaS regulariser on the classifiers; 0 for none.
        validation: share of the training documents, 5,000 at most, held out to learn the fusion.
        seed: of all random numbers.
        device: cpu, cuda, or auto for a GPU where there is one.
    """
    run = begin("siamesexml", locals())
    where = choose_device(device)
    dataset, held_out = hold_out(dataset, validation, seed)
    rows = augmented(dataset, augment, seed=seed)
    train = rows.train
    text = read_text(rows, encoder, fields, width, max_length, static_vectors, run=run, device=where, seed=seed)
    sampler = ByLabel(train.targets, batch, seed=seed)
    pool = Pool(train.targets, positives=1, random=random_negatives)
    batches = Loader(train, sampler, pool, *text.sources(), seed=seed)
    optimizer = AdamW(text.encoder.parameters(), learning_rate or learning_rate_of(text.encoder))
    encoder_loss = loss_named(loss)
    label_loss = loss_named(classifier_loss, temperature=classifier_temperature)

    def objective(b: Batch) -> dict[str, Tensor]:
        assert b.labels is not None
        x, z = encode_together(text.encoder, b.documents, b.labels)  # (B, D), (P, D)
        return {"encoder": encoder_loss(x @ z.T, b.targets, b.mask)}

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
    )

    x, z = text.embed(text.documents), text.embed(text.labels)  # (N, D), (L, D)
    near = shortlists(train, x, z, clusters_of(z, cluster_size, seed=seed, device=where), beam, device=where)
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
    bundle = Bundle("siamesexml", text.encoder, tuple(fields), dataset.labels, vectors, None, where)
    return finish(run, fuse(bundle, held_out, dataset.train.targets))
