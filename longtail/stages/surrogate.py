"""The surrogate task: an encoder learns clusters of labels before it learns labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.filters import without
from longtail.data.sparse import CSR, csr, row_of_entry
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.losses import is_one_versus_all, loss_named
from longtail.metrics.propensity import log_odds
from longtail.modules.classifiers import FreeVectors
from longtail.modules.encoders.base import encode_together
from longtail.options import COUNT, POSITIVE, option
from longtail.stages.shortlists import ShortlistOptions, with_one
from longtail.stages.text import Text
from longtail.topk import IntArray
from longtail.train.optimizer import adamw


@dataclass(frozen=True, kw_only=True)
class SurrogateOptions(ShortlistOptions):
    """The surrogate task."""

    cluster_size: int = option(2, "the most labels of a cluster that the encoder is trained on", within=COUNT)
    temperature: float = option(0.1, "of the loss", within=POSITIVE)
    shortlist_cluster_size: int = option(8, "the most labels of a cluster of the shortlists", within=COUNT)
    loss: str = "decoupled_softmax"
    epochs: int = 5
    beam: int = 4


def surrogate_labels(split: Split, clusters: IntArray) -> Split:
    """The same documents with clusters of labels in place of labels; a cluster's target is the largest of its labels'.

    A cluster that holds a filtered label of a document, and no true one, is filtered too: a document is near to what is
    itself, so that its own cluster would be its hardest negative.

    Source: DeepXML (Dahiya et al., 2021), section 3, the surrogate task.

    Args:
        split: n documents and their labels out of L.
        clusters: (L,) int64 in [0, K), the cluster of each label.

    Returns:
        n documents and their clusters out of K.
    """
    shape = (len(split), int(clusters.max(initial=0)) + 1)

    def of_clusters(pairs: CSR) -> CSR:
        return csr(row_of_entry(pairs), clusters[pairs.indices], shape, pairs.data)

    targets = of_clusters(split.targets)
    filtered = None if split.filtered is None else without(of_clusters(split.filtered), targets)
    return Split(split.documents, targets, filtered)


def cluster_texts(labels: Texts, fields: Sequence[str], clusters: IntArray) -> Texts:
    """The texts of the labels of each cluster, one after the other, as one title (DECAF, section 3: meta-labels)."""
    members: list[list[str]] = [[] for _ in range(int(clusters.max(initial=0)) + 1)]
    for cluster, text in zip(clusters.tolist(), labels.joined(fields), strict=True):
        members[cluster].append(text)
    return Texts.of([" ".join(texts) for texts in members])


def train_surrogate(text: Text, split: Split, texts: Texts | None, o: SurrogateOptions) -> None:
    """Train an encoder on surrogate labels, each with a vector and a bias of its own, which are not kept.

    Args:
        text: the encoder, and the tokens of the split's documents; its run keeps the stage ``surrogate``.
        split: from `surrogate_labels`.
        texts: of the K clusters, which are encoded and added to the vectors; None for vectors alone.
        o: how.
    """
    loss = loss_named(o.loss, temperature=o.temperature)
    start = np.zeros((split.targets.shape[1], text.encoder.width + 1), np.float32)
    if is_one_versus_all(o.loss):
        start[:, -1] = o.temperature * log_odds(split.targets)
    clusters = FreeVectors(start, normalised=False).to(text.run.device)
    pool = Pool(split.targets, positives=None, random=o.random_negatives)
    encoded = None if texts is None else text.tokens(texts, ("title",))
    sampler = Shuffled(len(split), o.batch, seed=o.seed)
    batches = text.batches(split, sampler, pool, labels=encoded, encoded=encoded is not None)
    optimizer = adamw((text.encoder, text.rate(o.learning_rate)), (clusters, o.classifier_learning_rate))

    def objective(b: Batch) -> dict[str, Tensor]:
        w = clusters(b.label_ids)  # (P, D + 1)
        if b.labels is None:
            x = text.encoder(b.documents)  # (B, D)
        else:
            x, z = encode_together(text.encoder, b.documents, b.labels)  # (B, D), (P, D)
            w = w + F.pad(z, (0, 1))
        return {"surrogate": loss(with_one(F.dropout(x, o.dropout)) @ w.T, b.targets, b.mask)}

    trained = {"encoder": text.encoder, "clusters": clusters}
    text.run.train("surrogate", objective, batches, optimizer, trained, pace=o.pace(o.epochs))
