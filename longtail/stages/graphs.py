"""Metadata graphs as a regulariser: the paragraph that adds RAMEN's terms to the objective of any recipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.neighbours import Neighbours
from longtail.data.dataset import Dataset
from longtail.data.graph import Graph
from longtail.data.sparse import CSR, take_entries
from longtail.data.texts import Strings, Texts
from longtail.errors import BadInput
from longtail.losses.base import Loss
from longtail.losses.weights import Bandits, accuracy
from longtail.stages.text import Text, cache_of, loss_named
from longtail.text.ragged import Ragged
from longtail.text.tokens import token_table
from longtail.train.run import Run
from longtail.transforms.walk import cached_walk, walk

SIDES = ("documents", "labels")


class GraphTerms:
    """A loss term for each metadata graph and side: a text shall be nearer to its neighbours than to other nodes.

    A recipe makes it before training (`graph_terms`), gives ``pools`` to its `Loader`, encodes ``batch.nodes`` with the
    documents and labels, adds `terms` to its own, calls `before_epoch` with its periodic work, and names it among the
    ``others`` of `fit`. Without graphs each of these does nothing.

    Source: RAMEN (Mittal et al., 2025), section 3.1 and appendix A.

    Args:
        text: the encoder, documents and labels.
        pools: the neighbours in each graph, by name.
        nodes: the tokens of each graph's nodes.
        loss: of a side's cosines to the anchors.
        weights: of the terms; learned ones are told the accuracy of the main task.
        run: its log says what is left of the graphs.
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
        run: Run,
        *,
        prune_from: int,
        prune_every: int,
        prune_above: float,
    ) -> None:
        self.pools, self.weights = pools, weights
        self._text, self._nodes, self._loss, self._run = text, nodes, loss, run
        self._from, self._every, self._above = prune_from, prune_every, prune_above

    def terms(self, batch: Batch, scores: Tensor, x: Tensor, z: Tensor, anchors: Sequence[Tensor]) -> dict[str, Tensor]:
        """The terms of a batch, by graph and side, times their weights.

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
                    weight = self.weights.weight(f"{name}.{side}")
                    terms[f"{name}.{side}"] = weight * self._loss(cosines, linked.targets, linked.mask)
        if terms and self.weights.learn:
            self.weights.observe(accuracy(scores, batch.targets, batch.mask))
        return terms

    def before_epoch(self, epoch: int) -> None:
        """Prune the graphs when it is time, and note the edges that are kept, of how many, and the weights."""
        if not self.pools:
            return
        if epoch == 0:
            self.weights.restart()  # trial steps have been counted
        if self._every and epoch >= self._from and (epoch - self._from) % self._every == 0:
            self._prune()
        numbers = {
            f"{name}.{side}": {
                "edges": edges,
                "of": pool.edges[side].nnz,
                "weight": round(self.weights.means[f"{name}.{side}"], 6),
            }
            for name, pool in self.pools.items()
            for side, edges in pool.counts().items()
        }
        self._run.log.note(graphs=numbers)
        said = (f"{name} {n['edges']:,} edges x {n['weight']:.3f}" for name, n in numbers.items())
        self._run.log.say(f"graphs: {', '.join(said)}")

    def _prune(self) -> None:
        tables = {"documents": self._text.documents, "labels": self._text.labels}
        used = {side for pool in self.pools.values() for side in pool.edges}
        vectors = {side: self._text.embed(tables[side]) for side in used}
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


def graph_terms(
    dataset: Dataset,
    text: Text,
    run: Run,
    *,
    names: Sequence[str],
    seed: int,
    sides: Sequence[str] = SIDES,
    loss: str = "triplet",
    weights: str = "bandit:0.03",
    redraw: int = 10,
    share: float = 0.5,
    restart: float = 0.8,
    keep: int = 20,
    hub: int = 500,
    prune_from: int = 2,
    prune_every: int = 1,
    prune_above: float = 0.0,
    walk_again: bool = False,
) -> GraphTerms:
    """Walk on the graphs of a data set, and make the terms of them.

    Args:
        dataset: has the graphs; held-out and test documents have no edges in them.
        text: the encoder, and the tokens of documents and labels.
        run: keeps walks and tokens while it trains.
        names: of the graphs, ``("all",)`` or ``("none",)``.
        seed: of the weights.
        sides: ``documents``, ``labels``, or both.
        loss: a name of `LOSSES`.
        weights: ``bandit``, ``bandit:MEAN`` with the mean that they start from (0.1 if left out), or ``fixed:WEIGHT``.
        redraw: steps after which the bandits are rewarded and weights drawn anew.
        share: in (0, 1], of the documents and labels of a batch that draw a neighbour in each graph.
        restart: of the walk (`longtail.transforms.walk.walk`); 1 takes the edges as they are.
        keep: nodes a row that the walk keeps.
        hub: a node with more neighbours than this is left out.
        prune_from: see `GraphTerms`.
        prune_every: see `GraphTerms`.
        prune_above: see `GraphTerms`.
        walk_again: prune the edges of the graph and walk anew over what is left, not what the first walk found.

    Raises:
        BadInput: there is no such graph, side or weight, or a graph that was asked for by name has no edge.
    """
    for side in sides:
        if side not in SIDES:
            raise BadInput(
                "--graph-sides", f"expected documents, labels or both, found {side}", remedy="choose of those"
            )
    pools, tables = {}, {}
    for name in chosen(dataset, names):
        graph = dataset.graphs[name]
        nodes = Texts(Strings.of([""] * len(graph.nodes)), {"title": graph.nodes})
        table = token_table(nodes, ("title",), text.encoder.tokenizer, cache_of(run))
        known = {side: _readable(matrix, table) for side, matrix in _edges(graph, sides)}
        if not any(matrix.nnz for matrix in known.values()):
            problem = f"graph {name} has no edges of {' or '.join(sides)}"
            raise BadInput("--graphs", problem, remedy="name the graphs that have, or give other --graph-sides")
        walked = {
            side: cached_walk(matrix, cache_of(run), restart=restart, keep=keep, hub=hub)
            for side, matrix in known.items()
        }
        again = partial(walk, restart=restart, keep=keep, hub=hub) if walk_again else None
        pools[name] = Neighbours(walked, known, partial(text.encoder.tokenizer.batch, table), share=share, walk=again)
        tables[name] = table
    terms = [f"{name}.{side}" for name, pool in pools.items() for side in pool.edges]
    return GraphTerms(
        text,
        pools,
        tables,
        loss_named(loss),
        _weights(weights, terms, redraw, seed),
        run,
        prune_from=prune_from,
        prune_every=prune_every,
        prune_above=prune_above,
    )


def chosen(dataset: Dataset, names: Sequence[str]) -> list[str]:
    """The names of the graphs that are meant by some names, ``("all",)`` or ``("none",)``."""
    there = ", ".join(dataset.graphs) or "none"
    if tuple(names) == ("none",):
        return []
    if tuple(names) == ("all",):
        if not dataset.graphs:
            raise BadInput("--graphs", "the data set has no graph", remedy="train without: --graphs none")
        return list(dataset.graphs)
    for name in names:
        if name not in dataset.graphs:
            raise BadInput("--graphs", f"the data set has no graph {name}", remedy=f"its graphs are: {there}")
    return list(names)


def _edges(graph: Graph, sides: Sequence[str]) -> Iterator[tuple[str, CSR]]:
    """The sides that are wanted and there."""
    for side, matrix in (("documents", graph.train), ("labels", graph.label)):
        if side in sides and matrix is not None:
            yield side, matrix


def _readable(edges: CSR, nodes: Ragged) -> CSR:
    """The edges to nodes that the encoder can read: those with a token."""
    return take_entries(edges, np.diff(nodes.offsets)[edges.indices] > 0)


def _weights(given: str, terms: Sequence[str], redraw: int, seed: int) -> Bandits:
    """The weights of the terms, as an argument says."""
    kind, _, number = given.partition(":")
    try:
        mean = float(number) if number else 0.1
    except ValueError:
        mean = -1.0
    if kind not in {"bandit", "fixed"} or mean < 0:
        problem = f"expected bandit, bandit:MEAN or fixed:WEIGHT, found {given}"
        raise BadInput("--graph-weights", problem, remedy="fixed:0.1 switches the bandits off")
    deviation = mean if kind == "bandit" else 0.0  # with the rate, all in proportion to the mean; 0.1, 0.1, 0.01 at 0.1
    return Bandits(terms, mean=mean, deviation=deviation, learning_rate=mean**2, every=redraw, seed=seed)
