"""An int8 prefilter: a look at all labels in a quarter of the bytes, which says which can be among the k best.

One query against a table is as fast as the table can be read. A copy of it in 8 bits is read first; what that copy may
be wrong by is known for each label, so that all labels but a few can be ruled out, and those few are scored exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

_ALIGNED = 16  # the kernels take widths that are a multiple of this
_ROUNDING = 2.0**-8  # more than the relative error of a bfloat16
_SUMMING = 1e-4  # more than the error of a sum in float32, relative to the lengths of both vectors
_LEAST = 2.0**-20  # of the last number of a query, which the largest of the others is taken for at least
_BLOCK = 16_384  # rows that are made of floats at a time
FEW = 8  # queries that are worth prefiltering; from some 12 on the product of all costs less
LARGE = 2048  # labels that are worth prefiltering; fewer are ranked in one go


def can_prefilter(table: Tensor, k: int) -> bool:
    """Whether there is a fast product of 8-bit rows for this table, and it is large enough to gain by it."""
    known = hasattr(torch, "_weight_int8pack_mm")
    return known and table.device.type == "cpu" and len(table) >= max(LARGE, 16 * k) and table.shape[1] > 1


def has_whole_products() -> bool:
    """Whether this processor multiplies 8 bits by 8 bits fast: one query takes a third to a half of the time then."""
    return hasattr(torch, "_int_mm") and bool(getattr(torch.cpu, "_is_vnni_supported", bool)())


def in_8_bits(rows: Tensor, *, one_scale: bool) -> Tensor:
    """(n, W') int8 of (n, W) rows, padded, with a scale for all, so that they can be compared, or with one for each."""
    largest = _largest(rows)
    scale = 127 / (largest.max() if one_scale else largest)
    return F.pad((rows * scale).round_().to(torch.int8), (0, -rows.shape[1] % _ALIGNED))


class Whole(NamedTuple):
    """Q queries in 8 bits.

    Attributes:
        digits: (Q, D') int8, without the last number, padded.
        step: (Q, 1) what a 1 among the digits stands for.
        others: (Q, 3) in such steps the last number, the length, and the length of what the digits leave out.
    """

    digits: Tensor
    step: Tensor
    others: Tensor


class Int8Prefilter:
    """8-bit rows of a table, each with a scale of its own.

    The last column stays as it is: where it is a bias, the 1 of a query that it is multiplied by would leave the 8 bits
    of a query nothing for its other numbers. A column of zeros, as a fusion has that keeps one score of several, is not
    read, so that what queries have there makes no bound larger.

    Args:
        table: (L, D) float32, for which `can_prefilter` is true.
        whole: whether the 8 bits of rows are multiplied by 8 bits of a single query, in place of its bfloat16.
    """

    def __init__(self, table: Tensor, *, whole: bool | None = None) -> None:
        self._whole = has_whole_products() if whole is None else whole
        body, self._last = table[:, :-1], table[:, -1].clone()  # (L, D - 1), (L,)
        self._scale, self._error, self._length = torch.empty(3, len(table))  # (L,) each
        self._padding = (0, -body.shape[1] % _ALIGNED)
        self._rows = torch.empty(len(table), body.shape[1] + self._padding[1], dtype=torch.int8)  # (L, D')
        self._read = torch.zeros(table.shape[1], dtype=torch.bool)  # the columns that are not all zeros
        for at in range(0, len(table), _BLOCK):  # so that no copy of the table is made
            part = slice(at, at + _BLOCK)
            self._read |= table[part].any(0)
            self._scale[part] = _largest(body[part])[:, 0] / 127
            rounded = (body[part] / self._scale[part, None]).round_()  # (n, D - 1)
            self._error[part] = _length(body[part] - rounded * self._scale[part, None])
            self._length[part] = _length(table[part]) + self._error[part]
            self._rows[part] = F.pad(rounded.to(torch.int8), self._padding)
        self._ones = torch.ones(len(table), dtype=torch.bfloat16)

    def candidates(self, queries: Tensor, k: int) -> Tensor:
        """Ids of all labels that can be among the k best of a query, ascending; often little more than k.

        With t = scale * r + e and q = h + d, h the query in 8 or 16 bits, both without their last number, <q, t>
        differs from scale * <h, r> by at most |q| |e| + |d| |t - e|, and by the rounding of the product, which is none
        in 8 bits, and in 16 at most 2^-8 |h| |t - e|. |t - e| is at most |t| + |e|. What may reach the k-th largest
        lower bound is a candidate.

        Args:
            queries: (Q, D) float32; a few.
            k: at least 1, at most L.
        """
        queries = queries * self._read
        body = queries[:, :-1]  # (Q, D - 1)
        given, product, rounding = self._product(body)
        score = (product * self._scale).addcmul_(queries[:, -1:], self._last)  # (Q, L)
        length = _length(queries)[:, None]  # (Q, 1)
        lost = _length(body - given)[:, None] + rounding * _length(given)[:, None] + _SUMMING * length
        wrong = (length * self._error).addcmul_(lost, self._length)  # (Q, L)
        kth = (score - wrong).topk(k).values[:, -1:]  # (Q, 1)
        ruled_out: Tensor = (score + wrong < kth).all(0)  # (L,); not what overflowed
        return ruled_out.logical_not_().nonzero()[:, 0]  # (C,)

    def whole(self, queries: Tensor) -> Whole:
        """(Q, D) queries in 8 bits."""
        queries = queries * self._read
        body, length = queries[:, :-1], _length(queries)
        # of a body of zeros, too, the last number is not so many steps that their sums overflow
        step = _largest(body).maximum(_LEAST * queries[:, -1:].abs()) / 127  # (Q, 1)
        digits = (body / step).round_()
        lost = _length(body - digits * step) + _SUMMING * length
        others = torch.stack([queries[:, -1], length, lost], dim=1) / step  # (Q, 3)
        return Whole(F.pad(digits.to(torch.int8), self._padding), step, others)

    def most(self, whole: Whole, labels: slice, numbers: Tensor, out: Tensor) -> Tensor:
        """The most that the inner products of some queries with some rows can be, in the steps of a query.

        Args:
            whole: the queries, q of them.
            labels: of the table, n of them.
            numbers: room for q n whole numbers.
            out: (q, n), where it is written.

        Returns:
            (q, 1) by how much any of them can be too large at most, in such steps.
        """
        others = torch.stack([self._last[labels], self._error[labels], self._length[labels]])  # (3, n)
        self._multiply(whole, labels, numbers, out).addmm_(whole.others, others)
        return 2 * (whole.others[:, 1:] @ others[1:].amax(1))[:, None]

    def scores(self, whole: Whole, labels: slice, numbers: Tensor, out: Tensor) -> None:
        """The inner products of some queries with some rows as 8 bits have them, in the steps of a query; as `most`."""
        self._multiply(whole, labels, numbers, out).addmm_(whole.others[:, :1], self._last[None, labels])

    def _multiply(self, whole: Whole, labels: slice, numbers: Tensor, out: Tensor) -> Tensor:
        """(q, n) the same without the last number, on every processor alike for up to 1,040 columns."""
        rows = self._rows[labels]
        if has_whole_products():
            found = numbers[: out.numel()].view(out.shape)
            out.copy_(torch._int_mm(whole.digits, rows.T, out=found))  # noqa: SLF001
        else:
            out.copy_(whole.digits.float() @ rows.float().T)  # whole numbers, too: below 2^24 none is rounded
        return out.mul_(self._scale[labels])

    def _product(self, body: Tensor) -> tuple[Tensor, Tensor, float]:
        """Queries in fewer bits (Q, D - 1), their products with all rows (Q, L), and by what these may be rounded."""
        if self._whole and len(body) == 1:  # the kernel is slow for two
            step = _largest(body) / 127  # (1, 1)
            digits = (body / step).round_()  # (1, D - 1)
            found = torch._int_mm(F.pad(digits.to(torch.int8), self._padding), self._rows.T)  # noqa: SLF001  (1, L) int32
            return digits * step, found * step, 0.0
        halves = body.bfloat16()
        found = torch._weight_int8pack_mm(F.pad(halves, self._padding), self._rows, self._ones)  # noqa: SLF001  (Q, L)
        return halves.float(), found.float(), _ROUNDING


def _largest(rows: Tensor) -> Tensor:
    """The largest absolute value of each of (n, W) rows, (n, 1), above 0."""
    tiny = torch.finfo(torch.float32).tiny
    largest: Tensor = torch.linalg.vector_norm(rows, torch.inf, dim=1, keepdim=True).clamp_(min=127 * tiny)
    return largest


def _length(rows: Tensor) -> Tensor:
    """The lengths of (n, W) rows, (n,)."""
    length: Tensor = torch.linalg.vector_norm(rows, dim=1)
    return length
