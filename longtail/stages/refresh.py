"""What is renewed while a stage trains: clusters of documents that share a batch, and hard negatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from longtail.batches.negatives import Mined
from longtail.batches.samplers import Clustered
from longtail.data.split import Split
from longtail.options import COUNT, NATURAL, option
from longtail.stages.recipe import RunOptions
from longtail.stages.text import Text
from longtail.topk import FloatArray, IntArray
from longtail.train.renewal import Moment, When
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class RenewalOptions(RunOptions):
    """What is renewed while it trains."""

    refresh_steps: int | None = option(
        None,
        "steps between two renewals of clusters and hard negatives, within an epoch too, in place of epochs",
        within=COUNT,
    )


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(RenewalOptions):
    """Batches of near documents."""

    cluster_size: int = option(8, "the most documents of a cluster", within=COUNT)
    cluster_doubles: Sequence[int] = option(
        (), "epochs, counted from 0, from each of which on clusters are twice as large", within=NATURAL
    )


@dataclass(frozen=True, kw_only=True)
class RefreshOptions(ClusterOptions):
    """Clusters and hard negatives."""

    refresh_from: int = option(
        2, "the first epoch, counted from 0, with batches of near documents and with hard negatives", within=NATURAL
    )
    refresh_every: int = option(2, "epochs between two renewals of these (tau)", within=COUNT)
    hard_negatives: int = option(
        3, "labels of its list of hard negatives that each document draws into the pool (eta)", within=NATURAL
    )

    def renewed(self) -> When:
        """When these are renewed."""
        return When(self.refresh_from, self.refresh_every, self.refresh_steps)


def regroup(run: Run, sampler: Clustered, documents: FloatArray, o: ClusterOptions, at: Moment) -> None:
    """Cluster the documents anew.

    Args:
        run: of the recipe.
        sampler: whose clusters they are.
        documents: (N, D) their current vectors, unit rows.
        o: the most documents of a cluster; 1 goes back to a plain shuffle.
        at: which step they are for; it seeds the first centres, with the run's seed.
    """
    size = o.cluster_size * 2 ** sum(at.epoch >= doubled for doubled in o.cluster_doubles)
    generator = np.random.default_rng([run.seed, at.epoch, at.step, 0, 2])
    clusters = run.clusters("clusters of documents", documents, size, generator)
    if run.plan is None:
        sampler.regroup(clusters, epoch=at.epoch, step=at.step)


def renew(
    at: Moment,
    text: Text,
    split: Split,
    sampler: Clustered,
    mined: Mined,
    o: RefreshOptions,
    *,
    documents: Callable[[], FloatArray] | None = None,
) -> None:
    """Renew clusters and hard negatives of UniDEC and DePSL.

    Source: the thesis, section 2.3.2.

    Args:
        at: which step they are for.
        text: the encoder, and the tokens of documents and labels.
        split: N training documents.
        sampler: gets new clusters.
        mined: gets new lists.
        o: how large they are.
        documents: (N, D) vectors of the documents now, if others than those of their texts.
    """
    x = text.embed(text.documents) if documents is None else documents()
    regroup(text.run, sampler, x, o, at)
    if o.hard_negatives:
        z = text.embed(text.labels)
        mined.renew(mine(text.run, split, x, z, o.hard_negatives * at.passes))


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
    return run.search("hard negatives", labels, documents, length, exclude=split.known).ids
