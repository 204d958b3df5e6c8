"""LightXML: clusters of labels and the labels of the best clusters, trained in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from longtail.data.dataset import Dataset
from longtail.model import Bundle
from longtail.options import COUNT, option
from longtail.recipes.tree_papers import LIGHTXML
from longtail.stages.recipe import recipe
from longtail.stages.task import read
from longtail.stages.trees import TreeOptions, clusters_by_words, join_layers_of, trained_tree
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(TreeOptions):
    """LightXML."""

    layers: int = option(5, "last layers of a transformer whose vectors are joined; others have one", within=COUNT)


@recipe(Options, paper=LIGHTXML)
def lightxml(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train a transformer on clusters of labels and on the labels of the best clusters, in one pass.

    Source: LightXML (Jiang et al., 2021). It reads no texts of labels, unless these are training rows
    (``augment="gandalf"``). The negatives of a row are the labels of its best clusters, as the model ranks them in that
    very step. A label's score is the product of the probabilities of its cluster and its own. Departures and their
    measurements: docs/explanation/methods/lightxml.md.
    """
    task = read(run, dataset, o)

    def layers(depth: int) -> Sequence[int]:
        return range(max(1, depth - o.layers + 1), depth + 1)

    join_layers_of(task.text, layers, "clusters and labels read one vector, as the encoder has no layers to join")
    clusters = clusters_by_words(run, task, o)  # (L,)
    return trained_tree(task, [clusters], 2 * [slice(0, task.text.encoder.width)], o)
