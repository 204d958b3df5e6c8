"""An int8 prefilter: a look at all labels in a quarter of the bytes, which says which can be among the k best.

One query against a table is as fast as the table can be read. A copy of it in 8 bits is read first; what that copy may
be wrong by is known for each label, so that all labels but a few can be ruled out, and those few are scored exactly.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

_ALIGNED = 16  # the kernel takes widths that are a multiple of this
_ROUNDING = 2.0**-8  # more than the relative error of a bfloat16: of a query's numbers, and of an approximate score
_SUMMING = 1e-4  # more than the error of a sum in float32, relative to the lengths of both vectors
FEW = 8  # queries that are worth prefiltering; from some 12 on the product of all costs less
LARGE = 2048  # labels that are worth prefiltering; fewer are ranked in one go


def can_prefilter(table: Tensor, k: int) -> bool:
    """Whether there is a fast product of 8-bit rows for this table, and it is large enough to gain by it."""
    known = hasattr(torch, "_weight_int8pack_mm")
    return known and table.device.type == "cpu" and len(table) >= max(LARGE, 16 * k)


class Int8Prefilter:
    """8-bit rows of a table, each with a scale of its own.

    Args:
        table: (L, D) float32, for which `can_prefilter` is true.
    """

    def __init__(self, table: Tensor) -> None:
        self._scale = table.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / 127  # (L,)
        rounded = (table / self._scale[:, None]).round_()  # (L, D)
        error = torch.linalg.vector_norm(table - rounded * self._scale[:, None], dim=1)  # (L,)
        rounding = (2 + _ROUNDING) * _ROUNDING  # of the query, and of the product
        self._margin = (1 + rounding) * error + (rounding + _SUMMING) * torch.linalg.vector_norm(table, dim=1)  # (L,)
        self._rows = F.pad(rounded.to(torch.int8), (0, -table.shape[1] % _ALIGNED))  # (L, D')
        self._ones = torch.ones(len(table), dtype=torch.bfloat16)

    def candidates(self, queries: Tensor, k: int) -> Tensor:
        """Ids of all labels that can be among the k best of a query, ascending; often little more than k.

        With t = scale * r + e and q = h + d, h the query in 16 bits, the score <q, t> differs from scale * <h, r> by at
        most |q| |e| + |d| |t - e|, and by the rounding of the product to 16 bits. |d| is at most 2^-8 |q|, the rounding
        at most 2^-8 |h| |t - e|, and |t - e| at most |t| + |e|. What may reach the k-th largest lower bound is a
        candidate.

        Args:
            queries: (Q, D) float32; a few.
            k: at least 1, at most L.
        """
        halves = F.pad(queries.bfloat16(), (0, self._rows.shape[1] - queries.shape[1]))  # (Q, D')
        score = torch._weight_int8pack_mm(halves, self._rows, self._ones) * self._scale  # noqa: SLF001  (Q, L)
        length = torch.linalg.vector_norm(queries, dim=1, keepdim=True)  # (Q, 1)
        wrong = length * self._margin
        kth = (score - wrong).topk(k).values[:, -1:]  # (Q, 1)
        ruled_out: Tensor = (score + wrong < kth).all(0)  # (L,); not what overflowed
        return ruled_out.logical_not_().nonzero()[:, 0]  # (C,)
