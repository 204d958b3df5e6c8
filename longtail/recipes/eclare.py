"""ECLARE: as DECAF, with the texts of labels that are near in a graph of labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from longtail.data.dataset import Dataset
from longtail.model import Bundle
from longtail.options import COUNT, option
from longtail.recipes.papers import ECLARE
from longtail.stages.recipe import recipe
from longtail.stages.shortlists import (
    clusters_of,
    label_centroids,
    shortlists,
    train_on_shortlists,
    unit_rows,
    with_neighbours,
)
from longtail.stages.surrogate import SurrogateOptions, cluster_texts, surrogate_labels, train_surrogate
from longtail.stages.task import read
from longtail.train.run import Run
from longtail.transforms.label_walk import label_walk


@dataclass(frozen=True, kw_only=True)
class Options(SurrogateOptions):
    """ECLARE."""

    neighbours: int = option(
        10, "labels that are kept of the random walk of each label, itself among them", within=COUNT
    )


@recipe(Options, paper=ECLARE)
def eclare(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train an encoder on clusters of labels, then classifiers that start at the texts of a label and its neighbours.

    Source: ECLARE (Mittal et al., 2021). It is DECAF with a graph of labels: a random walk over the training pairs says
    which labels are near each other, also some that never occur together. Labels are clustered by what they and their
    neighbours are, and a label's vector is the embedding of its text plus the mean of those of its neighbours, so that
    rare labels borrow from frequent ones. Departures and their measurements: docs/explanation/methods/eclare.md.
    """
    task = read(run, dataset, o)
    train, text = task.train, task.text

    targets = task.dataset.train.targets
    graph = run.once("walk of labels", partial(label_walk, targets, keep=o.neighbours))  # (L, L)
    z = unit_rows(text.embed(text.labels) + label_centroids(train.targets, text.embed(text.documents)))  # (L, D)
    clusters = clusters_of(run, with_neighbours(graph, z), o.cluster_size)
    texts = cluster_texts(dataset.labels, o.fields, clusters)
    train_surrogate(text, surrogate_labels(train, clusters), texts, o)

    x, z = text.embed(text.documents), with_neighbours(graph, text.embed(text.labels))  # (N, D), (L, D)
    near = shortlists(run, train, x, z, clusters_of(run, z, o.shortlist_cluster_size), o.beam)
    w = train_on_shortlists(run, train, x, z, near, targets, o, o.loss, o.temperature)
    return task.model({"encoder": z, "classifier": w})
