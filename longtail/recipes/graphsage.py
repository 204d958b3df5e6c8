"""GraphSAGE: documents with the largest of what their neighbours in a graph say, column by column."""

from __future__ import annotations

from dataclasses import dataclass

from longtail.data.dataset import Dataset
from longtail.model import Bundle
from longtail.recipes.graph_papers import GRAPHSAGE
from longtail.recipes.oak import Options as OfOAK
from longtail.recipes.oak import train_with_nodes
from longtail.stages.recipe import recipe
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(OfOAK):
    """GraphSAGE."""

    combiner: str = "graphsage"
    bank: bool = False
    plain_weight: float = 0.0


@recipe(Options, paper=GRAPHSAGE)
def graphsage(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train a linker of documents to the nodes of a graph, then a graph encoder of documents with their nodes.

    Source: GraphSAGE (Hamilton et al., 2017), as OAK and RAMEN are compared with it. A document is what its text and
    those of its neighbours say, x' = W [x; max ReLU(V n)], and so may a label be (``label_links``); one encoder reads
    all texts. The page is that of `oak`, with this in place of the bank and its attention, and neighbours of new
    documents from a linker. Departures and their measurements: docs/explanation/methods/graphsage.md.
    """
    return train_with_nodes(run, dataset, o)
