"""The paragraphs that recipes with shortlists share: label centroids, surrogate labels, the extreme classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from longtail.batches.batch import Batch, entries_in_pool
from longtail.batches.clusters import balanced_clusters
from longtail.batches.loader import Loader
from longtail.batches.negatives import Mined
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.sparse import CSR, csr, row_of_entry
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.losses.base import Loss
from longtail.losses.glas import glas
from longtail.modules.classifiers import FreeVectors, ResidualVectors
from longtail.modules.encoders.base import encode_together
from longtail.search.exact import Exact
from longtail.stages.text import Text, vector_source
from longtail.text.tokens import VectorTokens, token_table
from longtail.topk import FloatArray, IntArray
from longtail.train.fit import fit, linear
from longtail.train.optimizer import AdamW
from longtail.train.plan import announce
from longtail.train.run import Run
from longtail.transforms.cooccurrence import related_labels, symmetric


def label_centroids(targets: CSR, documents: FloatArray) -> FloatArray:
    """The normalised mean of the vectors of each label's rows, weighted by target; zeros for a label without rows.

    Args:
        targets: (N, L).
        documents: (N, D) float32.

    Returns:
        (L, D) float32.
    """
    return unit_rows(np.asarray(targets.T @ documents, np.float32))  # (L, D)


def unit_rows(vectors: FloatArray) -> FloatArray:
    """Rows (n, D) of unit length; zeros stay zeros."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1), np.float32)


def with_neighbours(graph: CSR, labels: FloatArray) -> FloatArray:
    """Each label and the mean of its neighbours in equal parts, (L, D) of unit length. ECLARE, section 3, GALE.

    Args:
        graph: (L, L) weights of neighbours; a label without any stays what it is.
        labels: (L, D) unit vectors, or zeros.
    """
    return unit_rows(labels + unit_rows(np.asarray(graph @ labels, np.float32)))


def clusters_of(labels: FloatArray, size: int, *, seed: int, device: torch.device) -> IntArray:
    """Balanced clusters of labels, (L,) int64.

    Args:
        labels: (L, D) unit vectors, or zeros.
        size: the most labels of a cluster.
        seed: of the first centres.
        device: where the clusters are computed.
    """
    generator = np.random.default_rng([seed, 0, 0, 0, 5])  # the 5 parts it from other draws
    return balanced_clusters(labels, size, generator=generator, device=device)


def surrogate_labels(split: Split, clusters: IntArray) -> Split:
    """The same documents with clusters of labels in place of labels; a cluster's target is the largest of its labels'.

    Source: DeepXML (Dahiya et al., 2021), section 3, the surrogate task.
    """
    targets, shape = split.targets, (len(split), int(clusters.max(initial=0)) + 1)
    return Split(split.documents, csr(row_of_entry(targets), clusters[targets.indices], shape, targets.data))


def shortlists(
    split: Split, documents: FloatArray, labels: FloatArray, clusters: IntArray, beam: int, *, device: torch.device
) -> IntArray:
    """Wrong labels that are near to each document: those in its nearest clusters of labels.

    Args:
        split: N documents; their true and filtered pairs are left out.
        documents: (N, D) unit vectors.
        labels: (L, D) unit vectors, or zeros.
        clusters: (L,) int64.
        beam: how many clusters of a document are looked at.
        device: where the search runs.

    Returns:
        (N, beam * S) label ids with S the size of the largest cluster; -1 at the end of a row where there are fewer.
    """
    membership = csr(np.arange(len(clusters)), clusters, (len(clusters), int(clusters.max(initial=0)) + 1))
    return wrong_labels_in(
        split, nearest(label_centroids(membership, labels), documents, beam, device=device), clusters
    )


def nearest(clusters: FloatArray, documents: FloatArray, beam: int, *, device: torch.device) -> IntArray:
    """The clusters (at most ``beam`` of K) with the largest inner product with each document, (N, beam) int64."""
    return Exact(clusters, device=device).search(documents, min(beam, len(clusters))).ids


def wrong_labels_in(split: Split, near: IntArray, clusters: IntArray) -> IntArray:
    """The labels of some clusters of each document, without those that are true or filtered.

    Args:
        split: N documents.
        near: (N, beam) clusters of each.
        clusters: (L,) int64.

    Returns:
        (N, beam * S) label ids with S the size of the largest cluster; -1 at the end of a row where there are fewer.
    """
    order = np.argsort(clusters, kind="stable")
    sizes = np.bincount(clusters)
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    members = np.full((len(sizes), sizes.max()), -1, np.int64)  # (K, S)
    members[clusters[order], place] = order
    ids = members[near].reshape(len(split), -1)  # (N, beam * S)
    known = split.targets if split.filtered is None else (split.targets + split.filtered).tocsr()
    L = len(clusters)
    wrong = (ids >= 0) & ~np.isin(ids + np.arange(len(ids))[:, None] * L, known.indices + row_of_entry(known) * L)
    ids[~wrong] = -1
    return np.take_along_axis(ids, np.argsort(~wrong, axis=1, kind="stable"), axis=1)


def cluster_texts(labels: Texts, fields: Sequence[str], clusters: IntArray) -> Texts:
    """The texts of the labels of each cluster, one after the other, as one title (DECAF, section 3: meta-labels)."""
    members: list[list[str]] = [[] for _ in range(int(clusters.max(initial=0)) + 1)]
    for cluster, text in zip(clusters.tolist(), labels.joined(fields), strict=True):
        members[cluster].append(text)
    return Texts.of([" ".join(texts) for texts in members])


def train_surrogate(
    run: Run,
    text: Text,
    split: Split,
    texts: Texts | None,
    loss: Loss,
    *,
    epochs: int,
    batch: int,
    random_negatives: int,
    learning_rate: float,
    classifier_learning_rate: float,
    warmup: int,
    dropout: float,
    seed: int,
) -> None:
    """Train an encoder on surrogate labels, each with a vector and a bias of its own, which are not kept.

    Args:
        run: keeps the stage ``surrogate``.
        text: the encoder, and the tokens of the split's documents.
        split: from `surrogate_labels`.
        texts: of the K clusters, which are encoded and added to the vectors; None for vectors alone.
        loss: of inner products of a unit vector and a free one.
        epochs: passes over the documents.
        batch: documents of a batch; its pool holds all their clusters.
        random_negatives: clusters drawn at random into each pool.
        learning_rate: of the encoder.
        classifier_learning_rate: of the clusters' vectors.
        warmup: steps over which both rise; they fall linearly to 0 after that.
        dropout: share of a document vector's numbers that are dropped in a step.
        seed: of all random numbers.
    """
    start = np.zeros((split.targets.shape[1], text.encoder.width + 1), np.float32)
    clusters = FreeVectors(start, normalised=False).to(text.device)
    pool = Pool(split.targets, positives=None, random=random_negatives)
    tokenizer = text.encoder.tokenizer
    encoded = None if texts is None else partial(tokenizer.batch, token_table(texts, ("title",), tokenizer))
    batches = Loader(split, Shuffled(len(split), batch, seed=seed), pool, text.sources()[0], encoded, seed=seed)
    groups = [
        {"params": list(text.encoder.parameters()), "lr": learning_rate},
        {"params": list(clusters.parameters()), "lr": classifier_learning_rate},
    ]
    optimizer = AdamW(groups, learning_rate)

    def objective(b: Batch) -> dict[str, Tensor]:
        w = clusters(b.label_ids)  # (P, D + 1)
        if b.labels is None:
            x = text.encoder(b.documents)  # (B, D)
        else:
            x, z = encode_together(text.encoder, b.documents, b.labels)  # (B, D), (P, D)
            w = w + F.pad(z, (0, 1))
        return {"surrogate": loss(with_one(F.dropout(x, dropout)) @ w.T, b.targets, b.mask)}

    trained = {"encoder": text.encoder, "clusters": clusters}
    announce(objective, batches, optimizer, run=run, modules=trained, epochs=epochs)
    fit(
        objective,
        batches,
        optimizer,
        run=run,
        stage="surrogate",
        modules=trained,
        epochs=epochs,
        seed=seed,
        schedule=linear(warmup),
    )


def train_extreme(
    run: Run,
    split: Split,
    documents: FloatArray,
    base: FloatArray,
    loss: Loss,
    *,
    epochs: int,
    batch: int,
    near: IntArray,
    negatives: int,
    random_negatives: int,
    learning_rate: float,
    dropout: float,
    glas_weight: float,
    related: CSR,
    seed: int,
    device: torch.device,
) -> FloatArray:
    """Train one classifier a label on a frozen encoder: a given vector, plus a free one, and a bias.

    Args:
        run: keeps the stage ``extreme``.
        split: N training rows.
        documents: (N, D) their vectors under the frozen encoder.
        base: (L, D) where the classifiers start.
        loss: of inner products of a unit vector and a classifier.
        epochs: passes over the rows.
        batch: rows of a batch; its pool holds all their positives.
        near: (N, H) wrong labels near to each row, from `shortlists`.
        negatives: how many of these a row draws into the pool of a batch.
        random_negatives: labels drawn at random into each pool.
        learning_rate: of the classifiers; it falls linearly to 0.
        dropout: share of a document vector's numbers that are dropped in a step.
        glas_weight: weight of the GLaS regulariser; 0 for none.
        related: (N', L) label matrix of the original documents, for the regulariser.
        seed: of all random numbers.
        device: where the classifiers are trained.

    Returns:
        (L, D + 1) float32, the last column being the bias.
    """
    L = len(base)
    classifiers = ResidualVectors(*base.shape).to(device)
    start = torch.from_numpy(base).to(device)
    mined = Mined(len(split), negatives)
    mined.renew(near)
    pool = Pool(split.targets, None, random_negatives, mined)
    batches = Loader(split, Shuffled(len(split), batch, seed=seed), pool, vector_source(documents), None, seed=seed)
    optimizer = AdamW(classifiers.parameters(), learning_rate)
    S = related_labels(related, np.arange(L), threshold=0.0, strength=symmetric) if glas_weight else None

    def objective(b: Batch) -> dict[str, Tensor]:
        assert isinstance(b.documents, VectorTokens)
        w = classifiers(b.label_ids, start[b.label_ids])  # (P, D + 1)
        scores = with_one(F.dropout(b.documents.values, dropout)) @ w.T  # (B, P)
        terms = {"classifier": loss(scores, b.targets, b.mask)}
        if S is not None:
            ids = b.label_ids.cpu().numpy()
            terms["glas"] = glas_weight * glas(w[:, :-1], torch.from_numpy(entries_in_pool(S, ids, ids)).to(device))
        return terms

    fit(
        objective,
        batches,
        optimizer,
        run=run,
        stage="extreme",
        modules={"classifiers": classifiers},
        epochs=epochs,
        seed=seed,
        schedule=linear(batches.steps()),
        others={"mined": mined},
    )
    return classifiers.vectors(base)


def with_one(x: Tensor) -> Tensor:
    """Rows (B, D) with a 1 at their end, for classifiers with a bias: (B, D + 1)."""
    return F.pad(x, (0, 1), value=1)
