"""DECAF: clusters of labels, and then labels, are classified by their text plus a free vector."""

from __future__ import annotations

from longtail.data.dataset import Dataset
from longtail.model import Bundle
from longtail.recipes.papers import DECAF
from longtail.stages.recipe import recipe
from longtail.stages.shortlists import clusters_of, label_centroids, shortlists, train_on_shortlists, unit_rows
from longtail.stages.surrogate import SurrogateOptions, cluster_texts, surrogate_labels, train_surrogate
from longtail.stages.task import read
from longtail.train.run import Run


@recipe(SurrogateOptions, paper=DECAF)
def decaf(run: Run, dataset: Dataset, o: SurrogateOptions) -> Bundle:
    """Train an encoder on clusters of labels and their texts, then classifiers that start at a label's text.

    Source: DECAF (Mittal et al., 2021). It is Astec with the texts of labels: the vector of a cluster is the embedding
    of the texts of its labels plus a free one, and so is that of a label, with one encoder for documents and labels. A
    label is first scored by its text, and then by its classifier. Departures and their measurements:
    docs/explanation/methods/decaf.md.
    """
    task = read(run, dataset, o)
    train, text = task.train, task.text

    z = unit_rows(text.embed(text.labels) + label_centroids(train.targets, text.embed(text.documents)))  # (L, D)
    clusters = clusters_of(run, z, o.cluster_size)
    texts = cluster_texts(dataset.labels, o.fields, clusters)
    train_surrogate(text, surrogate_labels(train, clusters), texts, o)

    x, z = text.embed(text.documents), text.embed(text.labels)  # (N, D), (L, D)
    near = shortlists(run, train, x, z, clusters_of(run, z, o.shortlist_cluster_size), o.beam)
    w = train_on_shortlists(run, train, x, z, near, task.dataset.train.targets, o, o.loss, o.temperature)
    return task.model({"encoder": z, "classifier": w})
