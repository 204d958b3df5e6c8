"""The neighbourhoods of a text in a graph, hop by hop side by side, and classifiers that weigh the hops."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from longtail.data.sparse import CSR, row_of_entry
from longtail.modules.table import Table, load_module_state, module_state, unit
from longtail.topk import FloatArray, IntArray

_FILE = "enrichment.safetensors"
_BLOCK = 8_192  # texts, or labels, at a time


class Hops(nn.Module):
    """A text as the vectors of its own and of its neighbourhoods in a graph: (H + 1) D numbers.

    ``h_0 = x`` and ``h_k = normalise(h_{k-1} + mean of h_{k-1}(u))`` over the nodes u that it is linked to, whose own
    hops are those of the graph. What is read is h_0 and, of each other hop, ``normalise(h + ReLU(W_k h + b_k))``, whose
    W_k start at the identity.

    Source: GalaXC (Saini et al., 2021): multi-hop convolutions, each with a residual block. There hops are
    sums, and the text by itself is not read.

    Args:
        nodes: (M, H, D) float32, the first H hops of each node, from `node_hops`.
    """

    times: int

    def __init__(self, nodes: FloatArray) -> None:
        super().__init__()
        hops, self.width = nodes.shape[1:]
        self.times = hops + 1
        self.bank = Table(torch.from_numpy(nodes.reshape(len(nodes), -1).copy()))
        self.bank.requires_grad_(requires_grad=False)
        self.blocks = nn.ModuleList(nn.Linear(self.width, self.width) for _ in range(hops))
        for block in self.blocks:
            assert isinstance(block, nn.Linear)
            nn.init.eye_(block.weight)
            nn.init.zeros_(block.bias)

    def forward(self, hops: Tensor) -> Tensor:
        """What is read of the (B, (H + 1) D) hops of texts: as many numbers, each hop of unit length."""
        own, *others = hops.chunk(self.times, dim=1)
        return torch.cat([own, *(unit(h + F.relu(W(h))) for W, h in zip(self.blocks, others, strict=True))], 1)

    def hops(self, x: FloatArray, links: IntArray) -> FloatArray:
        """The (n, (H + 1) D) hops of texts.

        Args:
            x: (n, D) their own vectors.
            links: (n, K) the nodes that each is linked to, padded with -1.
        """
        out = np.empty((len(x), self.times, self.width), np.float32)
        out[:, 0] = x
        bank = self.bank.weight.detach().cpu().numpy().reshape(len(self.bank), -1, self.width)
        for start in range(0, len(x), _BLOCK):
            part = slice(start, start + _BLOCK)
            there = (links[part] >= 0)[..., None]  # (b, K, 1)
            counts = np.maximum(there.sum(1), 1)
            for k in range(1, self.times):
                around = (bank[np.maximum(links[part], 0), k - 1] * there).sum(1) / counts if links.shape[1] else 0.0
                out[part, k] = _unit(out[part, k - 1] + around)
        return out.reshape(len(x), self.times * self.width)

    def enrich(
        self, x: FloatArray, links: IntArray, _texts: FloatArray | None = None, chances: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """What is read of n texts, (n, (H + 1) D), and the weights of their nodes, (n, K), all the same.

        Args:
            x: (n, D) rows of unit length.
            links: (n, K) ids of the nodes that each is linked to, padded with -1.
            chances: none; nearest nodes have no chances.
        """
        assert chances is None
        there = (links >= 0).astype(np.float32)
        hops, device = self.hops(x, links), self.bank.weight.device
        with torch.no_grad():
            for start in range(0, len(x), _BLOCK):
                part = slice(start, start + _BLOCK)
                hops[part] = self(torch.from_numpy(hops[part]).to(device)).cpu().numpy()
        return hops, there / np.maximum(there.sum(1, keepdims=True), 1)

    def alone(self, x: FloatArray) -> FloatArray:
        """A text by itself, which its own vector is."""
        return x

    def settings(self) -> dict[str, Any]:
        """What `load` needs beside the file."""
        return {"nodes": len(self.bank), "width": self.width, "hops": self.times - 1}

    def save(self, folder: Path) -> None:
        """Write the nodes and the blocks into an existing folder."""
        save_file(module_state(self), folder / _FILE)

    @classmethod
    def load(cls, folder: Path, settings: Mapping[str, Any]) -> Hops:
        """Read what `save` wrote."""
        made = cls(np.empty((settings["nodes"], settings["hops"], settings["width"]), np.float32))
        load_module_state(made, load_file(folder / _FILE))
        return made.eval()


class HopClassifiers(nn.Module):
    """A vector a label, and its attention to the hops of a document: <w, sum over k of a_k h_k>, a = softmax(e).

    Since a is the label's alone, that is an inner product with ``[a_0 w, ..., a_H w]``, the row of the label. Source:
    GalaXC (Saini et al., 2021), label attention.

    Args:
        start: (L, D) float32, where the vectors start; the attention starts even.
        times: H + 1.
    """

    def __init__(self, start: FloatArray, times: int) -> None:
        super().__init__()
        self.table = Table(torch.from_numpy(start.copy()))
        self.attention = Table(torch.zeros(len(start), times))

    def forward(self, ids: Tensor) -> Tensor:
        """The rows of P labels, (P, (H + 1) D); ids (P,) ascending, each once."""
        return _rows(self.table.rows(ids), self.attention.rows(ids))

    def vectors(self) -> FloatArray:
        """All rows, (L, (H + 1) D) float32."""
        with torch.no_grad():
            return _rows(*(torch.from_numpy(one.export()) for one in (self.table, self.attention))).numpy()


def _rows(vectors: Tensor, attention: Tensor) -> Tensor:
    return (attention.softmax(1)[:, :, None] * unit(vectors)[:, None]).flatten(1)


def node_hops(vectors: FloatArray, edges: CSR, hops: int) -> FloatArray:
    """The first hops of all nodes of a graph, (M, H, D) float32; see `Hops`.

    Args:
        vectors: (M, D) of the nodes themselves, unit rows.
        edges: (M, M) between them.
        hops: H.
    """
    degrees = np.maximum(np.diff(edges.indptr), 1)
    mean = CSR((1 / degrees[row_of_entry(edges)].astype(np.float32), edges.indices, edges.indptr), shape=edges.shape)
    out = np.empty((len(vectors), hops, vectors.shape[1]), np.float32)
    out[:, 0] = vectors
    for k in range(1, hops):
        out[:, k] = _unit(out[:, k - 1] + mean @ out[:, k - 1])
    return out


def _unit(rows: FloatArray) -> FloatArray:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12), np.float32)
