"""GraphFormers: documents that attend to their neighbours in a graph."""

from __future__ import annotations

from dataclasses import dataclass

from longtail.data.dataset import Dataset
from longtail.model import Bundle
from longtail.recipes.graph_papers import GRAPHFORMERS
from longtail.recipes.oak import Options as OfOAK
from longtail.recipes.oak import train_with_nodes
from longtail.stages.recipe import recipe
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(OfOAK):
    """GraphFormers."""

    combiner: str = "graphformers"
    attention_heads: int = 4
    bank: bool = False
    plain_weight: float = 0.0


@recipe(Options, paper=GRAPHFORMERS)
def graphformers(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train a linker of documents to the nodes of a graph, then an encoder of documents that attend to their nodes.

    Source: GraphFormers (Yang et al., 2021), as OAK and RAMEN are compared with it. A text and its neighbours exchange
    their vectors in a transformer layer, and so do labels with ``label_links``. The page is that of `oak`, with this in
    place of the bank and its attention, and neighbours of new documents from a linker. Departures and their
    measurements: docs/explanation/methods/graphformers.md.
    """
    return train_with_nodes(run, dataset, o)
