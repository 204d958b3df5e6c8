"""Documents enriched with what is known of the nodes that they are linked to: a bank of vectors, and a combiner."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm as with_spectral_norm

from longtail.modules.table import Table, load_module_state, module_state, unit
from longtail.topk import FloatArray, IntArray

_FILE = "enrichment.safetensors"
_BLOCK = 8_192  # documents enriched at a time


@dataclass(frozen=True, slots=True)
class Design:
    """How a combiner is built.

    Attributes:
        attention: whether nodes are weighed by attention; else each counts the same, and nothing is learned.
        heads: of the attention; must divide the width.
        spectral_norm: whether the three projections are kept at a spectral norm of 1, as published.
        temperature: that the products of queries and keys are divided by; None for the root of their width.
        dropout: share of the attention weights that are dropped in a step.
    """

    attention: bool = True
    heads: int = 1
    spectral_norm: bool = True
    temperature: float | None = None
    dropout: float = 0.1


class Combiner(nn.Module):
    """A document and the nodes that it is linked to become one vector, by cross-attention.

    ``x' = normalise(LayerNorm(x + W_o sum over k of a_k v_k))``, with ``a`` the softmax over the document's nodes of
    ``<W_d x, W_m v_k> / sqrt(D)``. The three projections start at the identity and have a spectral norm of 1. With h
    heads, each weighs its own D / h columns. A document without nodes passes through: x' = x.

    Links that may be wrong come with their chances p_k, which the weights are multiplied by (log p_k is added to the
    logits), and with a null node: its vector is 0, and its weight that of an average node times the chance that no link
    is right, the product of all 1 - p_k. So a document whose links are all doubtful stays near what its text says.

    Source: OAK (Mohan et al., 2024), section 4; details as in its code, which has no chances. Without attention it is
    the mean pooling of Table 6: ``x' = normalise(x + mean of v_k)``.

    Args:
        width: D.
        design: see `Design`.
        seed: draws the start of the power iterations of the spectral norms.
    """

    def __init__(self, width: int, design: Design, *, seed: int = 0) -> None:
        super().__init__()
        self.design = design
        if not design.attention:
            return
        self.norm = nn.LayerNorm(width)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.of_document, self.of_nodes, self.out = (nn.Linear(width, width) for _ in range(3))
            for layer in (self.of_document, self.of_nodes, self.out):
                nn.init.eye_(layer.weight)
                nn.init.zeros_(layer.bias)
                if design.spectral_norm:
                    with_spectral_norm(layer)

    def forward(self, x: Tensor, nodes: Tensor, places: Tensor, chances: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Enrich B documents.

        Args:
            x: (B, D) rows of unit length.
            nodes: (A, D) rows of unit length.
            places: (B, K) which of the nodes each document has, padded with -1.
            chances: (B, K) in [0, 1], how probably it has them; all are certain if left out.

        Returns:
            (B, D) rows of unit length, and (B, K) the weight of each node: they sum to 1, to less where no link is
            certain, and to 0 without nodes.
        """
        there = places >= 0  # (B, K)
        if not bool(there.any()):
            return x, there.to(x.dtype)
        linked = there.any(1, keepdim=True)  # (B, 1)
        at = places.clamp(min=0)
        values = F.embedding(at, nodes)  # (B, K, D)
        if not self.design.attention:
            weights = _shares(torch.zeros_like(places, dtype=x.dtype)[..., None], there, chances)[..., 0]  # (B, K)
            return torch.where(linked, unit(x + (weights[..., None] * values).sum(1)), x), weights
        weights = _shares(self._logits(x, nodes, at), there, chances)  # (B, K, h)
        values = values.view(*values.shape[:2], self.design.heads, -1)  # (B, K, h, D / h)
        dropped = F.dropout(weights, self.design.dropout, self.training)
        pooled = (dropped[..., None] * values).sum(1).flatten(1)  # (B, D)
        fused = unit(self.norm(x + self.out(pooled)))
        return torch.where(linked, fused, x), weights.mean(2)

    def _logits(self, x: Tensor, nodes: Tensor, at: Tensor) -> Tensor:
        """Of each document's nodes by head, (B, K, h)."""
        heads = self.design.heads
        query: Tensor = self.of_document(x).view(len(x), heads, -1)  # (B, h, D / h)
        keys = F.embedding(at, self.of_nodes(nodes)).view(*at.shape, heads, -1)  # (B, K, h, D / h)
        temperature = self.design.temperature or math.sqrt(query.shape[2])
        logits: Tensor = (query[:, None] * keys).sum(3) / temperature
        return logits


def _shares(logits: Tensor, there: Tensor, chances: Tensor | None) -> Tensor:
    """The weights of each document's nodes, (B, K, h).

    Args:
        logits: (B, K, h).
        there: (B, K) bool, which nodes there are.
        chances: (B, K), as of `Combiner.forward`.
    """
    limits = torch.finfo(logits.dtype)
    shares = logits.masked_fill(~there[..., None], limits.min).softmax(1) * there[..., None]
    if chances is None:
        return shares
    null = (1 - chances * there).prod(1) / there.sum(1).clamp(min=1)  # (B,)
    shares = shares * chances[..., None]
    return shares / (shares.sum(1, keepdim=True) + null[:, None, None]).clamp(min=limits.tiny)


class Enrichment(nn.Module):
    """A knowledge bank, one vector for each of M nodes, and the combiner that reads it.

    A node is read at unit length, and its row gets a row gradient: a step touches the nodes that its documents are
    linked to. While it trains, the bank may hold only what is added to the encoder's vectors of the nodes' texts, which
    are given to whoever reads it then; a finished one is `whole`.

    Args:
        nodes: (M, D) float32, where the bank starts.
        combiner: D wide.
    """

    def __init__(self, nodes: FloatArray, combiner: Combiner) -> None:
        super().__init__()
        self.bank = Table(torch.from_numpy(nodes.copy()))
        self.combiner = combiner

    def read(self, ids: Tensor, texts: Tensor | None = None) -> Tensor:
        """The vectors of A nodes, (A, D) of unit length.

        Args:
            ids: (A,) ascending, each once.
            texts: (A, D) the encoder's vectors of their texts, which the rows of the bank are added to.
        """
        rows = self.bank.rows(ids)
        return unit(rows if texts is None else rows + texts)

    def whole(self, texts: FloatArray) -> Enrichment:
        """The same with a bank that the encoder's vectors of all nodes' texts, (M, D), are a part of."""
        return Enrichment(self.bank.export() + texts, self.combiner).to(self.bank.weight.device)

    def refill(self, nodes: FloatArray) -> None:
        """Replace all vectors of the bank, (M, D)."""
        for part, rows in self.bank.blocks():
            rows.copy_(torch.from_numpy(nodes[part]))

    def enrich(
        self, x: FloatArray, links: IntArray, texts: FloatArray | None = None, chances: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Enrich any number of documents, without gradients.

        Args:
            x: (n, D) rows of unit length.
            links: (n, K) ids of the nodes that each is linked to, padded with -1.
            texts: (M, D) the encoder's vectors of the nodes' texts, where the bank is added to them.
            chances: (n, K) how probable each link is; all are certain if left out.

        Returns:
            (n, D) rows of unit length, and (n, K) the weights of the nodes, as from the combiner.
        """
        was_training = self.training
        self.eval()
        device = self.bank.weight.device
        enriched, weights = np.empty_like(x), np.zeros(links.shape, np.float32)
        with torch.no_grad():
            for start in range(0, len(x), _BLOCK):
                part = slice(start, start + _BLOCK)
                ids, places = np.unique(np.maximum(links[part], 0), return_inverse=True)
                places = np.where(links[part] < 0, -1, places.reshape(links[part].shape))
                said = None if texts is None else torch.from_numpy(texts[ids]).to(device)
                nodes = self.read(torch.from_numpy(ids).to(device), said)
                own, at = (torch.from_numpy(array).to(device) for array in (x[part], places))
                sure = None if chances is None else torch.from_numpy(chances[part]).to(device)
                vectors, shares = self.combiner(own, nodes, at, sure)
                enriched[part], weights[part] = vectors.cpu().numpy(), shares.cpu().numpy()
        self.train(was_training)
        return enriched, weights

    def settings(self) -> dict[str, Any]:
        """What `load` needs beside the file."""
        return {"nodes": len(self.bank), "width": self.bank.width, **asdict(self.combiner.design)}

    def save(self, folder: Path) -> None:
        """Write bank and combiner into an existing folder."""
        save_file(module_state(self), folder / _FILE)

    @classmethod
    def load(cls, folder: Path, settings: Mapping[str, Any]) -> Enrichment:
        """Read what `save` wrote."""
        given = dict(settings)
        nodes, width = given.pop("nodes"), given.pop("width")
        enrichment = cls(np.empty((nodes, width), np.float32), Combiner(width, Design(**given)))
        load_module_state(enrichment, load_file(folder / _FILE))
        return enrichment.eval()


def attention_entropy(weights: FloatArray, links: IntArray) -> float:
    """How evenly documents weigh their nodes: the entropy over its largest value, averaged over those with two or more.

    Args:
        weights: (n, K), from a combiner.
        links: (n, K) node ids, padded with -1.

    Returns:
        1 where all weigh the same, 0 where one node has all the weight, and nan where no document has two nodes.
    """
    counts = (links >= 0).sum(1)
    some = counts > 1
    if not some.any():
        return math.nan
    shares = weights[some] / np.maximum(weights[some].sum(1, keepdims=True), np.finfo(np.float32).tiny)
    entropy = -(shares * np.log(np.where(shares > 0, shares, 1))).sum(1)
    return float((entropy / np.log(counts[some])).mean())
