"""Documents that are enriched with nodes of a graph: the paragraph that adds OAK's links, bank and combiner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor, nn

from longtail.batches.batch import Batch
from longtail.batches.links import LinkedNodes, heaviest_links
from longtail.data.dataset import Dataset
from longtail.data.sparse import CSR
from longtail.data.texts import Texts, appended
from longtail.modules.combiners import COMBINERS, Design, make_combiner
from longtail.modules.enrichment import Enrichment, attention_entropy
from longtail.modules.linker import Linked
from longtail.options import BELOW_ONE, COUNT, NATURAL, POSITIVE, option
from longtail.stages.held_out import hold_out
from longtail.stages.linking import Linking, LinkOptions, links_of
from longtail.stages.recipe import MADE
from longtail.stages.task import Task, read
from longtail.stages.text import Text, text_of
from longtail.text.ragged import Ragged
from longtail.text.tokens import Tokens
from longtail.topk import FloatArray, IntArray
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class EnrichOptions(LinkOptions):
    """Documents with the nodes of a graph."""

    bank: bool = option(True, "vectors of the nodes' own; without it nodes are encoded by the encoder (Table 4)")
    bank_residual: bool = option(
        False,
        "the bank starts at zero and is added to what the encoder says of the nodes in each step, so that a node "
        "without links is its text; else it starts at the untrained encoder's vectors, as published",
    )
    bank_learning_rate: float = option(2e-2, "of the bank", within=NATURAL)
    bank_row_wise: bool = option(False, "row-wise Adam for the bank: one second moment a node, a third less memory")
    combiner: str = option(
        "attention",
        "attention, mean (each node counts the same, Table 6), or early (the nodes' texts are appended to the "
        "document's, with neither bank nor plain document, Table 7)",
        choices=("attention", "mean", "early"),
    )
    combiner_learning_rate: float = option(1e-3, "of the combiner", within=NATURAL)
    attention_heads: int = option(1, "of the attention", within=COUNT)
    spectral_norm: bool = option(True, "keep the combiner's projections at a spectral norm of 1")
    attention_temperature: float | None = option(
        None, "of the attention; root of the width if left out", within=POSITIVE
    )
    attention_dropout: float = option(0.1, "share of the attention weights that a step drops", within=BELOW_ONE)
    enriched_weight: float = option(1.0, "of the loss of enriched documents", within=NATURAL)
    plain_weight: float = option(
        1.0, "of the loss of the same documents without their nodes; 0 switches it off (Table 5)", within=NATURAL
    )
    plain_classifiers: bool = option(
        True, "classifiers of documents without their nodes, too, which the fusion mixes with those of enriched ones"
    )

    @property
    def design(self) -> Design | None:
        """Of the combiner; None where texts of nodes are appended to those of documents."""
        if self.combiner == "early":
            return None
        heads, temperature = self.attention_heads, self.attention_temperature
        return Design(self.combiner, heads, self.spectral_norm, temperature, self.attention_dropout)


@dataclass(frozen=True, kw_only=True)
class GraphEncoderOptions(EnrichOptions):
    """Documents with the nodes of a graph."""

    combiner: str = option(
        "attention",
        "attention, mean, early (see docs/explanation/methods/oak.md), or one of a graph encoder, which labels go "
        "through, too: graphsage or graphformers",
        choices=(*COMBINERS, "early"),
    )
    label_links: bool = option(False, "enrich labels, too, with the nodes that they have in the graph")


@dataclass(frozen=True, slots=True)
class EnrichedTask:
    """What a recipe of enriched documents works on.

    Attributes:
        task: see there; with ``early``, its documents and training rows are with the texts of their nodes.
        linking: None where documents are not enriched.
        edges: (N, M) the true links of the rows of the task.
        documents: N texts as they are, without their nodes.
        most: nodes that a document has at most.
    """

    task: Task
    linking: Linking | None
    edges: CSR | None
    documents: Texts
    most: int

    def enriched(self, text: Text, o: EnrichOptions) -> Enriched:
        """Make the enrichment. Its bank is zero until `Enriched.fill`: a resumed run encodes no nodes.

        Args:
            text: of the task, or one with heads on its encoder.
            o: how.
        """
        if self.linking is None or self.edges is None:
            return Enriched(text, None, None, most=self.most, read=False)
        read_in_steps, nodes, enrichment = o.bank_residual or not o.bank, None, None
        if o.design is not None:
            nodes = text.tokens(self.linking.nodes, ("title",))
            empty = np.zeros((len(nodes), text.encoder.width), np.float32)
            combiner = make_combiner(text.encoder.width, o.design, seed=text.run.seed)
            enrichment = Enrichment(empty, combiner).to(text.run.device)
            enrichment.bank.requires_grad_(o.bank)
        of_labels = self.linking.of_labels if isinstance(o, GraphEncoderOptions) and o.label_links else None
        known = Enriched(text, enrichment, nodes, most=self.most, read=read_in_steps, of_labels=of_labels)
        self.link(known, self.edges)  # true ones, for the plan
        return known

    def link(self, known: Enriched, edges: CSR, *, chances: bool = False) -> None:
        """Let documents be enriched by some links, (N, M), whose weights may be how probable they are."""
        assert self.linking is not None
        if known.links is not None:
            known.links.renew(edges, chances=chances)
        else:
            longer = _with_nodes(self.documents, edges, self.linking, self.most)
            known.tokens = known.text.tokens(longer, self.task.fields)

    def train_linkers(self, known: Enriched) -> None:
        """Train the linker, a stage of its own, and link documents as the options say."""
        if self.linking is not None:
            _, edges = self.linking.augmented(self.task.dataset, self.linking.links_to_train_with())
            self.link(known, edges, chances=self.linking.are_chances)

    def linked(self, known: Enriched) -> Linked | None:
        """What enriches a new document, when all is trained."""
        return None if self.linking is None else self.linking.linked(self.task.text, known.finished())

    def linked_now(self, known: Enriched) -> Linked | None:
        """What would enrich a new document now; None where there is no linker yet."""
        if self.linking is None or self.linking.o.share_encoder:
            return None
        return self.linking.believing(self.linking.linker(), known.finished())


def read_enriched(run: Run, dataset: Dataset, o: EnrichOptions) -> EnrichedTask:
    """What `read` does, and the links of the documents to the nodes that enrich them.

    Args:
        run: of the recipe.
        dataset: its training documents, labels and graphs.
        o: what is read, and how; on what is held out a linker is measured, and may learn a fusion.
    """
    linking = links_of(run, dataset, MADE[o.linker], o, validation=o.validation)
    if linking is None:
        task = read(run, dataset, o)
        return EnrichedTask(task, None, None, task.train.documents, o.most_links)
    rest, held_out = hold_out(dataset, o.validation, o.seed)
    rows, edges = linking.augmented(rest)
    documents = rows.train.documents
    if o.combiner == "early":  # the vocabulary of a bag encoder has the words of nodes where it is to read them
        longer = _with_nodes(documents, edges, linking, o.most_links)
        rows = replace(rows, train=replace(rows.train, documents=longer))
    text = text_of(run, "text", rows, o)
    task = Task(run.recipe, rest, held_out, rows, text, tuple(o.fields), o)
    return EnrichedTask(task, linking, edges, documents, o.most_links)


def _with_nodes(documents: Texts, edges: CSR, linking: Linking, most: int) -> Texts:
    """Documents with the texts of the nodes that they have the heaviest links to behind their titles."""
    return appended(documents, heaviest_links(edges, most), linking.nodes.fields["title"])


class Enriched:
    """Documents, the nodes that they are linked to, and the enrichment that is trained on them.

    A recipe gives `source` and ``links`` to its `Loader`, encodes the `nodes` of a batch along with its texts, asks for
    the `views` of it and its labels, and for all `documents` when it clusters them or trains classifiers on them.
    Without links, a document is what its encoder says, or what a graph encoder makes of that `alone`.

    Args:
        text: the encoder, and the tokens of documents and labels; the log of its run says how evenly documents weigh
            their nodes.
        enrichment: bank and combiner; None where the texts of nodes are appended to those of documents, or nothing is
            done.
        nodes: the tokens of M nodes; None without an enrichment.
        most: nodes that a document has at most.
        read: whether the bank is added to what the encoder says of the nodes in each step; else it is all there is.
        of_labels: (L, M) links of labels; None where labels are not enriched.

    Attributes:
        links: of a batch's documents to nodes; None without an enrichment.
        tokens: of the documents, as they are read now.
    """

    def __init__(
        self,
        text: Text,
        enrichment: Enrichment | None,
        nodes: Ragged | None,
        *,
        most: int,
        read: bool,
        of_labels: CSR | None = None,
    ) -> None:
        self.text, self.enrichment, self._nodes, self._read = text, enrichment, nodes, read
        self._of_labels = None if of_labels is None else heaviest_links(of_labels, most)  # (L, K)
        self.tokens = text.documents
        self.links: LinkedNodes | None = None
        if nodes is not None:
            tokens = partial(text.encoder.tokenizer.batch, nodes) if read else None
            none = CSR((len(text.documents), len(nodes)), dtype=np.float32)
            self.links = LinkedNodes(none, most, tokens, of_labels)

    def fill(self) -> None:
        """Start a bank that is all there is at the encoder's vectors of the nodes' texts."""
        if self.enrichment is not None and self._nodes is not None and not self._read:
            self.enrichment.refill(self.text.embed(self._nodes))

    def finished(self) -> Enrichment | None:
        """The enrichment of the trained model: its bank has all that is known of a node, its text too."""
        texts = self._texts_of_nodes()
        return self.enrichment if self.enrichment is None or texts is None else self.enrichment.whole(texts)

    def _texts_of_nodes(self) -> FloatArray | None:
        """(M, D) what the encoder says of the nodes now, where the bank is added to it."""
        return self.text.embed(self._nodes) if self._nodes is not None and self._read else None

    def source(self, rows: IntArray) -> Tokens:
        """The tokens of documents, as of now."""
        return self.text.encoder.tokenizer.batch(self.tokens, rows)

    @property
    def modules(self) -> dict[str, nn.Module]:
        """What is trained beside the encoder, by name."""
        return {} if self.enrichment is None else {"enrichment": self.enrichment}

    def groups(self, o: EnrichOptions) -> list[dict[str, Any]]:
        """The optimiser's groups of what is trained beside the encoder: combiner and bank."""
        if self.enrichment is None:
            return []
        combiner = {"params": list(self.enrichment.combiner.parameters()), "lr": o.combiner_learning_rate}
        bank: dict[str, Any] = {"params": [], "lr": o.bank_learning_rate, "row_wise": o.bank_row_wise}
        if self.enrichment.bank.weight.requires_grad:
            bank["params"] = [self.enrichment.bank.weight]
        return [group for group in (combiner, bank) if group["params"]]

    @staticmethod
    def nodes(b: Batch) -> list[Tokens]:
        """The texts of nodes that are encoded along with a batch: one, or none where nodes have only the bank."""
        return [] if b.links is None or not len(b.links.node_ids) or b.links.nodes is None else [b.links.nodes]

    def views(self, b: Batch, texts: Sequence[Tensor], *views: Tensor) -> tuple[tuple[Tensor, ...], Tensor | None]:
        """Enrich the documents of a batch.

        Args:
            b: the batch.
            texts: what the encoder says of its `nodes`.
            views: (B, D) each, of its documents, of unit length.

        Returns:
            The enriched views, (B, D) each, of unit length; and (B,) bool, which documents are linked, None for none.
        """
        if self.enrichment is None or b.links is None or not len(b.links.node_ids):
            return tuple(self.alone(view) for view in views), None
        nodes = self.enrichment.read(b.links.node_ids, *texts)  # (A, D)
        places, chances = b.links.places, b.links.chances
        enriched = tuple(self.enrichment.combiner(view, nodes, places, chances)[0] for view in views)
        return enriched, (places >= 0).any(1)

    def alone(self, x: Tensor) -> Tensor:
        """What (B, D) documents, or labels, are without their nodes."""
        return x if self.enrichment is None else self.enrichment.combiner.alone(x)

    def of_labels(self, b: Batch, texts: Sequence[Tensor], z: Tensor) -> Tensor:
        """Enrich the labels of a batch, (P, D), where labels are; the arguments are those of `views`."""
        if self.enrichment is None or b.links is None or b.links.of_labels is None:
            return self.alone(z)
        nodes = self.enrichment.read(b.links.node_ids, *texts) if len(b.links.node_ids) else z[:0]
        enriched: Tensor = self.enrichment.combiner(z, nodes, b.links.of_labels)[0]
        return enriched

    def labels(self) -> FloatArray:
        """All labels, enriched where they are, (L, D) float32, under the current parameters."""
        z = self.text.embed(self.text.labels)
        if self._of_labels is None or self.enrichment is None:
            return self.plain(z)
        texts = self._texts_of_nodes()
        return z if self.text.run.plan is not None else self.enrichment.enrich(z, self._of_labels, texts)[0]

    def plain(self, x: FloatArray) -> FloatArray:
        """What (n, D) texts are without their nodes."""
        return x if self.enrichment is None or self.text.run.plan is not None else self.enrichment.alone(x)

    def documents(self) -> FloatArray:
        """All training documents, enriched, (N, D) float32, under the current parameters."""
        x = self.text.embed(self.tokens)
        if self.enrichment is None or self.links is None:
            return x
        texts = self._texts_of_nodes()
        if self.text.run.plan is not None:
            return x
        links, chances = self.links.of_every_document()
        enriched, weights = self.enrichment.enrich(x, links, texts, chances)
        self.text.run.log.note(attention_entropy=round(attention_entropy(weights, links), 6))
        return enriched
