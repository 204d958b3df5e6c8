"""Documents and the nodes of a graph as a task of their own: the linker, and the links that documents train with."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch

from longtail.data.dataset import Dataset
from longtail.data.graph import Graph
from longtail.data.sparse import CSR, csr, csr_of_lists, load_csr, row_of_entry, save_csr
from longtail.data.split import Split
from longtail.data.texts import Strings, Texts
from longtail.errors import BadInput
from longtail.evaluate.metrics import evaluate
from longtail.model import Bundle
from longtail.modules.enrichment import Enrichment
from longtail.modules.linker import Linked
from longtail.stages.fusion import fuse, rows_held_out
from longtail.stages.text import Text, cache_of, loss_named
from longtail.text.tokens import token_table
from longtail.topk import FloatArray, IntArray
from longtail.train.log import Log
from longtail.train.run import Run

Recipe: TypeAlias = Callable[..., Bundle]
TRAIN_LINKS = ("true", "out-of-fold")


@dataclass(frozen=True, slots=True)
class Linking:
    """Which documents are linked to which nodes of a graph, and how a linker learns it.

    Attributes:
        graph: its name; None where no graph is wanted, and all of this does nothing.
        train: N training documents; their targets are the nodes that they are linked to.
        held_out: documents that no linker is trained on, with their links.
        nodes: M texts.
        recipe: of the linker.
        options: of that recipe.
        shared: whether linkers have no encoder of their own; those for out-of-fold links have one all the same.
        run: the linkers' runs are folders in its folder.
        device: where linkers run.
    """

    graph: str | None
    train: Split
    held_out: Split
    nodes: Texts
    recipe: Recipe
    options: Mapping[str, Any]
    shared: bool
    run: Run
    device: torch.device

    def into(self, dataset: Dataset, links: CSR | None = None) -> Dataset:
        """The data set with links of its N training documents, the true ones if left out, as its only graph."""
        if self.graph is None:
            return dataset
        edges = self.train.targets if links is None else links
        return replace(dataset, graphs={self.graph: Graph(self.nodes.fields["title"], edges, None)})

    def edges_of(self, dataset: Dataset) -> CSR | None:
        """The links of the training rows of a data set that `into` made, or one that was augmented then."""
        return None if self.graph is None else dataset.graphs[self.graph].train

    def linked(
        self,
        text: Text,
        fields: Sequence[str],
        enrichment: Enrichment | None,
        most: int,
        train: Callable[..., FloatArray],
    ) -> Linked | None:
        """The linker of the finished model, and what it is for; how good it is goes to the log.

        Args:
            text: the trained encoder.
            fields: that it reads.
            enrichment: the trained enrichment, or None.
            most: nodes of a document.
            train: `stages.train_classifiers` with its options, for a linker that shares the encoder.
        """
        if self.graph is None:
            return None
        linker = self.linker_on(text, tuple(fields), train) if self.shared else self.linker()
        self.report(linker, most)
        return Linked(linker, most, enrichment)

    def links_to_train_with(self, kind: str, *, folds: int, most: int, seed: int) -> CSR:
        """The (N, M) links that training documents are enriched with. Linkers are trained here: the first stage.

        Args:
            kind: ``true`` links, or those that linkers predict which have not seen the document (``out-of-fold``), as
                they are predicted for new documents.
            folds: F, at least 2: each part of the documents is linked by a linker that was trained on the others.
            most: links that are predicted for a document.
            seed: of the folds.
        """
        if self.graph is not None and not self.shared:
            self.linker()
        if self.graph is None or kind == "true":
            return self.train.targets
        kept = None if self.run.folder is None else self.run.folder / "links"
        if kept is not None and kept.is_dir():
            return load_csr(kept)
        fold = np.random.default_rng([seed, 0, 0, 0, 5]).permutation(len(self.train)) % folds
        ids = np.full((len(self.train), most), -1, np.int64)
        for i in range(folds):
            linker = self.linker(f"linker-without-{i + 1}-of-{folds}", np.flatnonzero(fold != i))
            rows = np.flatnonzero(fold == i)
            ids[rows] = linker.rank(self.train.documents.take(rows), most).ids
        rows, places = np.nonzero(ids >= 0)
        links = csr(rows, ids[rows, places], self.train.targets.shape)
        if kept is not None and self.run.folder is not None:
            save_csr(links, kept)
            for folder in self.run.folder.glob("linker-without-*"):
                shutil.rmtree(folder)
        return links

    def linker(self, name: str = "linker", rows: IntArray | None = None) -> Bundle:
        """A linker, trained in a run of its own within the run's folder, or found there.

        Args:
            name: of the folder.
            rows: the training documents that it learns from, all if left out; those without links are of no use to it.
        """
        folder = None if self.run.folder is None else self.run.folder / name
        if folder is None or not (folder / "model" / "bundle.json").is_file():
            some = np.arange(len(self.train)) if rows is None else rows
            some = some[np.diff(self.train.targets.indptr)[some] > 0]
            log = Log(None if folder is None else folder / "metrics.jsonl", self.run.log.console)
            self.run.log.say(f"{name}: {self.recipe.__name__} on {len(some):,} documents and {len(self.nodes):,} nodes")
            data = Dataset("links", self.train.take(some), self.nodes)
            trained = self.recipe(data, out=Run(folder, log, interval=self.run.interval), **self.options)
            if folder is None:
                return trained
        return Bundle.load(folder / "model", device=self.device)  # as a resumed run finds it

    def linker_on(self, text: Text, fields: tuple[str, ...], train: Callable[..., FloatArray]) -> Bundle:
        """A linker on an encoder that is trained already: classifiers of the nodes, and their fusion with the texts.

        Args:
            text: the encoder.
            fields: that the encoder reads.
            train: `stages.train_classifiers` with its options.
        """
        nodes, documents = (
            text.embed(token_table(texts, names, text.encoder.tokenizer, cache_of(self.run)))
            for texts, names in ((self.nodes, ("title",)), (self.train.documents, fields))
        )
        loss = loss_named("decoupled_softmax")
        vectors = {"encoder": nodes, "classifier": train(self.train, documents, nodes, loss, stage="linker")}
        bundle = Bundle("linker", text.encoder, fields, self.nodes, vectors, None, self.device)
        return fuse(bundle, self.held_out, self.train.targets)

    def report(self, linker: Bundle, most: int) -> None:
        """Say and note how good the links of the held-out documents are.

        Args:
            linker: gives each of them its nodes.
            most: nodes of a document.
        """
        some = np.flatnonzero(np.diff(self.held_out.targets.indptr))
        if not len(some):
            return
        ks = sorted({1, most})
        found = evaluate(linker.rank(self.held_out.documents.take(some), most), self.held_out.targets[some], ks=ks)
        figures = {name: round(found[name], 2) for name in (*(f"P@{k}" for k in ks), f"R@{most}")}
        self.run.log.note(linker=figures, documents=len(some))
        said = ", ".join(f"{name} {value:.1f}" for name, value in figures.items())
        self.run.log.say(f"linker: {said} on {len(some):,} documents that were held out")


def links_of(
    dataset: Dataset,
    graph: str | None,
    recipe: Recipe,
    options: Mapping[str, Any],
    validation: float,
    train_links: str,
    *,
    shared: bool,
    run: Run,
    device: torch.device,
    seed: int,
) -> Linking:
    """The links of a data set's training documents to the nodes of a graph.

    Args:
        dataset: as it was read: the rows that `fusing.hold_out` takes are held out here too.
        graph: the name of a graph; the only one if left out, and none for no graph.
        recipe: of the linker.
        options: of the recipe; those that it has no argument for are left out.
        validation: as of `fusing.hold_out`.
        train_links: as of `Linking.links_to_train_with`, for a check.
        shared: see `Linking`.
        run: of the recipe that wants the links.
        device: where linkers run.
        seed: as of `fusing.hold_out`.

    Raises:
        BadInput: there is no such graph or kind of links, there are several graphs, or the graph links no
            training document.
    """
    if train_links not in TRAIN_LINKS:
        problem = f"expected {' or '.join(TRAIN_LINKS)}, found {train_links}"
        raise BadInput("--train-links", problem, remedy="choose one of those")
    name = graph_named(dataset, graph)
    used = Graph(Strings.of([]), None, None) if name is None else dataset.graphs[name]
    nodes, weighted = used.nodes, used.train
    if weighted is None:
        weighted = csr_of_lists([[]] * len(dataset.train), 0)
    out = rows_held_out(dataset, validation, seed)
    kept = np.setdiff1d(np.arange(len(dataset.train)), out)
    edges = csr(row_of_entry(weighted), weighted.indices.astype(np.int64), weighted.shape)
    known_options = inspect.signature(recipe).parameters.keys() & options.keys()
    return Linking(
        name,
        Split(dataset.train.documents.take(kept), edges[kept]),
        Split(dataset.train.documents.take(out), edges[out]),
        Texts(Strings.of([""] * len(nodes)), {"title": nodes}),
        recipe,
        {key: options[key] for key in known_options},
        shared,
        run,
        device,
    )


def graph_named(dataset: Dataset, name: str | None) -> str | None:
    """The name of the graph that is meant, whose nodes shall enrich documents; None for none.

    Args:
        dataset: has the graphs.
        name: of a graph, ``none``, or None for the only one.

    Raises:
        BadInput: there is no such graph, there are several to choose from, or it links no training document.
    """
    if name == "none":
        return None
    known = ", ".join(dataset.graphs) or "none"
    if name is None:
        if len(dataset.graphs) != 1:
            problem = f"the data set has {len(dataset.graphs)} graphs: {known}"
            raise BadInput("--graph", problem, remedy="name the one whose nodes are to enrich documents, or none")
        (name,) = dataset.graphs
    if name not in dataset.graphs:
        raise BadInput("--graph", f"the data set has no graph {name}", remedy=f"its graphs are: {known}")
    edges = dataset.graphs[name].train
    if edges is None or not edges.nnz:
        raise BadInput("--graph", f"graph {name} links no training document", remedy="name another, or none")
    return name
