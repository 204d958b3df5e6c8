"""ANCE: a dual encoder on hard negatives that an index over its own label embeddings finds (Xiong et al., 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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
from longtail.stages.text import begin, finish, learning_rate_of, loss_named, mine, read_text
from longtail.train.fit import fit, linear
from longtail.train.optimizer import AdamW
from longtail.train.plan import announce
from longtail.train.run import Run
from longtail.transforms.augment import augmented


def ance(
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
    hard_negatives: int = 1,
    mine_from: int = 2,
    mine_every: int = 1,
    mine_length: int = 20,
    loss: str = "triplet",
    learning_rate: float | None = None,
    warmup: int = 100,
    seed: int = 0,
    device: str = "auto",
) -> Bundle:
    """Train a dual encoder on hard negatives: wrong labels that it ranks high itself, renewed while it trains.

    Source: ANCE (Xiong et al., 2021), section 3. Before an epoch all labels are encoded and searched for each training
    document; what is found and wrong is drawn into the pools of that epoch. The paper does this beside the training,
    and with an approximate index; here it is done between epochs, and exactly. Departures and their measurements:
    docs/methods/ance.md.

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
        hard_negatives: labels drawn for each document from its list of hard negatives, on top.
        mine_from: the first epoch with hard negatives, counted from 0.
        mine_every: epochs between two renewals of the lists.
        mine_length: hard negatives on the list of a document.
        loss: triplet, decoupled_softmax, info_nce, sup_con or binary_cross_entropy.
        learning_rate: 4e-3 for a bag encoder and 1e-4 for a transformer if left out.
        warmup: steps over which the learning rate rises; it falls linearly to 0 after that.
        seed: of all random numbers.
        device: cpu, cuda, or auto for a GPU where there is one.
    """
    run = begin("ance", locals())
    where = choose_device(device)
    rows = augmented(dataset, augment, seed=seed)
    train = rows.train
    text = read_text(rows, encoder, fields, width, max_length, static_vectors, run=run, device=where, seed=seed)
    mined = Mined(len(train), hard_negatives)
    pool = Pool(train.targets, positives=1, random=random_negatives, mined=mined)
    batches = Loader(train, Shuffled(len(train), batch, seed=seed), pool, *text.sources(), seed=seed)
    optimizer = AdamW(text.encoder.parameters(), learning_rate or learning_rate_of(text.encoder))
    encoder_loss = loss_named(loss)

    def objective(b: Batch) -> dict[str, Tensor]:
        assert b.labels is not None
        x, z = encode_together(text.encoder, b.documents, b.labels)  # (B, D), (P, D)
        scores = x @ z.T  # (B, P)
        return {loss: encoder_loss(scores, b.targets, b.mask)}

    def before_epoch(epoch: int) -> None:
        if epoch >= mine_from and (epoch - mine_from) % mine_every == 0:
            documents, labels = text.embed(text.documents), text.embed(text.labels)
            mined.renew(mine(train, documents, labels, mine_length, device=where))

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
        others={"mined": mined},
    )
    vectors = {"encoder": text.embed(text.labels)}
    return finish(run, Bundle("ance", text.encoder, tuple(fields), dataset.labels, vectors, None, where))
