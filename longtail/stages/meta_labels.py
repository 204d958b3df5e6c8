"""Meta-labels: an encoder learns clusters of labels and labels together, and whom a document meets in both tasks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from longtail.batches.batch import Batch, pairs_on_device
from longtail.batches.negatives import Mined
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.sparse import CSR, holds
from longtail.data.split import Split
from longtail.losses import is_one_versus_all, loss_named
from longtail.losses.own import inner_products
from longtail.metrics.propensity import log_odds
from longtail.modules.classifiers import FreeVectors
from longtail.options import BELOW_ONE, COUNT, NATURAL, POSITIVE, option
from longtail.stages.refresh import RenewalOptions
from longtail.stages.shortlists import PoolOptions, with_one, wrong_labels_near
from longtail.stages.surrogate import surrogate_labels
from longtail.stages.text import Text
from longtail.topk import FloatArray, IntArray
from longtail.train.optimizer import adamw
from longtail.train.renewal import Moment, Renewal, When
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class MetaLabelOptions(RenewalOptions, PoolOptions):
    """Meta-labels: clusters of labels."""

    cluster_size: int = option(8, "the most labels of a cluster", within=COUNT)
    detached_epochs: int = option(
        2, "passes over the training rows in which labels have no gradient to the encoder", within=NATURAL
    )
    epochs: int = option(6, "passes after that, in which the encoder learns labels too", within=NATURAL)
    temperature: float = option(0.1, "of the loss", within=POSITIVE)
    meta_weight: float = option(1.0, "of the task of clusters; that of labels has 1", within=NATURAL)
    beam: int = option(8, "clusters with the highest scores for a row, whose labels are its shortlist", within=COUNT)
    shortlist_negatives: int = option(2, "labels of its shortlist that each row draws into a pool", within=NATURAL)
    refresh_every: int = option(2, "epochs between two shortlists", within=COUNT)
    classifier_learning_rate: float = option(1e-2, "of the vectors of clusters and labels", within=NATURAL)
    dropout: float = option(0.3, "share of a row vector's numbers that are dropped in a step", within=BELOW_ONE)
    loss: str = "decoupled_softmax"
    encoder: str = "convolution"
    batch: int = 256


def train_with_meta_labels(
    text: Text,
    split: Split,
    clusters: IntArray,
    o: MetaLabelOptions,
    *,
    label_texts: bool = False,
    positives: int | None = None,
) -> FloatArray:
    """Train an encoder, a vector for each cluster of labels, and one for each label on top of its cluster's.

    Source: InceptionXML+ (Kharbanda et al., 2023), section 4. The score of a label is the product of two probabilities,
    that of its cluster and its own: their logarithms are inner products with one document vector, so that their sum is
    one too, with the sum of the two vectors.

    Args:
        text: the encoder, and tokens of the split's documents and of labels; its run keeps ``detached`` and ``joint``.
        split: N training rows.
        clusters: (L,) int64, the cluster of each label.
        o: how.
        label_texts: add the embedding of a label's text to its vector, and train it.
        positives: how many labels of each row its pool holds; None for all.

    Returns:
        (L, D + 1) float32, the last column being the bias.
    """
    run, loss = text.run, loss_named(o.loss, temperature=o.temperature)
    cluster_of, by_cluster = torch.from_numpy(clusters).to(run.device), surrogate_labels(split, clusters)
    meta, free = _vectors(text, by_cluster.targets, split.targets, clusters, o)
    mined = Mined(len(split), o.shortlist_negatives)
    if o.own_shortlists:
        mined.renew(_at_random(run, split, len(clusters), o.beam * o.cluster_size))
    pool = Pool(split.targets, positives, o.random_negatives, mined, own=o.own_shortlists)
    batches = text.batches(split, Shuffled(len(split), o.batch, seed=o.seed), pool, encoded=label_texts)

    def terms(b: Batch, *, detached: bool) -> dict[str, Tensor]:
        ids, at = torch.unique(cluster_of[b.label_ids], return_inverse=True)  # (C,), (P,)
        c = meta(ids)  # (C, D + 1)
        w = free(b.label_ids) + c[at].detach()  # (P, D + 1)
        found: dict[str, Tensor] = {}
        x, z = text.encode(b) if label_texts else (text.encoder(b.documents), None)  # (B, D), (P, D)
        if z is not None:
            levels = w[:, -1:].detach() * is_one_versus_all(o.loss)  # (P, 1)
            w = w + F.pad(z.detach() if detached else z, (0, 1))
            by_text = inner_products(with_one(x), torch.cat([z, levels], 1), b.places)  # (B, P) or (B, S)
            found["text"] = loss(by_text, b.targets, b.mask)
        x = with_one(F.dropout(x, o.dropout))  # (B, D + 1)
        found["meta"] = o.meta_weight * loss(x @ c.T, *pairs_on_device(by_cluster, b.rows, ids))
        scores = inner_products(x.detach() if detached else x, w, b.places)  # (B, P) or (B, S)
        found["label"] = loss(scores, b.targets, b.mask)
        return found

    def shortlist(_: Moment) -> None:
        x = np.pad(text.embed(text.documents), ((0, 0), (0, 1)), constant_values=1)
        mined.renew(wrong_labels_near(run, split, x, meta.table.export(), clusters, o.beam))

    shortlists = Renewal(When(0, o.refresh_every, o.refresh_steps), shortlist)
    trained, rate = {"encoder": text.encoder, "meta": meta, "free": free}, text.rate(o.learning_rate)

    def train(stage: str, epochs: int, *, detached: bool, **between: Any) -> None:
        optimizer = adamw((text.encoder, rate), ([*meta.parameters(), *free.parameters()], o.classifier_learning_rate))
        objective, pace = partial(terms, detached=detached), o.pace(epochs)
        run.train(stage, objective, batches, optimizer, trained, pace=pace, others={"mined": mined}, **between)

    train("detached", o.detached_epochs, detached=True)
    train("joint", o.epochs, detached=False, renewal=shortlists if o.shortlist_negatives or o.own_shortlists else None)
    vectors: FloatArray = free.table.export() + meta.table.export()[clusters]
    if label_texts:
        vectors[:, :-1] += text.embed(text.labels)
    return vectors


def _vectors(
    text: Text, of_clusters: CSR, of_labels: CSR, clusters: IntArray, o: MetaLabelOptions
) -> tuple[FreeVectors, FreeVectors]:
    """The vectors of clusters and labels, with biases: they start at zero.

    For one-versus-all losses the biases start where a label, on top of its cluster, has the odds of its own.
    """
    starts = [np.zeros((targets.shape[1], text.encoder.width + 1), np.float32) for targets in (of_clusters, of_labels)]
    if is_one_versus_all(o.loss):
        odds = log_odds(of_clusters)
        starts[0][:, -1] = o.temperature * odds
        starts[1][:, -1] = o.temperature * (log_odds(of_labels) - odds[clusters])
    meta, free = (FreeVectors(start, normalised=False).to(text.run.device) for start in starts)
    return meta, free


def _at_random(run: Run, split: Split, labels: int, length: int) -> IntArray:
    """(N, length) wrong labels, each once a row, and -1: the shortlists of clusters that cannot be told apart yet."""
    ids = np.sort(np.random.default_rng([run.seed, 0, 0, 0, 6]).integers(labels, size=(len(split), length)), axis=1)
    again = np.diff(ids, axis=1, prepend=-1) == 0
    return np.where(again | holds(split.known, ids), -1, ids)
