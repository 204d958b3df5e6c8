"""What is renewed between epochs: clusters of documents that share a batch, and hard negatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from longtail.batches.negatives import Mined
from longtail.batches.samplers import Clustered
from longtail.data.sparse import CSR
from longtail.data.split import Split
from longtail.options import COUNT, NATURAL, option
from longtail.stages.recipe import RunOptions
from longtail.stages.task import Text
from longtail.topk import FloatArray, IntArray
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(RunOptions):
    """Batches of near documents."""

    cluster_size: int = option(8, "the most documents of a cluster", within=COUNT)
    cluster_doubles: Sequence[int] = option(
        (), "epochs, counted from 0, from each of which on clusters are twice as large", within=NATURAL
    )


@dataclass(frozen=True, kw_only=True)
class RefreshOptions(ClusterOptions):
    """What is renewed between epochs."""

    refresh_from: int = option(
        2, "the first epoch, counted from 0, with batches of near documents and with hard negatives", within=NATURAL
    )
    refresh_every: int = option(2, "epochs between two renewals of these (tau)", within=COUNT)
    hard_negatives: int = option(
        3, "labels of its list of hard negatives that each document draws into the pool (eta)", within=NATURAL
    )


def due(epoch: int, first: int, every: int) -> bool:
    """Whether something is renewed before an epoch: before the ``first``, and each ``every`` epochs after that."""
    return epoch >= first and (epoch - first) % every == 0


def regroup(run: Run, sampler: Clustered, documents: FloatArray, o: ClusterOptions, *, epoch: int) -> None:
    """Cluster the documents anew.

    Args:
        run: of the recipe.
        sampler: whose clusters they are.
        documents: (N, D) their current vectors, unit rows.
        o: the most documents of a cluster; 1 goes back to a plain shuffle.
        epoch: that is about to begin; it seeds the first centres, with the run's seed.
    """
    size = o.cluster_size * 2 ** sum(epoch >= doubled for doubled in o.cluster_doubles)
    generator = np.random.default_rng([run.seed, epoch, 0, 0, 2])
    sampler.regroup(run.clusters("clusters of documents", documents, size, generator))


def renew(
    epoch: int,
    text: Text,
    split: Split,
    sampler: Clustered,
    mined: Mined,
    o: RefreshOptions,
    *,
    documents: Callable[[], FloatArray] | None = None,
) -> None:
    """Renew clusters and hard negatives of UniDEC and DePSL, where they are due before an epoch.

    Source: the thesis, section 2.3.2.

    Args:
        epoch: that is about to begin.
        text: the encoder, and the tokens of documents and labels.
        split: N training documents.
        sampler: gets new clusters.
        mined: gets new lists.
        o: when, and how large.
        documents: (N, D) vectors of the documents now, if others than those of their texts.
    """
    if not due(epoch, o.refresh_from, o.refresh_every):
        return
    x = text.embed(text.documents) if documents is None else documents()
    regroup(text.run, sampler, x, o, epoch=epoch)
    if o.hard_negatives:
        z = text.embed(text.labels)
        mined.renew(mine(text.run, split, x, z, o.hard_negatives * o.refresh_every))


def mine(run: Run, split: Split, documents: FloatArray, labels: FloatArray, length: int) -> IntArray:
    """The wrong labels nearest to each training document: what `longtail.batches.negatives.Mined` draws from.

    Source: ANCE (Xiong et al., 2021), section 3; the thesis, section 2.3.2, H_i.

    Args:
        run: of the recipe.
        split: N training documents; their true and filtered pairs are left out.
        documents: (N, D) their current vectors.
        labels: (L, D) the labels' current vectors.
        length: of a list.

    Returns:
        (N, length) label ids, best first, -1 where there are fewer.
    """
    return run.search("hard negatives", labels, documents, length, exclude=known(split)).ids


def known(split: Split) -> CSR:
    """(N, L) the pairs that are no negatives: true ones, and filtered ones."""
    return split.targets if split.filtered is None else (split.targets + split.filtered).tocsr()
