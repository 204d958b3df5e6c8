"""CascadeXML: the layers of one transformer are the levels of a tree of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from longtail.data.dataset import Dataset
from longtail.model import Bundle
from longtail.recipes.tree_papers import CASCADEXML
from longtail.stages.recipe import recipe
from longtail.stages.task import read
from longtail.stages.trees import NestedTreeOptions, join_layers_of, nested_clusters, trained_tree
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(NestedTreeOptions):
    """CascadeXML."""

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

    return trained_tree(task, nested_clusters(run, task, o), columns, o)
