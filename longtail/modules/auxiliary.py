"""Free vectors of clusters of labels, beside the vectors of their texts."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from longtail.modules.table import Table, unit
from longtail.topk import FloatArray, IntArray


class AuxiliaryVectors(nn.Module):
    """What the texts of labels do not say, a vector for each cluster of labels: normalise(z + A[cluster]).

    Source: DEXA (Dahiya et al., 2023). The vectors start at zero, and with them a label as its text.

    Args:
        clusters: (L,) int64, which vector each label has.
        width: D.
    """

    clusters: Tensor

    def __init__(self, clusters: IntArray, width: int) -> None:
        super().__init__()
        self.table = Table(torch.zeros(int(clusters.max(initial=-1)) + 1, width))
        self.register_buffer("clusters", torch.from_numpy(clusters))

    def forward(self, ids: Tensor, text: Tensor) -> Tensor:
        """The vectors of P labels, (P, D) of unit length.

        Args:
            ids: (P,) of labels.
            text: (P, D) the vectors z of their texts.
        """
        found, at = torch.unique(self.clusters[ids], return_inverse=True)
        return unit(text + F.embedding(at, self.table.rows(found)))

    def vectors(self, text: FloatArray) -> FloatArray:
        """All label vectors, (L, D) float32 of unit length.

        Args:
            text: (L, D) the vectors of the labels' texts.
        """
        with torch.no_grad():
            vectors: FloatArray = unit(
                torch.from_numpy(text + self.table.export()[self.clusters.cpu().numpy()])
            ).numpy()
        return vectors
