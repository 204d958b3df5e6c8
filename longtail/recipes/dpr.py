"""DPR: one encoder for documents and labels, trained on in-batch negatives (Karpukhin et al., 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.loader import Loader
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.dataset import Dataset
from longtail.devices import choose_device
from longtail.model import Bundle
from longtail.modules.encoders.base import encode_together
from longtail.stages.text import begin, finish, learning_rate_of, loss_named, read_text
from longtail.train.fit import fit, linear
from longtail.train.optimizer import AdamW
from longtail.train.plan import announce
from longtail.train.run import Run
from longtail.transforms.augment import augmented


def dpr(
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
    seed: int = 0,
    device: str = "auto",
) -> Bundle:
    """Train a dual encoder: documents and labels share one encoder, and a document's labels are the nearest ones.

    Source: DPR (Karpukhin et al., 2020), section 3. It departs from the paper in three points, each measured in
    docs/methods/dpr.md: every true pair of the pool counts as a positive (the paper has one), the softmax is decoupled
    (DEXML: co-positives stay out of the denominator), and random labels take the place of BM25 negatives.

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
        random_negatives: labels drawn at random into each pool, on top of the positives of its documents.
        loss: triplet, decoupled_softmax, info_nce, sup_con or binary_cross_entropy.
        learning_rate: 4e-3 for a bag encoder and 1e-4 for a transformer if left out.
        warmup: steps over which the learning rate rises; it falls linearly to 0 after that.
        seed: of all random numbers.
        device: cpu, cuda, or auto for a GPU where there is one.
    """
    run = begin("dpr", locals())
    where = choose_device(device)
    rows = augmented(dataset, augment, seed=seed)
    text = read_text(rows, encoder, fields, width, max_length, static_vectors, run=run, device=where, seed=seed)
    pool = Pool(rows.train.targets, positives=1, random=random_negatives)
    batches = Loader(rows.train, Shuffled(len(rows.train), batch, seed=seed), pool, *text.sources(), seed=seed)
    optimizer = AdamW(text.encoder.parameters(), learning_rate or learning_rate_of(text.encoder))
    encoder_loss = loss_named(loss)

    def objective(b: Batch) -> dict[str, Tensor]:
        assert b.labels is not None
        x, z = encode_together(text.encoder, b.documents, b.labels)  # (B, D), (P, D)
        scores = x @ z.T  # (B, P)
        return {loss: encoder_loss(scores, b.targets, b.mask)}

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
    vectors = {"encoder": text.embed(text.labels)}
    return finish(run, Bundle("dpr", text.encoder, tuple(fields), dataset.labels, vectors, None, where))
