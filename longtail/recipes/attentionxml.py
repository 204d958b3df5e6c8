"""AttentionXML: each label, and each cluster above it, weighs the words of a text by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from longtail.data.dataset import Dataset
from longtail.errors import BadInput
from longtail.model import Bundle
from longtail.modules.attended import Attended
from longtail.modules.encoders.named import encoder_named
from longtail.modules.encoders.recurrent import RecurrentEncoder
from longtail.options import COUNT, option
from longtail.recipes.tree_papers import ATTENTIONXML
from longtail.search.attention import Attention
from longtail.stages.recipe import recipe
from longtail.stages.task import read
from longtail.stages.trees import NestedTreeOptions, levels_above, model_of, nested_clusters, train_tree, tree_of
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(NestedTreeOptions):
    """AttentionXML."""

    hidden: int = option(256, "of the fully connected layer that labels share, an even number", within=COUNT)
    encoder: str = "lstm"
    levels: int = 3
    cluster_size: int = 8
    temperature: float = 1.0

    def check(self, dataset: Dataset) -> None:
        """Refuse, besides, an encoder without states, fields read apart, and scores that are divided."""
        super().check(dataset)
        if not issubclass(encoder_named(self.encoder).kind, RecurrentEncoder):
            problem = f"expected lstm, whose states labels attend to, found {self.encoder}"
            raise BadInput("encoder", problem, remedy="leave it out")
        if self.fields_apart:
            raise BadInput("fields_apart", "labels attend to the words of one text here", remedy="leave it out")
        if self.temperature != 1:
            problem = f"expected 1, as scores are no cosines, found {self.temperature:g}"
            raise BadInput("temperature", problem, remedy="leave it out")


@recipe(Options, paper=ATTENTIONXML)
def attentionxml(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train an LSTM, and clusters and labels that attend to its states, in one pass.

    Source: AttentionXML (You et al., 2019). It reads no texts of labels, unless these are training rows
    (``augment="gandalf"``). A label's score is the product of the probabilities along its path and its own. Departures
    and their measurements: docs/explanation/methods/attentionxml.md.
    """
    task = read(run, dataset, o)
    encoder, generator = task.text.encoder, torch.Generator().manual_seed(o.seed)
    assert isinstance(encoder, RecurrentEncoder)
    states = Attended(encoder, o.hidden, dropout=o.dropout, generator=generator).to(run.device)

    clusters, columns = nested_clusters(run, task, o), (o.levels + 1) * [slice(0, encoder.width)]
    levels = levels_above(task.text, task.train, clusters, columns, o)
    train_tree(task.text, task.train, levels, o, states)
    tree, w = tree_of(levels, o.temperature, Attention(encoder.width, o.hidden))
    return replace(model_of(task, tree, w), heads=states)
