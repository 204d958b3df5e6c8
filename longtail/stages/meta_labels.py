"""What the recipes share that train clusters of labels and labels together: the two tasks, and who is met in them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.loader import Loader
from longtail.batches.negatives import Mined
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.split import Split
from longtail.losses.base import Loss
from longtail.modules.classifiers import FreeVectors
from longtail.modules.encoders.base import encode_together
from longtail.stages.shortlists import nearest, with_one, wrong_labels_in
from longtail.stages.text import Text
from longtail.topk import FloatArray, IntArray
from longtail.train.fit import fit, linear
from longtail.train.optimizer import AdamW
from longtail.train.plan import announce
from longtail.train.run import Run


def train_together(
    run: Run,
    text: Text,
    split: Split,
    clusters: IntArray,
    loss: Loss,
    *,
    label_texts: bool,
    detached_epochs: int,
    epochs: int,
    batch: int,
    positives: int | None,
    random_negatives: int,
    beam: int,
    shortlist_negatives: int,
    refresh_every: int,
    meta_weight: float,
    learning_rate: float,
    classifier_learning_rate: float,
    warmup: int,
    dropout: float,
    seed: int,
) -> FloatArray:
    """Train an encoder, a vector for each cluster of labels, and one for each label on top of its cluster's.

    Source: InceptionXML+ (Kharbanda et al., 2023), section 4. The score of a label is the product of two probabilities,
    that of its cluster and its own: their logarithms are inner products with one document vector, so that their sum is
    one too, with the sum of the two vectors.

    Args:
        run: keeps the stages ``detached`` and ``joint``.
        text: the encoder, and the tokens of the split's documents and of the labels.
        split: N training rows.
        clusters: (L,) int64, the cluster of each label.
        loss: of inner products of a unit vector and a free one.
        label_texts: add the embedding of a label's text to its vector, and train it.
        detached_epochs: passes over the rows in which the task of labels has no gradient to the encoder.
        epochs: passes in which it has.
        batch: rows of a batch.
        positives: how many labels of each row its pool holds; None for all.
        random_negatives: labels drawn at random into each pool.
        beam: clusters with the highest scores for a row, whose labels are its shortlist.
        shortlist_negatives: labels of its shortlist that each row draws into a pool.
        refresh_every: epochs between two shortlists.
        meta_weight: of the task of clusters.
        learning_rate: of the encoder.
        classifier_learning_rate: of the vectors of clusters and labels.
        warmup: steps over which both rise, in each stage; they fall linearly to 0 after that.
        dropout: share of a document vector's numbers that are dropped in a step.
        seed: of all random numbers.

    Returns:
        (L, D + 1) float32, the last column being the bias.
    """
    shape = (int(clusters.max(initial=0)) + 1, text.encoder.width + 1)
    meta = FreeVectors(np.zeros(shape, np.float32), normalised=False).to(text.device)
    free = FreeVectors(np.zeros((len(clusters), shape[1]), np.float32), normalised=False).to(text.device)
    cluster_of = torch.from_numpy(clusters).to(text.device)
    mined = Mined(len(split), shortlist_negatives)
    documents, labels = text.sources()
    pool = Pool(split.targets, positives, random_negatives, mined)
    sampler = Shuffled(len(split), batch, seed=seed)
    batches = Loader(split, sampler, pool, documents, labels if label_texts else None, seed=seed)

    def terms(b: Batch, *, detached: bool) -> dict[str, Tensor]:
        ids, at = torch.unique(cluster_of[b.label_ids], return_inverse=True)  # (C,), (P,)
        c = meta(ids)  # (C, D + 1)
        w = free(b.label_ids) + c[at].detach()  # (P, D + 1)
        found: dict[str, Tensor] = {}
        if b.labels is None:
            x = text.encoder(b.documents)  # (B, D)
        else:
            x, z = encode_together(text.encoder, b.documents, b.labels)  # (B, D), (P, D)
            w = w + F.pad(z.detach() if detached else z, (0, 1))
            found["text"] = loss(x @ z.T, b.targets, b.mask)
        x = with_one(F.dropout(x, dropout))  # (B, D + 1)
        found["meta"] = meta_weight * loss(x @ c.T, _largest(b.targets, at, ids), _largest(b.mask, at, ids))
        found["label"] = loss((x.detach() if detached else x) @ w.T, b.targets, b.mask)
        return found

    def before_epoch(epoch: int) -> None:
        if epoch % refresh_every == 0 and shortlist_negatives:
            x = np.pad(text.embed(text.documents), ((0, 0), (0, 1)), constant_values=1)
            near = nearest(meta.table.detach().cpu().numpy(), x, beam, device=text.device)
            mined.renew(wrong_labels_in(split, near, clusters))

    trained = {"encoder": text.encoder, "meta": meta, "free": free}

    def train(stage: str, epochs: int, objective: Callable[[Batch], dict[str, Tensor]], *, refresh: bool) -> None:
        groups = [
            {"params": list(text.encoder.parameters()), "lr": learning_rate},
            {"params": [meta.table, free.table], "lr": classifier_learning_rate},
        ]
        optimizer = AdamW(groups, learning_rate)
        if not refresh:
            announce(objective, batches, optimizer, run=run, modules=trained, epochs=epochs)
        fit(
            objective,
            batches,
            optimizer,
            run=run,
            stage=stage,
            modules=trained,
            epochs=epochs,
            seed=seed,
            schedule=linear(warmup),
            before_epoch=before_epoch if refresh else None,
            others={"mined": mined},
        )

    train("detached", detached_epochs, lambda b: terms(b, detached=True), refresh=False)
    train("joint", epochs, lambda b: terms(b, detached=False), refresh=True)
    vectors: FloatArray = (free.table + meta.table[cluster_of]).detach().cpu().numpy()
    if label_texts:
        vectors[:, :-1] += text.embed(text.labels)
    return vectors


def _largest(entries: Tensor, at: Tensor, ids: Tensor) -> Tensor:
    """The largest entry of the labels of each cluster.

    Args:
        entries: (B, P) of labels.
        at: (P,) the place of each label's cluster.
        ids: (C,) the clusters.

    Returns:
        (B, C).
    """
    found = entries.new_zeros(len(entries), len(ids))
    return found.scatter_reduce_(1, at.expand(len(entries), -1), entries, "amax")
