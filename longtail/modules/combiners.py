"""How a text and the nodes that it is linked to become one vector: OAK's cross-attention, and graph encoders."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm as with_spectral_norm

from longtail.modules.table import unit

_INNER = 4  # times the width: the hidden layer of a transformer's feed-forward part


@dataclass(frozen=True, slots=True)
class Design:
    """How a combiner is built; only ``attention`` and ``graphformers`` have heads and so on.

    Attributes:
        kind: of `COMBINERS`.
        heads: of the attention; must divide the width.
        spectral_norm: whether the three projections of ``attention`` are kept at a spectral norm of 1, as published.
        temperature: that the products of queries and keys are divided by; None for the root of their width.
        dropout: share of the attention weights that are dropped in a step.
    """

    kind: str = "attention"
    heads: int = 1
    spectral_norm: bool = True
    temperature: float | None = None
    dropout: float = 0.1


class Combiner(nn.Module, ABC):
    """A text and the nodes that it is linked to become one vector.

    Links that may be wrong come with their chances p_k, and count the less for it.

    Args:
        width: D.
        design: see `Design`.
        seed: draws the start of one that starts at random.

    Attributes:
        passes: whether a text without nodes passes through, x' = x.
    """

    passes: ClassVar[bool] = True

    def __init__(self, width: int, design: Design, *, seed: int = 0) -> None:  # noqa: ARG002
        super().__init__()
        self.width, self.design = width, design

    @abstractmethod
    def forward(self, x: Tensor, nodes: Tensor, places: Tensor, chances: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Enrich B texts.

        Args:
            x: (B, D) rows of unit length.
            nodes: (A, D) rows of unit length.
            places: (B, K) which of the nodes each text has, padded with -1.
            chances: (B, K) in [0, 1], how probably it has them; all are certain if left out.

        Returns:
            (B, D) rows of unit length, and (B, K) the weight of each node: they sum to 1, or to less where what a node
            says is not all that counts, and to 0 without nodes.
        """

    def alone(self, x: Tensor) -> Tensor:
        """What becomes of (B, D) texts without nodes."""
        return x if self.passes else self(x, x[:0], torch.zeros((len(x), 0), dtype=torch.int64, device=x.device))[0]


class _Pooling(Combiner):
    """One that adds up the vectors of nodes by weights, if there are any nodes at all."""

    def forward(self, x: Tensor, nodes: Tensor, places: Tensor, chances: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """See `Combiner.forward`."""
        there = places >= 0  # (B, K)
        if not bool(there.any()):
            return x, there.to(x.dtype)
        fused, weights = self._fused(x, nodes, places.clamp(min=0), there, chances)
        return torch.where(there.any(1, keepdim=True), fused, x), weights

    @abstractmethod
    def _fused(
        self, x: Tensor, nodes: Tensor, at: Tensor, there: Tensor, chances: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """What becomes of texts, (B, D), if each has nodes, (B, K), and the weights of these."""


class MeanPooling(_Pooling):
    """x' = normalise(x + mean of v_k), in which nothing is learned. Source: OAK (Mohan et al., 2024), Table 6."""

    def _fused(
        self, x: Tensor, nodes: Tensor, at: Tensor, there: Tensor, chances: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        weights = _shares(torch.zeros_like(at, dtype=x.dtype)[..., None], there, chances)[..., 0]  # (B, K)
        return unit(x + (weights[..., None] * F.embedding(at, nodes)).sum(1)), weights


class CrossAttention(_Pooling):
    """``x' = normalise(LayerNorm(x + W_o sum over k of a_k v_k))``.

    With ``a`` the softmax over the document's nodes of ``<W_d x, W_m v_k> / sqrt(D)``. The three projections start at
    the identity and have a spectral norm of 1. With h heads, each weighs its own D / h columns.

    Chances multiply the weights (log p_k is added to the logits), beside a null node: its vector is 0, and its weight
    that of an average node times the chance that no link is right, the product of all 1 - p_k. So a document whose
    links are all doubtful stays near what its text says.

    Source: OAK (Mohan et al., 2024), section 4; details as in its code, which has no chances.

    Args:
        width: D.
        design: see `Design`.
        seed: draws the start of the power iterations of the spectral norms.
    """

    def __init__(self, width: int, design: Design, *, seed: int = 0) -> None:
        super().__init__(width, design)
        self.norm = nn.LayerNorm(width)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.of_document, self.of_nodes, self.out = (nn.Linear(width, width) for _ in range(3))
            for layer in (self.of_document, self.of_nodes, self.out):
                nn.init.eye_(layer.weight)
                nn.init.zeros_(layer.bias)
                if design.spectral_norm:
                    with_spectral_norm(layer)

    def _fused(
        self, x: Tensor, nodes: Tensor, at: Tensor, there: Tensor, chances: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        query, keys = self.of_document(x), F.embedding(at, self.of_nodes(nodes))  # (B, D), (B, K, D)
        weights = _shares(_logits(query, keys, self.design), there, chances)  # (B, K, h)
        pooled = _pooled(F.dropout(weights, self.design.dropout, self.training), F.embedding(at, nodes))
        return unit(self.norm(x + self.out(pooled))), weights.mean(2)


class GraphSAGE(Combiner):
    """``x' = normalise(ReLU(W [x; max over k of p_k ReLU(V v_k)]))``, with a maximum of 0 where there are no nodes.

    Source: GraphSAGE (Hamilton et al., 2017), the pooling aggregator, in one hop, as the authors of OAK and RAMEN run
    it beside these. They have no unit length at the end, and no chances. V starts at the identity, and W as the sum of
    x and the maximum.
    """

    passes = False

    def __init__(self, width: int, design: Design, *, seed: int = 0) -> None:
        super().__init__(width, design, seed=seed)
        self.of_nodes, self.out = nn.Linear(width, width), nn.Linear(2 * width, width)
        with torch.no_grad():
            self.out.weight.copy_(torch.eye(width).repeat(1, 2))
            nn.init.eye_(self.of_nodes.weight)
        nn.init.zeros_(self.out.bias)
        nn.init.zeros_(self.of_nodes.bias)

    def forward(self, x: Tensor, nodes: Tensor, places: Tensor, chances: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """See `Combiner.forward`; the weight of a node is the share of the columns that it is the largest in."""
        there = (places >= 0).to(x.dtype)
        most = torch.zeros_like(x)
        if bool(there.any()):
            said = F.embedding(places.clamp(min=0), F.relu(self.of_nodes(nodes)))  # (B, K, D)
            said = said * (there if chances is None else there * chances)[..., None]
            most, best = said.max(1)  # (B, D)
            there = torch.zeros_like(there).scatter_add(1, best, (most > 0).to(x.dtype))  # (B, K)
            there = there / there.sum(1, keepdim=True).clamp(min=1)
        return unit(self.out(torch.cat([x, most], 1))), there


class GraphTransformer(Combiner):
    """``h = LayerNorm(x + W_o sum over x and k of a v)``, then ``x' = normalise(LayerNorm(h + FFN(h)))``.

    A transformer layer in which a text attends to itself and to its nodes, as the vectors of their [CLS] do between the
    layers of GraphFormers (Yang et al., 2021), here once, on top of any encoder. What is added to x is 0 at the start.

    Args:
        width: D.
        design: see `Design`.
        seed: draws the start.
    """

    passes = False

    def __init__(self, width: int, design: Design, *, seed: int = 0) -> None:
        super().__init__(width, design)
        self.norm, self.last_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.inner, self.outer = nn.Linear(width, _INNER * width), nn.Linear(_INNER * width, width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        for layer in (self.query, self.key, self.value, self.out):
            nn.init.eye_(layer.weight)
            nn.init.zeros_(layer.bias)
        nn.init.zeros_(self.outer.weight)
        nn.init.zeros_(self.outer.bias)

    def forward(self, x: Tensor, nodes: Tensor, places: Tensor, chances: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """See `Combiner.forward`; the text itself has the rest of the weight."""
        both, own = torch.cat([x, nodes]), torch.arange(len(x), device=x.device)[:, None]
        at = torch.cat([own, len(x) + places.clamp(min=0)], 1)  # (B, 1 + K)
        there = torch.cat([torch.ones_like(own, dtype=torch.bool), places >= 0], 1)
        sure = None if chances is None else F.pad(chances, (1, 0), value=1.0)
        weights = _shares(_logits(self.query(x), F.embedding(at, self.key(both)), self.design), there, sure)
        dropped = F.dropout(weights, self.design.dropout, self.training)
        hidden = self.norm(x + self.out(_pooled(dropped, F.embedding(at, self.value(both)))))
        fused = unit(self.last_norm(hidden + self.outer(F.gelu(self.inner(hidden)))))
        return fused, weights.mean(2)[:, 1:]


COMBINERS: Mapping[str, type[Combiner]] = {
    "attention": CrossAttention,
    "mean": MeanPooling,
    "graphsage": GraphSAGE,
    "graphformers": GraphTransformer,
}


def make_combiner(width: int, design: Design, *, seed: int = 0) -> Combiner:
    """A combiner by its design; the seed draws its start, if it starts at random."""
    return COMBINERS[design.kind](width, design, seed=seed)


def _logits(query: Tensor, keys: Tensor, design: Design) -> Tensor:
    """Of the keys of each query by head, (B, K, h).

    Args:
        query: (B, D).
        keys: (B, K, D).
        design: has heads and a temperature.
    """
    query, keys = query.view(len(query), design.heads, -1), keys.view(*keys.shape[:2], design.heads, -1)
    logits: Tensor = (query[:, None] * keys).sum(3) / (design.temperature or math.sqrt(query.shape[2]))
    return logits


def _pooled(weights: Tensor, values: Tensor) -> Tensor:
    """The (B, D) sums of (B, K, D) values by (B, K, h) weights, each head's of its own columns."""
    return (weights[..., None] * values.view(*weights.shape, -1)).sum(1).flatten(1)


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
