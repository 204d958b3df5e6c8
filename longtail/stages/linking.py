"""Documents and the nodes of a graph as a task of their own: the linker, and the links that documents train with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from inspect import signature

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.filters import answers, apart, same_texts
from longtail.data.graph import Graph
from longtail.data.sparse import CSR, csr, load_csr, row_of_entry, save_csr, take_entries
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.files import remove_folder
from longtail.losses import loss_named
from longtail.metrics.ranking import metrics_of
from longtail.model import Bundle
from longtail.model.saved import CARD
from longtail.modules.enrichment import Enrichment
from longtail.modules.linker import Chances, Linked
from longtail.options import COUNT, NATURAL, Range, option
from longtail.stages.frozen_encoder import LabelVectorOptions, train_classifiers
from longtail.stages.graph_that_enriches import graph_that_enriches
from longtail.stages.held_out import FusionOptions, fuse, rows_held_out
from longtail.stages.language_model import given
from longtail.stages.recipe import Recipe
from longtail.stages.text import Text
from longtail.text.tokens import token_table
from longtail.topk import IntArray, TopK
from longtail.train.run import Run
from longtail.transforms import augmented

TRAIN_LINKS = ("true", "answer-free", "predicted", "out-of-fold")
LINKERS = (
    *("unidec", "depsl", "ramen", "ngame", "dexa", "ance", "dpr", "siamesexml", "astec", "decaf", "eclare"),
    *("inceptionxml", "inceptionxml_lf", "attentionxml", "lightxml", "cascadexml", "elias", "renee", "dexml"),
)
_LINKS = "links that enrich documents"  # a graph of the training rows while some are added, and their links with them


@dataclass(frozen=True, kw_only=True)
class LinkOptions(LabelVectorOptions):
    """Links of documents to nodes."""

    enrich: str | None = option(
        None,
        "the graph whose nodes enrich documents; the only one if left out, none for documents as they are, and joint "
        "for that of labels and training documents, which true pairs make",
    )
    linker: str = option(
        "unidec",
        "the recipe of the linker, trained with the graph's nodes as labels in a run of its own",
        choices=LINKERS,
    )
    linker_epochs: int = option(6, "of the linker", within=NATURAL)
    label_rows: bool = option(False, "the linker learns from the texts of labels and their nodes in the graph, too")
    share_encoder: bool = option(
        False,
        "no encoder of the linker's own: it is trained last, as classifiers of the nodes on the frozen encoder, so "
        "that a new document is encoded once for both",
    )
    train_links: str = option(
        "answer-free",
        "links that documents are trained with: as they are, without the nodes that are labels of the document, "
        "predicted by the linker, or predicted by linkers that have not seen the document",
        choices=TRAIN_LINKS,
    )
    folds: int = option(
        2,
        "parts of the training documents for the out-of-fold links; each takes one more linker",
        within=Range(2),
    )
    links: int = option(3, "nodes that the linker gives a document", within=COUNT)
    link_chances: bool = option(
        True,
        "links that are predicted count as far as they are probable, which is learned on the held-out documents; else "
        "as if they were true, as published",
    )
    most_links: int = option(
        15, "nodes that a document has at most in training; of more, a random part in each step", within=COUNT
    )


@dataclass(frozen=True, slots=True)
class Linking:
    """Which documents are linked to which nodes of a graph, and how a linker learns it.

    Attributes:
        train: N training documents; their targets are the nodes that they are linked to, and nodes of the document's
            own text are filtered: they are never links, and no linker learns that they are none.
        held_out: documents that no linker is trained on, with their links.
        links: (N, M) the same links of the training documents, by their weights in the graph.
        answers: (N, M) nodes that are true labels of the training documents.
        nodes: M texts.
        labels: L texts.
        of_labels: (L, M) the links of labels in the graph, none to a node of a label's own text.
        recipe: of the linker.
        o: how.
        run: the linkers' runs are folders in its folder.
    """

    train: Split
    held_out: Split
    links: CSR
    answers: CSR
    nodes: Texts
    labels: Texts
    of_labels: CSR
    recipe: Recipe
    o: LinkOptions
    run: Run
    _made: dict[str, Bundle] = field(default_factory=dict, init=False, repr=False)
    _chances: list[Chances | None] = field(default_factory=list, init=False, repr=False)  # of the linker, once learned

    def augmented(self, dataset: Dataset, links: CSR | None = None) -> tuple[Dataset, CSR]:
        """A data set with the rows that the options add, and the links of its rows.

        Args:
            dataset: N training documents.
            links: (N, M) of these, the true ones if left out.
        """
        edges = Graph(self.nodes.fields["title"], self.links if links is None else links, None)
        rows = augmented(replace(dataset, graphs={**dataset.graphs, _LINKS: edges}), self.o.augment, seed=self.o.seed)
        of_rows = rows.graphs[_LINKS].train
        assert of_rows is not None
        return replace(rows, graphs={name: graph for name, graph in rows.graphs.items() if name != _LINKS}), of_rows

    def linked(self, text: Text, enrichment: Enrichment | None) -> Linked:
        """The linker of the finished model, and what it is for; how good it is goes to the log.

        Args:
            text: the trained encoder.
            enrichment: the trained enrichment, or None.
        """
        linker = self.linker_on(text) if self.o.share_encoder else self.linker()
        linked = self.believing(linker, enrichment)
        if self.run.plan is None:
            self.report(linked.find(self.held_out.documents))
        return linked

    def believing(self, linker: Bundle, enrichment: Enrichment | None) -> Linked:
        """A linker, whose links are believed as far as those that it finds for the held-out documents are true."""
        if self.o.link_chances and self.run.plan is None and not self._chances:
            found = Linked(linker, self.o.links, None).find(self.held_out.documents)
            self._chances.append(Chances.learn(found, self.held_out.targets))
        return Linked(linker, self.o.links, enrichment, *self._chances)

    def links_to_train_with(self) -> CSR:
        """The (N, M) links that training documents are enriched with. Linkers are trained here: the first stage.

        They are the true links, or those of them that do not give a true label away, or those that the linker predicts,
        or those that linkers predict which have not seen the document, as they are predicted for new documents: each of
        F parts of the documents is linked by a linker that was trained on the others. Their weights are those of the
        graph, or `are_chances`.
        """
        if not self.o.share_encoder:
            self.linker()
        if self.o.train_links == "true":
            return self.links
        if self.o.train_links == "answer-free":
            return apart(self.links, self.answers)
        kept = None if self.run.folder is None else self.run.folder / "links"
        if kept is not None and kept.is_dir():
            self._forget_folds()  # a crash may have come between the two
            return load_csr(kept)
        links = self._predicted()
        if kept is not None and self.run.plan is None:
            self.run.ranks.wait()  # all have read the linkers
            if self.run.ranks.first:
                save_csr(links, kept)
            self._forget_folds()
        return links

    @property
    def are_chances(self) -> bool:
        """Whether the weights of `links_to_train_with` are how probable the links are."""
        return self.o.link_chances and self.o.train_links == "out-of-fold"

    def _forget_folds(self) -> None:
        """Remove the linkers that were trained for the links alone."""
        assert self.run.folder is not None
        for folder in self.run.folder.glob("linker-without-*") if self.run.ranks.first else ():
            remove_folder(folder)

    def _predicted(self) -> CSR:
        """The links of each fold of the documents, by a linker that was trained on the others; one fold is all."""
        folds, most = self.o.folds if self.o.train_links == "out-of-fold" else 1, self.o.links
        fold = np.random.default_rng([self.o.seed, 0, 0, 0, 5]).permutation(len(self.train)) % folds
        ids, weights = np.full((len(self.train), most), -1, np.int64), np.ones((len(self.train), most), np.float32)
        for i in range(folds):
            rows, others = np.flatnonzero(fold == i), np.flatnonzero(fold != i)
            if folds > 1 and not self.train.targets[others].nnz:
                continue  # there is nothing to learn links from
            without = f"linker-without-{i + 1}-of-{folds}"
            linker = self.linker() if folds == 1 else self.linker(without, others)
            if self.run.plan is None:
                found = Linked(linker, most, None).find(self.train.documents.take(rows))
                ids[rows], chances = found.ids, Chances.learn(found, self.train.targets[rows])
                if chances is not None and self.are_chances:
                    weights[rows] = chances(found)
            else:
                self.run.counted("links", len(rows), len(self.nodes), linker.width)
        rows, places = np.nonzero(ids >= 0)
        return csr(rows, ids[rows, places], self.train.targets.shape, weights[rows, places])

    def linker(self, name: str = "linker", rows: IntArray | None = None) -> Bundle:
        """A linker, trained once in a run of its own within the run's folder, or found there.

        Args:
            name: of the folder.
            rows: the training documents that it learns from, all if left out; those without links are of no use to it.
        """
        if name not in self._made:
            folder = None if self.run.folder is None else self.run.folder / name
            trained = None
            if folder is None or not (folder / "model" / CARD).is_file():
                some = np.arange(len(self.train)) if rows is None else rows
                some = some[np.diff(self.train.targets.indptr)[some] > 0]
                data = Dataset("links", self.train.take(some), self.nodes)
                trained = self._trained(name, data.with_rows(self._label_rows(rows)) if self.o.label_rows else data)
            if folder is not None and (trained is None or self.run.plan is None):
                trained = Bundle.load(folder / "model", device=self.run.device)  # as a resumed run finds it
            assert trained is not None
            self._made[name] = trained
        return self._made[name]

    def _label_rows(self, rows: IntArray | None) -> Split:
        """The texts of labels that have nodes, none of which is a document that is not among some rows."""
        titles, links = self.train.documents.fields["title"], self.of_labels
        if rows is not None:
            unseen = same_texts(titles.take(np.setdiff1d(np.arange(len(titles)), rows)), self.nodes.fields["title"])
            links = take_entries(links, ~np.isin(links.indices, unseen.indices))
        some = np.flatnonzero(np.diff(links.indptr))
        texts = self.labels.take(some)
        itself = same_texts(texts.fields["title"], self.nodes.fields["title"])
        return Split(texts, csr(row_of_entry(links[some]), links[some].indices, itself.shape), itself)

    def _trained(self, name: str, data: Dataset) -> Bundle:
        if self.run.plan is None:
            on = f"{len(data.train):,} documents and {len(data.labels):,} nodes"
            self.run.log.say(f"{name}: {self.recipe.__name__} on {on}")
        o = self.o
        trained: Bundle = self.recipe(
            data,
            out=self.run.within(name),
            encoder=o.encoder,
            fields=o.fields,
            width=o.width,
            max_length=o.max_length,
            static_vectors=o.static_vectors,
            epochs=o.linker_epochs,
            batch=o.batch,
            random_negatives=o.random_negatives,
            seed=o.seed,
            device=o.device,
            **given(o),
            **({"memory": False, "tail_price": 0} if "tail_price" in signature(self.recipe).parameters else {}),
        )
        return trained

    def linker_on(self, text: Text) -> Bundle:
        """A linker on an encoder that is trained already: classifiers of the nodes, and their fusion with the texts."""
        nodes = text.embed(token_table(self.nodes, ("title",), text.encoder.label_tokenizer))
        documents = text.embed(text.tokens(self.train.documents, self.o.fields))
        loss, epochs = loss_named("decoupled_softmax"), self.o.linker_epochs
        trained = train_classifiers(self.run, self.train, documents, nodes, loss, self.o, stage="linker", epochs=epochs)
        vectors = {"encoder": nodes, "classifier": trained}
        bundle = Bundle("linker", text.encoder, tuple(self.o.fields), self.nodes, vectors, None, self.run.device)
        return fuse(self.run, bundle, self.held_out, self.train, FusionOptions(memory=False, tail_price=0))

    def report(self, found: TopK) -> None:
        """Say and note how good the links are that held-out documents are given, those without a true one too."""
        truth, ks = self.held_out.targets, sorted({1, found.k})
        if not truth.nnz:
            return
        measured = metrics_of(found, truth, ks=ks)
        figures = {name: round(measured[name], 2) for name in (*(f"P@{k}" for k in ks), f"R@{found.k}")}
        self.run.log.note(linker=figures, documents=len(found))
        said = ", ".join(f"{name} {value:.1f}" for name, value in figures.items())
        self.run.log.say(f"linker: {said} on {len(found):,} documents that were held out")


def links_of(run: Run, dataset: Dataset, recipe: Recipe, o: LinkOptions, *, validation: float) -> Linking | None:
    """The links of a data set's training documents to the nodes of a graph; None where no graph is wanted.

    Args:
        run: of the recipe that wants the links.
        dataset: as it was read: the rows that `held_out.hold_out` takes are held out here too.
        recipe: of the linker.
        o: which graph, and how.
        validation: as of `held_out.hold_out`.

    Raises:
        BadInput: there is no such graph, there are several, or the graph links no training document.
    """
    out = rows_held_out(dataset, validation, o.seed)
    kept = np.setdiff1d(np.arange(len(dataset.train)), out)
    graph, titles = graph_that_enriches(dataset, o.enrich, kept), dataset.labels.fields["title"]
    if graph is None:
        return None
    nodes, weighted = graph.nodes, graph.train
    assert weighted is not None
    of_labels = CSR((len(titles), len(nodes)), dtype=np.float32) if graph.label is None else graph.label
    itself = same_texts(dataset.train.documents.fields["title"], nodes)
    links = apart(weighted, itself)
    split = Split(dataset.train.documents, csr(row_of_entry(links), links.indices, links.shape), itself)
    return Linking(
        split.take(kept),
        split.take(out),
        links[kept],
        answers(dataset.train.targets[kept], nodes, dataset.labels),
        Texts.of_columns({"title": nodes}),
        Texts.of_columns(dataset.labels.fields),
        apart(of_labels, same_texts(titles, nodes)),
        recipe,
        o,
        run,
    )
