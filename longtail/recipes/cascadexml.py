"""CascadeXML: the layers of one transformer are the levels of a tree of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from longtail.data.dataset import Dataset
from longtail.model import Bundle
from longtail.options import COUNT, option
from longtail.recipes.tree_papers import CASCADEXML
from longtail.stages.recipe import recipe
from longtail.stages.task import read
from longtail.stages.trees import TreeOptions, clusters_by_words, join_layers_of, trained_tree
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(TreeOptions):
    """CascadeXML."""

    levels: int = option(2, "levels of clusters above the labels", within=COUNT)
    branching: int = option(3, "times that a cluster is halved from a level of clusters to the next", within=COUNT)
    cluster_size: int = 4


@recipe(Options, paper=CASCADEXML)
def cascadexml(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train a transformer whose layers are the levels of a tree of labels, the coarse ones first, in one pass.

    Source: CascadeXML (Kharbanda et al., 2022). It is LightXML with several levels of clusters, each of which reads a
    layer of its own: what a text is about is known early, and what tells its labels apart only by the last layer.
    Departures and their measurements: docs/explanation/methods/cascadexml.md.
    """
    task = read(run, dataset, o)

    def layers(depth: int) -> Sequence[int]:
        """Of twelve 8, 10 and 12, with two levels of clusters; the first level reads the one before, too."""
        own = [max(1, depth - round(depth * i / 6)) for i in reversed(range(o.levels + 1))]
        return [max(1, own[0] - 1), *own]

    joined = join_layers_of(task.text, layers, "all levels read one vector, as the encoder has no layers")
    width = task.text.encoder.width // max(1, joined)
    columns = [slice(width * i, width * (i + 1)) for i in range(1, joined)] or (o.levels + 1) * [slice(0, width)]
    columns[0] = slice(0, columns[0].stop)

    finest = clusters_by_words(run, task, o)  # (L,)
    clusters = [finest >> o.branching * i for i in reversed(range(o.levels))]
    return trained_tree(task, clusters, columns, o)
