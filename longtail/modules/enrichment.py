"""Documents enriched with what is known of the nodes that they are linked to: a bank of vectors, and a combiner."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from longtail.modules.combiners import Combiner, Design, make_combiner
from longtail.modules.modes import evaluating
from longtail.modules.table import Table, load_module_state, module_state, unit
from longtail.topk import FloatArray, IntArray

_FILE = "enrichment.safetensors"
_BLOCK = 8_192  # documents enriched at a time


class Enrichment(nn.Module):
    """A knowledge bank, one vector for each of M nodes, and the combiner that reads it.

    A node is read at unit length, and its row gets a row gradient: a step touches the nodes that its documents are
    linked to. While it trains, the bank may hold only what is added to the encoder's vectors of the nodes' texts, which
    are given to whoever reads it then; a finished one is `whole`.

    Args:
        nodes: (M, D) float32, where the bank starts.
        combiner: D wide.
    """

    times = 1  # how much wider than its own vector what becomes of a document is

    def __init__(self, nodes: FloatArray, combiner: Combiner) -> None:
        super().__init__()
        self.width = combiner.width
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
        device = self.bank.weight.device
        enriched, weights = np.empty_like(x), np.zeros(links.shape, np.float32)
        with evaluating(self), torch.no_grad():
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
        return enriched, weights

    def alone(self, x: FloatArray) -> FloatArray:
        """What becomes of any number of texts without nodes, (n, D)."""
        return x if self.combiner.passes else self.enrich(x, np.zeros((len(x), 0), np.int64))[0]

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
        if not given.pop("attention", True):  # as it was kept before there were more than two kinds
            given["kind"] = "mean"
        enrichment = cls(np.empty((nodes, width), np.float32), make_combiner(width, Design(**given)))
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
