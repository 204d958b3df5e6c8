"""Links of clusters to labels, a fixed number of each cluster, with weights that are learned."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from longtail.data.sparse import CSR, csr
from longtail.modules.table import Table
from longtail.topk import IntArray


class Links(nn.Module):
    """a = min(1, scale * softmax(free)) for the S links of each of K clusters: about so many of them can be 1.

    Source: ELIAS (Gupta et al., 2022), section 3.1: rows of the sparse matrix A.

    Args:
        members: (K, S) the labels that each cluster is linked to, padded with -1.
        scale: 0 for links that are all 1, and not learned.
    """

    members: Tensor

    def __init__(self, members: IntArray, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.register_buffer("members", torch.from_numpy(members))
        self.table = Table(torch.zeros(members.shape)) if scale else None

    def forward(self, clusters: Tensor) -> Tensor:
        """The weights of the links of some clusters, (U, S), 0 where there is none.

        Args:
            clusters: (U,) ascending, each once.
        """
        there = self.members[clusters] >= 0
        if self.table is None:
            return there.float()
        free = self.table.rows(clusters).masked_fill(~there, -torch.inf)
        return (self.scale * free.softmax(1)).clamp(max=1)

    @torch.no_grad()
    def matrix(self, labels: int) -> CSR:
        """(K, L) all weights."""
        members = self.members.cpu().numpy()
        weights = self(torch.arange(len(members), device=self.members.device)).cpu().numpy()
        rows, places = np.nonzero(members >= 0)
        return csr(rows, members[rows, places], (len(members), labels), weights[rows, places])
