"""Metadata graphs as a regulariser: the paragraph that adds RAMEN's terms to the objective of any recipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.neighbours import Neighbours
from longtail.batches.node_texts import NodeTexts
from longtail.data.dataset import Dataset
from longtail.data.graph import Graph
from longtail.data.sparse import CSR, take_entries
from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.losses import LOSSES, loss_named
from longtail.losses.base import Loss
from longtail.losses.weights import Bandits, accuracy
from longtail.options import COUNT, NATURAL, Range, option
from longtail.shards.shard import of_all
from longtail.stages.recipe import RunOptions
from longtail.stages.task import Task
from longtail.stages.text import Text
from longtail.text.ragged import Ragged
from longtail.topk import IntArray
from longtail.train.renewal import When
from longtail.transforms.walk import cached_walk, walk

ABOVE_ZERO = Range(0, 1, open="low")
SIDES = ("documents", "labels")


@dataclass(frozen=True, kw_only=True)
class GraphOptions(RunOptions):
    """Metadata graphs."""

    graphs: Sequence[str] = option(("all",), "names of the graphs whose neighbours make loss terms; all, or none")
    graph_sides: Sequence[str] = option(SIDES, "whose neighbours make terms", choices=SIDES)
    graph_weights: str = option("fixed:0.1", "fixed:WEIGHT, bandit, or bandit:MEAN with the mean that it starts from")
    graph_loss: str | None = option(
        "triplet", "of these terms; that of the encoder if left out", choices=LOSSES, calls=True
    )
    graph_share: float = option(
        0.5,
        "share of a batch's documents and labels that draw a neighbour in each graph; 1 costs most",
        within=ABOVE_ZERO,
    )
    graph_redraw: int = option(10, "steps after which the bandits are rewarded and draw new weights", within=COUNT)
    walk_restart: float = option(
        0.8, "chance that a hop of the walk starts anew; 1 takes the edges as they are", within=ABOVE_ZERO
    )
    walk_keep: int = option(20, "nodes that the walk keeps of a document or label", within=COUNT)
    walk_again: bool = option(
        False,
        "at each pruning, prune the graph and walk anew over what is left; for graphs with many wrong edges",
    )
    hub_degree: int = option(500, "nodes with more neighbours than this are left out", within=COUNT)
    node_documents: int = option(
        0, "nodes that fewer training documents have are left out; 2 drops those that tie no two", within=NATURAL
    )
    prune: bool = option(True, "drop edges whose ends are not similar under the current encoder")
    prune_above: float = option(0.0, "the cosine that an edge must exceed to stay", within=Range(-1, 1))


class GraphTerms:
    """A loss term for each metadata graph and side: a text shall be nearer to its neighbours than to other nodes.

    A recipe makes it before training (`graph_terms`), gives ``pools`` to its `Loader`, encodes ``batch.nodes`` with the
    documents and labels, adds `terms` to its own, calls `before_epoch` with its periodic work, and names it among the
    ``others`` of `fit`. Without graphs each of these does nothing.

    Source: RAMEN (Mittal et al., 2025), section 3.1 and appendix A.

    Args:
        text: the encoder, documents and labels; the log of its run says what is left of the graphs.
        pools: the neighbours in each graph, by name.
        nodes: the tokens of each graph's nodes.
        loss: of a side's cosines to the anchors.
        weights: of the terms; learned ones are told the accuracy of the main task.
        prune_from: the first epoch before which edges are pruned, counted from 0.
        prune_every: epochs between two prunings; 0 for none.
        prune_above: edges of a cosine up to this are pruned.
    """

    def __init__(
        self,
        text: Text,
        pools: Mapping[str, Neighbours],
        nodes: Mapping[str, Ragged],
        loss: Loss,
        weights: Bandits,
        *,
        prune_from: int,
        prune_every: int,
        prune_above: float,
    ) -> None:
        self.pools, self.weights = pools, weights
        self._text, self._nodes, self._loss = text, nodes, loss
        self._from, self._every, self._above = prune_from, prune_every, prune_above

    def terms(self, batch: Batch, scores: Tensor, x: Tensor, z: Tensor, anchors: Sequence[Tensor]) -> dict[str, Tensor]:
        """The terms of a batch, by graph and side, times their weights: means over all rows, linked or not.

        Args:
            batch: with its graphs.
            scores: (B, P) of the main task.
            x: (B, D) documents.
            z: (P, D) labels of the pool.
            anchors: (A, D) the nodes of each graph, in the order of ``batch.nodes``.
        """
        vectors, terms = {"documents": x, "labels": z}, {}
        for (name, graph), a in zip(batch.graphs.items(), anchors, strict=True):
            for side, linked in graph.sides.items():
                if len(linked.at):
                    cosines = vectors[side][linked.at] @ a.T  # (R, A)
                    weight = linked.share * self.weights.weight(f"{name}.{side}")
                    terms[f"{name}.{side}"] = weight * self._loss(cosines, linked.targets, linked.mask)
        if self.weights.learn and any(len(graph.node_ids) for graph in batch.graphs.values()):
            mean = of_all(accuracy(scores, batch.targets, batch.mask), len(scores))
            if mean is not None:
                self.weights.observe(mean)
        return terms

    def before_epoch(self, epoch: int) -> None:
        """Prune the graphs when it is time, and note the edges that are kept, of how many, and the weights."""
        if not self.pools:
            return
        if self._every and When(self._from, self._every).of(epoch, steps=1):  # between epochs, whatever their length
            self._prune()
        if self._text.run.plan is None:
            self._note()

    def _note(self) -> None:
        numbers = {
            f"{name}.{side}": {
                "edges": edges,
                "of": pool.edges[side].nnz,
                "weight": round(self.weights.means[f"{name}.{side}"], 6),
            }
            for name, pool in self.pools.items()
            for side, edges in pool.counts().items()
        }
        self._text.run.log.note(graphs=numbers)
        said = (f"{name} {n['edges']:,} edges x {n['weight']:.3f}" for name, n in numbers.items())
        self._text.run.log.say(f"graphs: {', '.join(said)}")

    def _prune(self) -> None:
        tables = {"documents": self._text.documents, "labels": self._text.labels}
        used = {side for pool in self.pools.values() for side in pool.edges}
        vectors = {side: self._text.embed(table) for side, table in tables.items() if side in used}
        for name, pool in self.pools.items():
            pool.prune(vectors, self._text.embed(self._nodes[name]), above=self._above)

    def state_dict(self) -> dict[str, Any]:
        """The kept edges and the weights, for a checkpoint."""
        return {"weights": self.weights.state_dict()} | {
            f"graph.{name}": pool.state_dict() for name, pool in self.pools.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the state back from a checkpoint."""
        self.weights.load_state_dict(state["weights"])
        for name, pool in self.pools.items():
            pool.load_state_dict(state[f"graph.{name}"])


def graph_terms(task: Task, o: GraphOptions, *, loss: str, first: int, every: int) -> GraphTerms:
    """Walk on the graphs of a data set, and make the terms of them.

    Args:
        task: its rows have the graphs; held-out and test documents have no edges in them.
        o: which graphs, and how.
        loss: the name of the loss where the options leave it out.
        first: the first epoch before which edges are pruned, counted from 0.
        every: epochs between two prunings.

    Raises:
        BadInput: there is no such graph or weight, or a graph that was asked for by name has no edge to a node that
            says something, or none has.
    """
    text, run = task.text, task.text.run
    walking: dict[str, Any] = {"restart": o.walk_restart, "keep": o.walk_keep, "hub_degree": o.hub_degree}
    again = partial(walk, **walking) if o.walk_again else None
    pools: dict[str, Neighbours] = {}
    tables = {}
    names = chosen(task.rows, o.graphs)
    for name in names:
        graph = task.rows.graphs[name]
        table = text.tokens(Texts.of_columns({"title": graph.nodes}), ("title",))
        used = (np.diff(table.offsets) > 0) & (_degrees(graph) >= o.node_documents)
        known = {side: take_entries(matrix, used[matrix.indices]) for side, matrix in _edges(graph, o.graph_sides)}
        if not any(matrix.nnz for matrix in known.values()):
            problem = f"graph {name} has no edges of {' or '.join(o.graph_sides)} to nodes with a known word"
            if tuple(o.graphs) == ("all",) and (pools or name != names[-1]):  # another has some, or may have
                run.log.say(f"{problem}, and is left out")
                continue
            raise BadInput("graphs", problem, remedy="name the graphs that have, or give other graph_sides")
        walked = {
            side: run.once(f"walk {name} {side}", partial(cached_walk, matrix, run.cache, **walking))
            for side, matrix in known.items()
        }
        titles = task.rows.labels.fields["title"]
        texts = run.once(f"texts {name}", partial(NodeTexts.of, graph.nodes, task.train, titles))
        pools[name] = Neighbours(walked, known, text.source(table), texts=texts, share=o.graph_share, walk=again)
        tables[name] = table
    terms = [f"{name}.{side}" for name, pool in pools.items() for side in pool.edges]
    weights = _weights(o.graph_weights, terms, o.graph_redraw, o.seed)
    return GraphTerms(
        text,
        pools,
        tables,
        loss_named(o.graph_loss or loss),
        weights,
        prune_from=first,
        prune_every=every if o.prune else 0,
        prune_above=o.prune_above,
    )


def chosen(dataset: Dataset, names: Sequence[str]) -> list[str]:
    """The names of the graphs that are meant by some names, ``("all",)`` or ``("none",)``."""
    there = ", ".join(dataset.graphs) or "none"
    if tuple(names) == ("none",):
        return []
    if tuple(names) == ("all",):
        if not dataset.graphs:
            raise BadInput("graphs", "the data set has no graph", remedy="train without: graphs none")
        return list(dataset.graphs)
    for name in names:
        if name not in dataset.graphs:
            raise BadInput("graphs", f"the data set has no graph {name}", remedy=f"its graphs are: {there}")
    return list(names)


def _edges(graph: Graph, sides: Sequence[str]) -> Iterator[tuple[str, CSR]]:
    """The sides that are wanted and there."""
    for side, matrix in (("documents", graph.train), ("labels", graph.label)):
        if side in sides and matrix is not None:
            yield side, matrix


def _degrees(graph: Graph) -> IntArray:
    """(M,) how many training documents a node has, or labels, where the graph has no documents."""
    edges = graph.label if graph.train is None else graph.train
    ids = np.zeros(0, np.int64) if edges is None else edges.indices
    return np.bincount(ids, minlength=len(graph.nodes)).astype(np.int64)


def _weights(given: str, terms: Sequence[str], redraw: int, seed: int) -> Bandits:
    """The weights of the terms, as an argument says."""
    kind, _, number = given.partition(":")
    try:
        mean = float(number) if number else 0.1
    except ValueError:
        mean = -1.0
    if kind not in {"bandit", "fixed"} or mean < 0:
        problem = f"expected bandit, bandit:MEAN or fixed:WEIGHT, found {given}"
        raise BadInput("graph_weights", problem, remedy="give fixed:0.1, or leave it out")
    deviation = mean if kind == "bandit" else 0.0  # with the rate, all in proportion to the mean; 0.1, 0.1, 0.01 at 0.1
    return Bandits(terms, mean=mean, deviation=deviation, learning_rate=mean**2, window=redraw, seed=seed)
