"""GalaXC: classifiers with an attention to the neighbourhoods of a document among labels and documents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.links import heaviest_links
from longtail.batches.loader import Loader, vector_source
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.dataset import Dataset
from longtail.data.sparse import stacked
from longtail.data.texts import Texts
from longtail.losses import loss_named
from longtail.model import Bundle
from longtail.modules.hops import HopClassifiers, Hops, node_hops
from longtail.modules.linker import Linked
from longtail.options import COUNT, NATURAL, option
from longtail.recipes.graph_papers import GALAXC
from longtail.stages.graph_that_enriches import joint_graph
from longtail.stages.recipe import recipe
from longtail.stages.shortlists import clusters_of, label_centroids, unit_rows
from longtail.stages.surrogate import SurrogateOptions, cluster_texts, surrogate_labels, train_surrogate
from longtail.stages.task import read
from longtail.text.tokens import VectorTokens
from longtail.train.course import Pace
from longtail.train.optimizer import adamw
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(SurrogateOptions):
    """GalaXC."""

    hops: int = option(3, "neighbourhoods of a document that are read beside itself", within=COUNT)
    links: int = option(4, "labels and documents that a document is linked to", within=COUNT)
    true_edges: bool = option(
        False, "link training documents to their labels, as published, and not as new ones to what is near them"
    )
    attention_learning_rate: float = option(5e-2, "of the attention of labels to hops", within=NATURAL)


@recipe(Options, paper=GALAXC)
def galaxc(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train an encoder on clusters of labels, then classifiers of documents with their neighbourhoods in a graph.

    Source: GalaXC (Saini et al., 2021). Labels and documents are the nodes of one graph, whose edges are true pairs. A
    document is its own vector and those of its neighbourhoods, hop by hop, and each label says which of them count for
    it. New documents are linked to the nodes that are nearest to them. Departures and their measurements:
    docs/explanation/methods/galaxc.md.
    """
    task = read(run, dataset, o)
    train, text = task.train, task.text
    z = unit_rows(text.embed(text.labels) + label_centroids(train.targets, text.embed(text.documents)))  # (L, D)
    clusters = clusters_of(run, z, o.cluster_size)
    train_surrogate(text, surrogate_labels(train, clusters), cluster_texts(dataset.labels, o.fields, clusters), o)

    x, z = text.embed(text.documents), text.embed(text.labels)  # (N, D), (L, D)
    graph = joint_graph(task.rows, np.arange(len(train)))
    assert graph.train is not None
    assert graph.label is not None
    nodes = np.concatenate([z, x])  # (M, D), M = L + N
    hops = Hops(node_hops(nodes, stacked([graph.label, graph.train]), o.hops)).to(run.device)
    texts = Texts.of_columns({"title": graph.nodes})
    near = Bundle("nodes", text.encoder, tuple(o.fields), texts, {"encoder": nodes}, None, run.device)
    linked = Linked(near, o.links, hops)
    if o.true_edges or run.plan is not None:
        links = heaviest_links(graph.train, o.links)  # (N, K)
    else:
        links = linked.find(train.documents, x, text.encoder).ids
    if run.plan is not None:
        run.counted("nearest nodes", len(x), len(nodes), text.encoder.width)
    classifiers = HopClassifiers(z, hops.times).to(run.device)
    batches = Loader(
        train,
        Shuffled(len(train), o.batch, seed=o.seed),
        Pool(train.targets, positives=None, random=o.random_negatives),
        vector_source(hops.hops(x, links)),
        None,
        o.seed,
    )
    rate = o.classifier_learning_rate
    optimizer = adamw((hops, rate), (classifiers.table, rate), (classifiers.attention, o.attention_learning_rate))
    loss = loss_named(o.loss, temperature=o.temperature)

    def objective(b: Batch) -> dict[str, Tensor]:
        assert isinstance(b.documents, VectorTokens)
        v = F.dropout(hops(b.documents.values), o.dropout)  # (B, (H + 1) D)
        return {"classifier": loss(v @ classifiers(b.label_ids).T, b.targets, b.mask)}

    trained = {"hops": hops, "classifiers": classifiers}
    run.train("classifiers", objective, batches, optimizer, trained, pace=Pace(o.classifier_epochs))
    return task.model({"encoder": z, "classifier": classifiers.vectors()}, linked=linked)
