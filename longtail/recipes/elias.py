"""ELIAS: which labels stand below a cluster is learned, and a label may stand below several."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from longtail.batches.batch import Batch, pairs_on_device
from longtail.batches.links import heaviest_links
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.dataset import Dataset
from longtail.data.sparse import csr
from longtail.data.split import Split
from longtail.losses import loss_named
from longtail.losses.own import inner_products
from longtail.model import Bundle
from longtail.modules.links import Links
from longtail.options import COUNT, NATURAL, POSITIVE, option
from longtail.recipes.tree_papers import ELIAS
from longtail.search.tree import Tree
from longtail.stages.recipe import recipe
from longtail.stages.shortlists import members_of
from longtail.stages.task import read
from longtail.stages.text import Text
from longtail.stages.trees import (
    Nodes,
    TreeOptions,
    best,
    clusters_by_words,
    each_once,
    levels_above,
    model_of,
    tree_of,
)
from longtail.topk import IntArray
from longtail.train.optimizer import adamw
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(TreeOptions):
    """ELIAS."""

    start_epochs: int = option(4, "epochs before that, with each label below one cluster", within=NATURAL)
    links: int = option(64, "labels that a cluster is linked to", within=COUNT)
    link_scale: float = option(24.0, "about how many links of a cluster can have the weight 1", within=POSITIVE)
    cluster_scale: float = option(10.0, "about how many clusters of a row can have the probability 1", within=POSITIVE)
    shortlist: int = option(400, "labels of a row, those with the best paths, that are scored", within=COUNT)
    shortlist_weight: float = option(0.05, "of the term of the paths to true labels", within=NATURAL)
    loss: str = "binary_cross_entropy:over_labels=mean"
    epochs: int = 4


@recipe(Options, paper=ELIAS)
def elias(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train an encoder, clusters and labels, and then the weights of links between clusters and labels with them.

    Source: ELIAS (Gupta et al., 2022). A label's score is the best of its paths, which is the probability of a cluster
    times the weight of the link, times its own probability. Links are chosen by what documents of a cluster have.
    Departures and their measurements: docs/explanation/methods/elias.md.
    """
    task = read(run, dataset, o)
    train, text = task.train, task.text

    clusters = clusters_by_words(run, task, o)  # (L,)
    levels = levels_above(text, train, [clusters], 2 * [slice(0, text.encoder.width)], o)
    links = Links(members_of(clusters), 0.0).to(run.device)
    train_paths(text, train, levels, links, o, "start", o.start_epochs)
    near = linked(text, train, clusters, with_links(levels, links, o), o.links)
    links = Links(near, o.link_scale).to(run.device)
    train_paths(text, train, levels, links, o, "links", o.epochs)
    return model_of(task, with_links(levels, links, o), tree_of(levels, o.temperature)[1])


def train_paths(
    text: Text, split: Split, levels: list[Nodes], links: Links, o: Options, stage: str, epochs: int
) -> None:
    """Train an encoder, clusters, labels and links on the product of probabilities, as ELIAS does."""
    clusters, labels = levels
    loss, every = loss_named(o.loss), torch.arange(len(clusters.vectors.table), device=text.run.device)

    def objective(b: Batch) -> dict[str, Tensor]:
        x = clusters.seen(F.dropout(text.encoder(b.documents), o.dropout))  # (B, D + 1)
        odds = (o.cluster_scale * (x @ clusters.vectors(every).T / o.temperature).softmax(1)).clamp(max=1)  # (B, K)
        true, _ = pairs_on_device(clusters.split, b.rows, every)
        kept = best(every, None, odds.detach(), true, true >= 0, clusters.beam)  # (B, b)
        some, at = torch.unique(kept, return_inverse=True)
        paths = (odds.gather(1, kept)[:, :, None] * F.embedding(at, links(some))).flatten(1)  # (B, b * S)
        found, paths = best_paths(links.members[kept].flatten(1), paths, o.shortlist)  # (B, C) each
        ids, places = each_once(found)
        scores = inner_products(x, labels.vectors(ids), places) / o.temperature
        targets, mask = pairs_on_device(split, b.rows, ids, places)
        reached = -(targets * mask * paths.clamp_min(1e-6).log()).sum(1) / targets.sum(1).clamp_min(1)
        return {
            "labels": loss(torch.logit(paths * scores.sigmoid(), 1e-6), targets, mask),
            "paths": o.shortlist_weight * reached.mean(),
        }

    modules = torch.nn.ModuleList([clusters.vectors, labels.vectors, links])
    batches = text.batches(split, Shuffled(len(split), o.batch, seed=o.seed), Pool(split.targets, None), encoded=False)
    optimizer = adamw((text.encoder, text.rate(o.learning_rate)), (modules, o.classifier_learning_rate))
    trained = {"encoder": text.encoder, "tree": modules}
    text.run.train(stage, objective, batches, optimizer, trained, pace=o.pace(epochs))


def best_paths(ids: Tensor, paths: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """The labels of each row with the best paths to them: of several paths to one, the best counts.

    Args:
        ids: (B, P) labels, -1 for none.
        paths: (B, P) what each path is worth, not below 0.
        most: C, at most.

    Returns:
        (B, C) labels, each once, and -1 for none; and their paths.
    """
    order = paths.masked_fill(ids < 0, -1).argsort(dim=1, descending=True, stable=True)
    ids, paths = ids.gather(1, order), paths.gather(1, order)
    by_label = ids.argsort(dim=1, stable=True)
    same = F.pad(ids.gather(1, by_label).diff(dim=1) == 0, (1, 0))
    ids = ids.masked_fill(torch.zeros_like(same).scatter(1, by_label, same), -1)
    at = paths.masked_fill(ids < 0, -1).topk(min(most, ids.shape[1])).indices
    return ids.gather(1, at), paths.gather(1, at)


def linked(text: Text, split: Split, clusters: IntArray, tree: Tree, most: int) -> IntArray:
    """The labels that each cluster is to be linked to, (K, S): its own, and those that its documents have most of."""
    if text.run.plan is not None:
        return members_of(clusters)
    x = np.pad(text.embed(text.documents), ((0, 0), (0, 1)), constant_values=1)
    top = tree.nodes(x)
    there = top.ids >= 0
    documents = csr(there.nonzero()[0], top.ids[there], (len(x), tree.links.shape[0]), top.scores[there])
    counts = (documents.T @ split.targets + len(x) * (tree.links > 0)).tocsr()  # (K, L); its own come first
    return heaviest_links(counts, most)


def with_links(levels: list[Nodes], links: Links, o: Options) -> Tree:
    """The tree as it is by now."""
    (top,), start = tree_of(levels, o.temperature)[0].levels, levels[1].columns.start
    children = links.matrix(len(levels[1].vectors.table))
    return Tree((replace(top, children=children, scale=o.cluster_scale),), start)
