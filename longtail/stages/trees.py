"""Trees of labels: all levels are trained at once, each on what stands below the best nodes of the level above."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from longtail.batches.batch import Batch, pairs_on_device
from longtail.batches.pool import Pool, true_labels
from longtail.batches.samplers import Shuffled
from longtail.data.dataset import Dataset
from longtail.data.sparse import CSR, csr
from longtail.data.split import Split
from longtail.errors import BadInput
from longtail.losses import is_one_versus_all, loss_named
from longtail.losses.own import inner_products
from longtail.metrics.propensity import log_odds
from longtail.model import Bundle
from longtail.modules.attended import Attended, attended
from longtail.modules.classifiers import FreeVectors
from longtail.modules.encoders.named import join_layers
from longtail.options import BELOW_ONE, COUNT, NATURAL, POSITIVE, option
from longtail.search.attention import Attention
from longtail.search.tree import Level, Tree
from longtail.stages.shortlists import clusters_of, label_centroids, members_of, with_one
from longtail.stages.surrogate import surrogate_labels
from longtail.stages.task import EncoderOptions, Task
from longtail.stages.text import Text, read_text
from longtail.text.tokens import Tokens
from longtail.topk import FloatArray, IntArray
from longtail.train.optimizer import adamw
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class TreeOptions(EncoderOptions):
    """A tree of labels."""

    cluster_size: int = option(16, "the most labels of a cluster", within=COUNT)
    beam: int = option(
        16,
        "clusters with the highest scores for a row, whose labels are looked at; half as many a level up",
        within=COUNT,
    )
    temperature: float = option(0.1, "of the loss", within=POSITIVE)
    classifier_learning_rate: float = option(1e-2, "of the vectors of clusters and labels", within=NATURAL)
    dropout: float = option(0.3, "share of a row vector's numbers that are dropped in a step", within=BELOW_ONE)
    loss: str = "binary_cross_entropy"
    epochs: int = 8
    random_negatives: int = 0
    batch: int = 256

    def check(self, dataset: Dataset) -> None:
        """Refuse, besides, a loss whose scores are no logits."""
        super().check(dataset)
        if not is_one_versus_all(self.loss):
            problem = f"expected one that asks of each label by itself, as scores are probabilities, found {self.loss}"
            raise BadInput("loss", problem, remedy="take binary_cross_entropy")


@dataclass(frozen=True, kw_only=True)
class NestedTreeOptions(TreeOptions):
    """Levels of clusters."""

    levels: int = option(2, "levels of clusters above the labels", within=COUNT)
    branching: int = option(3, "times that a cluster is halved from a level of clusters to the next", within=COUNT)


@dataclass(frozen=True, slots=True)
class Nodes:
    """A level in training: K clusters, or the labels.

    Attributes:
        vectors: (K, W), the last number of each its bias.
        columns: of a text's vector, W - 1 of them, that they read.
        split: the rows, with the nodes that are true for them.
        above: (K,) int64, the node of the level above that each stands below; None for the first level.
        beam: nodes that are kept.
    """

    vectors: FreeVectors
    columns: slice
    split: Split
    above: IntArray | None
    beam: int

    def seen(self, x: Tensor) -> Tensor:
        """What they read of texts (B, D), and a 1: (B, W)."""
        return with_one(x[:, self.columns])


Scores = Callable[[Nodes, Tensor, "Tensor | None"], Tensor]  # of a level, (U,) nodes and the places of rows in these


def train_tree(
    text: Text, split: Split, levels: Sequence[Nodes], o: TreeOptions, states: Attended | None = None
) -> None:
    """Train an encoder and all levels in one pass, with a yes-or-no question of each node that a row meets.

    A row meets every node of the first level, and what stands below the best nodes of a level in the next one, as they
    are ranked in that step; true nodes count as the best, so that what is true is met on every level. Sources: LightXML
    (Jiang et al., 2021), whose dynamic negatives these are; CascadeXML (Kharbanda et al., 2022) for more than one level
    of clusters; AttentionXML (You et al., 2019) for nodes that attend to states.

    Args:
        text: the encoder, and the tokens of the rows; its run keeps the stage ``tree``.
        split: N training rows.
        levels: from the top; the last is that of the labels.
        o: how.
        states: of the encoder, where nodes attend to them.
    """
    device, loss = text.run.device, loss_named(o.loss, temperature=o.temperature)
    members = [torch.from_numpy(members_of(one.above)).to(device) for one in levels if one.above is not None]
    pool = Pool(split.targets, None, o.random_negatives)
    batches = text.batches(split, Shuffled(len(split), o.batch, seed=o.seed), pool, encoded=False)

    def read(documents: Tokens) -> Scores:
        if states is not None:
            keys, values = states.states(documents)  # (B, T, E), (B, T, V)
            return lambda level, ids, places: attended(keys, values, level.vectors(ids), places)
        x = F.dropout(text.encoder(documents), o.dropout)  # (B, D)
        return lambda level, ids, places: inner_products(level.seen(x), level.vectors(ids), places)

    def objective(b: Batch) -> dict[str, Tensor]:
        scores_of = read(b.documents)
        ids, places = torch.arange(len(levels[0].vectors.table), device=device), None
        terms: dict[str, Tensor] = {}
        for i, level in enumerate(levels):
            scores = scores_of(level, ids, places)  # (B, K), or (B, C)
            targets, mask = pairs_on_device(level.split, b.rows, ids, places)
            terms["labels" if level is levels[-1] else f"clusters {i + 1}"] = loss(scores, targets, mask)
            if level is not levels[-1]:
                kept = best(ids, places, scores.detach(), targets, mask, level.beam)
                shared = b.label_ids if o.random_negatives and i + 2 == len(levels) else None
                ids, places = met(kept, members[i], levels[i + 1].split, b.rows, shared)
        return terms

    vectors = torch.nn.ModuleList(level.vectors for level in levels)
    encoder = states or text.encoder
    optimizer = adamw((encoder, text.rate(o.learning_rate)), (vectors, o.classifier_learning_rate))
    trained = {"encoder": encoder, "vectors": vectors}
    text.run.train("tree", objective, batches, optimizer, trained, pace=o.pace(o.epochs))


def best(ids: Tensor, places: Tensor | None, scores: Tensor, targets: Tensor, mask: Tensor, beam: int) -> Tensor:
    """The nodes that are kept for B rows, (B, b), -1 where there are fewer: true ones, then those that score highest.

    Args:
        ids: (U,) nodes.
        places: (B, C) in [-1, U), those of each row; None for all.
        scores: of each row and its nodes, (B, C) or (B, U), as the next two are.
        targets: above 0 where a node is true.
        mask: False where nothing is known, or there is no node.
        beam: b, at most.
    """
    order = scores.masked_fill(targets > 0, torch.inf).masked_fill(~mask, -torch.inf)
    value, at = order.topk(min(beam, order.shape[1]))
    found = ids[at] if places is None else ids[places.gather(1, at).clamp_min(0)]
    return found.masked_fill(value == -torch.inf, -1)


def met(
    kept: Tensor, members: Tensor, split: Split, rows: Tensor, shared: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """What some rows meet: the nodes below those that are kept, those that are true, and those that all of them share.

    Args:
        kept: (B, b) nodes of the level above, -1 for none.
        members: (K, S) the nodes below each, -1 for none.
        split: the rows with the nodes that are true for them.
        rows: (B,) which of them.
        shared: (R,) nodes, if there are some.

    Returns:
        (U,) nodes, ascending, and the places of each row among these, (B, C), each once, and -1 for none.
    """
    below = members[kept.clamp_min(0)].masked_fill(kept[:, :, None] < 0, -1).flatten(1)  # (B, b * S)
    true = torch.from_numpy(true_labels(split.targets, rows.cpu().numpy())).to(rows.device)
    found = [below, true] if shared is None else [below, true, shared.expand(len(rows), -1)]
    some = torch.cat(found, 1).sort(1).values
    return each_once(some.masked_fill(F.pad(some.diff(dim=1) == 0, (1, 0)), -1))


def each_once(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes of B rows, (B, C) with -1 for none, as the (U,) distinct ones, ascending, and places (B, C) among these."""
    some, places = torch.unique(ids, return_inverse=True)
    padded = int(len(some) > 0 and some[0] < 0)
    return some[padded:], places - padded


def levels_above(
    text: Text, split: Split, clusters: Sequence[IntArray], columns: Sequence[slice], o: TreeOptions
) -> list[Nodes]:
    """The levels of a tree before they are trained: vectors of zeros, and biases at the odds of a node below its own.

    Args:
        text: of the recipe.
        split: N rows of L labels.
        clusters: from the top, the cluster of each label, (L,) int64; each is a part of one in the level above.
        columns: of a text's vector, what each level reads, and the labels after them.
        o: how.
    """
    of_labels = [*clusters, np.arange(split.targets.shape[1])]
    levels: list[Nodes] = []
    for i, (of, some) in enumerate(zip(of_labels, columns, strict=True)):
        here = split if i == len(clusters) else surrogate_labels(split, of)
        above, odds = None, log_odds(here.targets)
        if levels:
            above = np.zeros(len(odds), np.int64)
            above[of] = of_labels[i - 1]
            odds = odds - log_odds(levels[-1].split.targets)[above]
        begin = np.zeros((len(odds), some.stop - some.start + 1), np.float32)
        begin[:, -1] = o.temperature * odds
        vectors = FreeVectors(begin, normalised=False).to(text.run.device)
        levels.append(Nodes(vectors, some, here, above, max(1, o.beam >> max(0, len(clusters) - 1 - i))))
    return levels


def tree_of(levels: Sequence[Nodes], temperature: float, attention: Attention | None = None) -> tuple[Tree, FloatArray]:
    """The levels above the labels, to be searched, and the vectors of the labels, (L, W), whose scores are logits."""
    *above, w = [level.vectors.table.export() / temperature for level in levels]
    found = [
        Level(vectors, level.columns.start, links(below.above, len(vectors)), level.beam)
        for vectors, level, below in zip(above, levels, levels[1:], strict=False)
    ]
    return Tree(tuple(found), levels[-1].columns.start, attention), w


def trained_tree(task: Task, clusters: Sequence[IntArray], columns: Sequence[slice], o: TreeOptions) -> Bundle:
    """The model of `levels_above`, trained in one pass; its arguments are described there."""
    levels = levels_above(task.text, task.train, clusters, columns, o)
    train_tree(task.text, task.train, levels, o)
    return model_of(task, *tree_of(levels, o.temperature))


def model_of(task: Task, tree: Tree, w: FloatArray) -> Bundle:
    """The trained model of a tree and the vectors of its labels (L, W); a text is near the centroids of documents."""
    z = label_centroids(task.train.targets, task.text.embed(task.text.documents))  # (L, D)
    return replace(task.model({"encoder": z}), vectors={"encoder": z, "tree": w}, tree=tree)


def links(above: IntArray | None, count: int) -> CSR:
    """(K, M) with a one for each of M nodes, below the one of K that it belongs to."""
    assert above is not None
    return csr(above, np.arange(len(above)), (count, len(above)))


def join_layers_of(text: Text, layers: Callable[[int], Sequence[int]], otherwise: str) -> int:
    """Let a transformer join some of its layers (`longtail.modules.encoders.named.join_layers`).

    Args:
        text: has the encoder.
        layers: chooses them by how many there are.
        otherwise: what is said of an encoder that has none to choose from.

    Returns:
        How many were joined; 0 for such an encoder.
    """
    joined = join_layers(text.encoder, layers)
    if not joined and text.run.plan is None:
        text.run.log.say(otherwise)
    return joined


def clusters_by_words(run: Run, task: Task, o: TreeOptions) -> IntArray:
    """The cluster of each label, (L,), by the centroids of its documents' tf-idf features, whatever the encoder is."""
    words = replace(o, encoder="bag", width=256, static_vectors=None, knowledge="none", start=None)
    bag = run.once("bag", lambda: read_text(run, task.rows, words))
    return clusters_of(run, label_centroids(task.train.targets, bag.embed(bag.documents)), o.cluster_size)


def nested_clusters(run: Run, task: Task, o: NestedTreeOptions) -> list[IntArray]:
    """The cluster of each label, (L,), level by level from the top; the last are those of `clusters_by_words`."""
    finest = clusters_by_words(run, task, o)
    return [finest >> o.branching * i for i in reversed(range(o.levels))]
