"""InceptionXML-LF: InceptionXML+ with the texts of labels, and with clusters of labels that a graph smooths."""

from __future__ import annotations

from dataclasses import dataclass, replace

from longtail.data.dataset import Dataset
from longtail.model import Bundle
from longtail.options import NATURAL, option
from longtail.recipes.papers import INCEPTIONXML_LF
from longtail.stages.meta_labels import MetaLabelOptions, train_with_meta_labels
from longtail.stages.recipe import recipe
from longtail.stages.shortlists import clusters_of, label_centroids, unit_rows, with_neighbours
from longtail.stages.task import read
from longtail.stages.text import read_text
from longtail.train.run import Run
from longtail.transforms.label_walk import label_walk


@dataclass(frozen=True, kw_only=True)
class Options(MetaLabelOptions):
    """InceptionXML-LF."""

    neighbours: int = option(
        10,
        "labels that are kept of the random walk of each label, which then share clusters; 0 for no walk",
        within=NATURAL,
    )
    width: int = 128
    detached_epochs: int = 1
    epochs: int = 4
    random_negatives: int = 256
    shortlist_negatives: int = 1


@recipe(Options, paper=INCEPTIONXML_LF)
def inceptionxml_lf(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train a convolution encoder on clusters, on labels and on the texts of labels together, then their fusion.

    Source: InceptionXML-LF (Kharbanda, the thesis, chapter 1, section 1.4): InceptionXML+ with what DECAF and ECLARE
    add to Astec. The vector of a label is the embedding of its text, plus the vector of its cluster, plus one of its
    own; labels are clustered by their texts and documents, and by those of their neighbours in a graph of labels.
    Departures and their measurements: docs/explanation/methods/inceptionxml_lf.md.
    """
    task = read(run, dataset, o)
    train, text = task.train, task.text

    words = replace(o, encoder="bag", width=256, static_vectors=None)
    bag = run.once("bag", lambda: read_text(run, task.rows, words))
    z = unit_rows(bag.embed(bag.labels) + label_centroids(train.targets, bag.embed(bag.documents)))  # (L, D)
    if o.neighbours:
        z = with_neighbours(label_walk(task.dataset.train.targets, keep=o.neighbours), z)
    clusters = clusters_of(run, z, o.cluster_size)
    w = train_with_meta_labels(text, train, clusters, o, label_texts=True, positives=1)
    return task.model({"encoder": text.embed(text.labels), "classifier": w})
