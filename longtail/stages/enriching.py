"""Enriched documents while they are learned: what a batch draws, how its documents are encoded, and all of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor, nn

from longtail.batches.batch import Batch
from longtail.batches.links import LinkedNodes, heaviest_links
from longtail.data.sparse import CSR
from longtail.data.texts import Texts, appended
from longtail.modules.encoders.base import encode_together
from longtail.modules.enrichment import Combiner, Design, Enrichment, attention_entropy
from longtail.stages.task import Text
from longtail.text.ragged import Ragged
from longtail.text.tokens import Tokens
from longtail.topk import FloatArray, IntArray


class Enriched:
    """Documents, the nodes that they are linked to, and the enrichment that is trained on them.

    A recipe gives `source` and ``links`` to its `Loader`, asks for the `views` of a batch, and for all `documents` when
    it clusters them or trains classifiers on them. Without links, a document is what its encoder says.

    Args:
        text: the encoder, and the tokens of documents and labels; the log of its run says how evenly documents weigh
            their nodes.
        enrichment: bank and combiner; None where the texts of nodes are appended to those of documents, or nothing is
            done.
        nodes: the tokens of M nodes; None without an enrichment.
        most: nodes that a document has at most.
        read: whether the bank is added to what the encoder says of the nodes in each step; else it is all there is.
    """

    def __init__(
        self, text: Text, enrichment: Enrichment | None, nodes: Ragged | None, *, most: int, read: bool
    ) -> None:
        self.text, self.enrichment, self._nodes, self._most, self._read = text, enrichment, nodes, most, read
        self._tokens = text.documents
        self.links: LinkedNodes | None = None
        if nodes is not None:
            tokens = partial(text.encoder.tokenizer.batch, nodes) if read else None
            none = CSR((len(text.documents), len(nodes)), dtype=np.float32)
            self.links = LinkedNodes(none, most, tokens)

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
        return self.text.encoder.tokenizer.batch(self._tokens, rows)

    def link(
        self, edges: CSR | None, documents: Texts, fields: Sequence[str], nodes: Texts, *, chances: bool = False
    ) -> None:
        """Take the links of the documents; without an enrichment, append the texts of the nodes.

        Args:
            edges: (N, M); None for none.
            documents: N texts.
            fields: that the encoder reads.
            nodes: M texts.
            chances: whether the weights of links are how probable they are.
        """
        if edges is None:
            return
        if self.links is not None:
            self.links.renew(edges, chances=chances)
        else:
            longer = appended_to(documents, edges, nodes, self._most)
            self._tokens = self.text.tokens(longer, fields)

    @property
    def modules(self) -> dict[str, nn.Module]:
        """What is trained, by name."""
        parts: dict[str, nn.Module | None] = {"encoder": self.text.encoder, "enrichment": self.enrichment}
        return {name: module for name, module in parts.items() if module is not None}

    def groups(self, rate: float, combiner: float, bank: float, *, row_wise: bool) -> list[dict[str, Any]]:
        """The optimiser's groups: encoder, combiner and bank, each with its learning rate."""
        groups: list[dict[str, Any]] = [{"params": list(self.text.encoder.parameters()), "lr": rate}]
        if self.enrichment is not None:
            groups.append({"params": list(self.enrichment.combiner.parameters()), "lr": combiner})
            if self.enrichment.bank.weight.requires_grad:
                groups.append({"params": [self.enrichment.bank.weight], "lr": bank, "row_wise": row_wise})
        return [group for group in groups if group["params"]]

    def views(self, b: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Encode a batch in one pass of the encoder.

        Returns:
            x (B, D) the plain documents, z (P, D) the labels, and (B, D) the enriched documents, all of unit length;
            and (B,) bool, which documents are linked to nodes, or None where none is.
        """
        assert b.labels is not None
        if self.enrichment is None or b.links is None or not len(b.links.node_ids):
            x, z = encode_together(self.text.encoder, b.documents, b.labels)
            return x, z, x, None
        of_nodes = [] if b.links.nodes is None else [b.links.nodes]
        x, z, *texts = encode_together(self.text.encoder, b.documents, b.labels, *of_nodes)
        nodes = self.enrichment.read(b.links.node_ids, *texts)  # (A, D)
        enriched, _ = self.enrichment.combiner(x, nodes, b.links.places, b.links.chances)
        return x, z, enriched, (b.links.places >= 0).any(1)

    def documents(self) -> FloatArray:
        """All training documents, enriched, (N, D) float32, under the current parameters."""
        x = self.text.embed(self._tokens)
        if self.enrichment is None or self.links is None:
            return x
        texts = self._texts_of_nodes()
        if self.text.run.plan is not None:
            return x
        links, chances = self.links.of_every_document()
        enriched, weights = self.enrichment.enrich(x, links, texts, chances)
        self.text.run.log.note(attention_entropy=round(attention_entropy(weights, links), 6))
        return enriched


def enriched_documents(
    text: Text, nodes: Texts, design: Design | None, *, most: int, bank: bool, residual: bool
) -> Enriched:
    """Make the enrichment of documents. Its bank is zero until `Enriched.fill`: a resumed run encodes no nodes.

    Args:
        text: the encoder, and the tokens of documents and labels.
        nodes: M texts.
        design: of the combiner; None for no enrichment.
        most: see `Enriched`.
        bank: whether nodes have vectors of their own, which are trained; else they are what the encoder says of them.
        residual: whether those vectors are added to what the encoder says.
    """
    read = residual or not bank
    if design is None:
        return Enriched(text, None, None, most=most, read=read)
    table = text.tokens(nodes, ("title",))
    width = text.encoder.width
    empty = np.zeros((len(nodes), width), np.float32)
    enrichment = Enrichment(empty, Combiner(width, design, seed=text.run.seed)).to(text.run.device)
    enrichment.bank.requires_grad_(bank)
    return Enriched(text, enrichment, table, most=most, read=read)


def appended_to(documents: Texts, edges: CSR | None, nodes: Texts, most: int) -> Texts:
    """Documents with the texts of the nodes that they are linked to behind their titles, ``most`` of them at most."""
    if edges is None:
        return documents
    return appended(documents, heaviest_links(edges, most), nodes.fields["title"])
