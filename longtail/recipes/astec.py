"""Astec (DeepXML): an encoder trained on clusters of labels, then a classifier a label over shortlists."""

from __future__ import annotations

from longtail.data.dataset import Dataset
from longtail.model import Bundle
from longtail.recipes.papers import ASTEC
from longtail.stages.recipe import recipe
from longtail.stages.shortlists import clusters_of, label_centroids, shortlists, train_on_shortlists
from longtail.stages.surrogate import SurrogateOptions, surrogate_labels, train_surrogate
from longtail.stages.task import read
from longtail.train.run import Run


@recipe(SurrogateOptions, paper=ASTEC)
def astec(run: Run, dataset: Dataset, o: SurrogateOptions) -> Bundle:
    """Train an encoder on clusters of labels, then a classifier a label over shortlists, then their fusion.

    Source: DeepXML / Astec (Dahiya et al., 2021). It reads no texts of labels, unless these are training rows
    (``augment="gandalf"``). A label is first scored by the centroid of its documents, which is the paper's shortlist,
    and then by its classifier, which starts there. Departures and their measurements:
    docs/explanation/methods/astec.md.
    """
    task = read(run, dataset, o)
    train, text = task.train, task.text

    z = label_centroids(train.targets, text.embed(text.documents))  # (L, D)
    clusters = clusters_of(run, z, o.cluster_size)
    train_surrogate(text, surrogate_labels(train, clusters), None, o)

    x = text.embed(text.documents)  # (N, D)
    z = label_centroids(train.targets, x)  # (L, D)
    near = shortlists(run, train, x, z, clusters_of(run, z, o.shortlist_cluster_size), o.beam)
    w = train_on_shortlists(run, train, x, z, near, task.dataset.train.targets, o, o.loss, o.temperature)
    return task.model({"encoder": z, "classifier": w})
