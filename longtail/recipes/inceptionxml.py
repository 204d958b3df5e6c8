"""InceptionXML+: a convolution encoder that learns clusters of labels and labels together."""

from __future__ import annotations

from dataclasses import dataclass, replace

from longtail.data.dataset import Dataset
from longtail.model import Bundle
from longtail.recipes.papers import INCEPTIONXML
from longtail.stages.meta_labels import MetaLabelOptions, train_with_meta_labels
from longtail.stages.recipe import recipe
from longtail.stages.shortlists import clusters_of, label_centroids
from longtail.stages.task import read
from longtail.stages.text import read_text
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(MetaLabelOptions):
    """InceptionXML+."""

    width: int = 300


@recipe(Options, paper=INCEPTIONXML)
def inceptionxml(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train a convolution encoder on clusters of labels and on labels together, then the fusion of their scores.

    Source: InceptionXML+ (Kharbanda et al., 2023). It reads no texts of labels, unless these are training rows
    (``augment="gandalf"``). Labels are clustered by the tf-idf features of their documents. A label's score is the
    product of the probabilities of its cluster and of its own; it is first met by those documents whose best clusters
    hold it. Departures and their measurements: docs/explanation/methods/inceptionxml.md.
    """
    task = read(run, dataset, o)
    train, text = task.train, task.text

    words = replace(o, encoder="bag", width=256, static_vectors=None)
    bag = run.once("bag", lambda: read_text(run, task.rows, words))
    z = label_centroids(train.targets, bag.embed(bag.documents))  # (L, D)
    w = train_with_meta_labels(text, train, clusters_of(run, z, o.cluster_size), o)
    return task.model({"encoder": label_centroids(train.targets, text.embed(text.documents)), "classifier": w})
