"""PINA: documents with the labels and training documents that are predicted to be their neighbours."""

from __future__ import annotations

from dataclasses import dataclass

from longtail.data.dataset import Dataset
from longtail.model import Bundle
from longtail.recipes.graph_papers import PINA
from longtail.recipes.oak import Options as OfOAK
from longtail.recipes.oak import train_with_nodes
from longtail.stages.graph_that_enriches import JOINT
from longtail.stages.recipe import recipe
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(OfOAK):
    """PINA."""

    enrich: str | None = JOINT
    linker: str = "ngame"
    label_rows: bool = True
    links: int = 5
    train_links: str = "out-of-fold"
    combiner: str = "mean"
    bank: bool = False


@recipe(Options, paper=PINA)
def pina(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train a model that predicts labels and training documents for a text, then one of texts with what these say.

    Source: PINA (Chien et al., 2023). Labels are instances, too: the first model learns, of documents and of the texts
    of labels, which labels and which training documents go with them. What it predicts for a document are its
    neighbours, whose texts are added to what the second model reads. The page is that of `oak`, with the graph that
    labels and documents make themselves. Departures and their measurements: docs/explanation/methods/pina.md.
    """
    return train_with_nodes(run, dataset, o)
