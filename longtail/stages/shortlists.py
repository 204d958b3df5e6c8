"""Shortlists of labels near to a document, and the classifiers that are trained on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from longtail.batches.batch import Batch, entries_in_pool
from longtail.batches.loader import Loader, vector_source
from longtail.batches.negatives import Mined
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.cooccurrence import related_labels, symmetric
from longtail.data.sparse import CSR, csr, holds, padded
from longtail.data.split import Split
from longtail.losses import is_one_versus_all, loss_named
from longtail.losses.glas import glas
from longtail.losses.own import inner_products
from longtail.modules.classifiers import ResidualVectors
from longtail.options import BELOW_ONE, COUNT, NATURAL, option
from longtail.stages.biases import Start, some_rows
from longtail.stages.held_out import FusionOptions
from longtail.stages.task import EncoderOptions
from longtail.text.tokens import VectorTokens
from longtail.topk import FloatArray, IntArray
from longtail.train.course import Pace
from longtail.train.optimizer import adamw
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class PoolOptions(EncoderOptions, FusionOptions):
    """What a row meets."""

    own_shortlists: bool = option(
        False,
        "score each row against its true labels and the whole of its own shortlist, and not against a pool that rows "
        "share; random_negatives and shortlist_negatives then have no part in it",
    )


@dataclass(frozen=True, kw_only=True)
class ShortlistOptions(PoolOptions):
    """Classifiers over shortlists."""

    cluster_size: int = option(8, "the most labels of a cluster", within=COUNT)
    beam: int = option(8, "clusters of labels near to a row whose labels are its shortlist", within=COUNT)
    shortlist_negatives: int = option(4, "labels of its shortlist that each row draws into a pool", within=NATURAL)
    classifier_epochs: int = option(6, "of the classifiers, passes over the training rows", within=NATURAL)
    classifier_learning_rate: float = option(3e-3, "of the classifiers, also of those of clusters", within=NATURAL)
    dropout: float = option(0.3, "share of a row vector's numbers that are dropped in a step", within=BELOW_ONE)
    glas_weight: float = option(0.0, "weight of the GLaS regulariser on the classifiers; 0 for none", within=NATURAL)


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


def clusters_of(run: Run, labels: FloatArray, size: int) -> IntArray:
    """Balanced clusters of labels, (L,) int64.

    Args:
        run: of the recipe.
        labels: (L, D) unit vectors, or zeros.
        size: the most labels of a cluster.
    """
    generator = np.random.default_rng([run.seed, 0, 0, 0, 5])  # the 5 parts it from other draws
    return run.clusters("clusters of labels", labels, size, generator)


def shortlists(
    run: Run, split: Split, documents: FloatArray, labels: FloatArray, clusters: IntArray, beam: int
) -> IntArray:
    """Wrong labels that are near to each document: those in its nearest clusters of labels.

    Args:
        run: of the recipe.
        split: N documents; their true and filtered pairs are left out.
        documents: (N, D) unit vectors.
        labels: (L, D) unit vectors, or zeros.
        clusters: (L,) int64.
        beam: how many clusters of a document are looked at.

    Returns:
        (N, beam * S) label ids with S the size of the largest cluster; -1 at the end of a row where there are fewer.
    """
    membership = csr(np.arange(len(clusters)), clusters, (len(clusters), int(clusters.max(initial=0)) + 1))
    return wrong_labels_near(run, split, documents, label_centroids(membership, labels), clusters, beam)


def wrong_labels_near(
    run: Run, split: Split, documents: FloatArray, centres: FloatArray, clusters: IntArray, beam: int
) -> IntArray:
    """The same for (N, W) documents and K clusters with given centres (K, W): the largest inner products are near."""
    near = run.search("shortlists", centres, documents, min(beam, len(centres))).ids  # (N, beam)
    return wrong_labels_in(split, near, clusters) if run.plan is None else near[:, :0]


def wrong_labels_in(split: Split, near: IntArray, clusters: IntArray) -> IntArray:
    """The labels of some clusters of each document, without those that are true or filtered.

    Args:
        split: N documents.
        near: (N, beam) clusters of each.
        clusters: (L,) int64.

    Returns:
        (N, beam * S) label ids with S the size of the largest cluster; -1 at the end of a row where there are fewer.
    """
    ids = members_of(clusters)[near].reshape(len(split), -1)  # (N, beam * S)
    wrong = (ids >= 0) & ~holds(split.known, ids)
    ids[~wrong] = -1
    return np.take_along_axis(ids, np.argsort(~wrong, axis=1, kind="stable"), axis=1)


def members_of(clusters: IntArray) -> IntArray:
    """(K, S) the labels of each of K clusters, with S the size of the largest, padded with -1."""
    return padded(np.argsort(clusters, kind="stable"), np.bincount(clusters))


def train_on_shortlists(
    run: Run,
    split: Split,
    documents: FloatArray,
    base: FloatArray,
    near: IntArray,
    related: CSR,
    o: ShortlistOptions,
    loss: str,
    temperature: float,
) -> FloatArray:
    """Train one classifier a label on a frozen encoder: a given vector, plus a free one, and a bias.

    Args:
        run: keeps the stage ``extreme``.
        split: N training rows.
        documents: (N, D) their vectors under the frozen encoder.
        base: (L, D) where the classifiers start; for one-versus-all losses, with the biases of `Start`.
        near: (N, H) wrong labels near to each row, from `shortlists`.
        related: (N', L) label matrix of the original documents, for the GLaS regulariser.
        o: how.
        loss: the name of a loss of inner products of a unit vector and a classifier.
        temperature: of the loss.

    Returns:
        (L, D + 1) float32, the last column being the bias.
    """
    L, over, some, bias = len(base), loss_named(loss, temperature=temperature), some_rows(split), None
    if is_one_versus_all(loss):
        bias = temperature * Start(split, some, documents[some], base, temperature).biases(run)
    classifiers = ResidualVectors(*base.shape, bias=bias).to(run.device)
    start = torch.from_numpy(base).to(run.device)
    mined = Mined(len(split), o.shortlist_negatives)
    mined.renew(near)
    pool = Pool(split.targets, None, o.random_negatives, mined, own=o.own_shortlists)
    batches = Loader(split, Shuffled(len(split), o.batch, seed=o.seed), pool, vector_source(documents), None, o.seed)
    optimizer = adamw((classifiers, o.classifier_learning_rate))
    S = related_labels(related, np.arange(L), threshold=0.0, strength=symmetric) if o.glas_weight else None

    def objective(b: Batch) -> dict[str, Tensor]:
        assert isinstance(b.documents, VectorTokens)
        w = classifiers(b.label_ids, start[b.label_ids])  # (P, D + 1)
        x = with_one(F.dropout(b.documents.values, o.dropout))  # (B, D + 1)
        terms = {"classifier": over(inner_products(x, w, b.places), b.targets, b.mask)}
        if S is not None:
            ids = b.label_ids.cpu().numpy()
            alike = torch.from_numpy(entries_in_pool(S, ids, ids)).to(run.device)  # (P, P)
            terms["glas"] = o.glas_weight * glas(w[:, :-1], alike)
        return terms

    trained, others = {"classifiers": classifiers}, {"mined": mined}
    run.train("extreme", objective, batches, optimizer, trained, pace=Pace(o.classifier_epochs), others=others)
    return classifiers.vectors(base)


def with_one(x: Tensor) -> Tensor:
    """Rows (B, D) with a 1 at their end, for classifiers with a bias: (B, D + 1)."""
    return F.pad(x, (0, 1), value=1)
