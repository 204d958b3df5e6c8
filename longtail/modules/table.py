"""Large parameters that are read by rows, with gradients that hold just those rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from longtail.data.sparse import CSR
from longtail.modules.owned_rows import bag_sums_of_owners, row_gradient, rows_of_owners, weighted_sums
from longtail.search.exact import Exact
from longtail.shards.rows import RowsHere
from longtail.text.tokens import BagTokens, PaddedTokens
from longtail.topk import FloatArray, TopK

_BLOCK = 65_536  # rows that are worked on at a time


class Table(nn.Module):
    """n trainable rows of D numbers: vectors of features, of words, of labels, of nodes.

    `rows`, `bag_sum` and `sequences` give the table a sparse gradient of distinct ascending rows, so that the optimiser
    neither sorts nor adds up, and nothing touches a row that the batch did not read.

    Within the steps of a run of several shards, the rows are cut: row i is that of shard i mod V, and in the process
    that works on this shard. Who owns a row computes with it, for all texts that read it, and updates it: what is sent
    is as large as the texts' vectors, whatever n is. Whoever is not this class, an optimiser (`longtail.train`) or a
    loss over all labels (`longtail.losses.full`) does not rely on all rows: it asks for rows by their ids, goes over
    the blocks that are here, searches, or exports.

    Args:
        start: (n, D) float32 or bfloat16, where the rows start; it becomes the parameter itself.

    Attributes:
        weight: the parameter.
    """

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(start)
        self.rows_here: RowsHere | None = None

    def __len__(self) -> int:
        return len(self.weight) if self.rows_here is None else self.rows_here.length

    @property
    def width(self) -> int:
        """D."""
        return int(self.weight.shape[1])

    def rows(self, ids: Tensor) -> Tensor:
        """Some rows.

        Args:
            ids: (U,) int64, ascending, each once, as `longtail.batches.batch.Batch.label_ids` is; without gradients in
                any order.

        Returns:
            (U, D).
        """
        if self.rows_here is not None:
            return rows_of_owners(self.weight, self.rows_here, ids)
        if not torch.is_grad_enabled():
            return self.weight.index_select(0, ids)
        return _Rows.apply(self.weight, ids)  # type: ignore[no-any-return, no-untyped-call]

    def bag_sum(self, tokens: BagTokens) -> Tensor:
        """Each bag's weighted sum of rows: out[b] = sum over the features f of bag b of weight[b, f] row[f].

        The backward pass is the same kernel over the transposed bags.

        Args:
            tokens: B bags of row ids.

        Returns:
            (B, D); zeros for an empty bag.
        """
        if self.rows_here is not None:
            return bag_sums_of_owners(self.weight, self.rows_here, tokens)
        if not torch.is_grad_enabled():
            return weighted_sums(self.weight, tokens.ids, tokens.offsets, tokens.weights)
        return _BagSum.apply(self.weight, tokens)  # type: ignore[no-any-return, no-untyped-call]

    def sequences(self, tokens: PaddedTokens) -> Tensor:
        """The rows of B sequences of ids, (B, T, D), zeros on padding; a step touches these rows alone."""
        spread = self.weight.new_zeros(*tokens.ids.shape, self.width)
        if len(self):
            found, at = torch.unique(tokens.ids[tokens.mask], return_inverse=True)  # the id of padding is a word's, too
            spread[tokens.mask] = F.embedding(at, self.rows(found))
        return spread

    def blocks(self, size: int = _BLOCK) -> Iterator[tuple[slice, Tensor]]:
        """Go over the rows, ``size`` at a time, without gradients.

        Yields:
            Which rows they are, and the rows themselves, (size, D) or fewer: what is written into them is written into
            the table.
        """
        weight = self.weight.detach()
        for start in range(0, len(weight), size):
            part = slice(start, min(start + size, len(weight)))
            yield part, weight[part]

    def search(self, queries: FloatArray, k: int, *, exclude: CSR | None = None) -> TopK:
        """The k rows with the largest inner product with each of (Q, D) queries; see `longtail.search.exact.Exact`."""
        return Exact(self.export(), device=self.weight.device).search(queries, k, exclude=exclude)

    def export(self) -> FloatArray:
        """All rows, (n, D) float32, to be read only: where the table is float32 on a CPU, they are the table itself."""
        rows: FloatArray = self.weight.detach().float().cpu().numpy()
        return rows


def module_state(module: nn.Module) -> dict[str, Tensor]:
    """The state of a module as model files have it: on the CPU, a table by its own name (``x``, not ``x.weight``)."""
    tables = {f"{name}.weight": name for name in _tables_of(module)}
    return {tables.get(name, name): value.cpu().contiguous() for name, value in module.state_dict().items()}


def load_module_state(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load a state of a module: its state dict, or one that has tables by their own names.

    The latter is what `module_state` gives, and what runs have that were begun when tables were plain parameters.
    """
    tables = _tables_of(module)
    module.load_state_dict({f"{name}.weight" if name in tables else name: value for name, value in state.items()})


def _tables_of(module: nn.Module) -> set[str]:
    return {name for name, part in module.named_modules(remove_duplicate=False) if isinstance(part, Table)}


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.shape = table.shape
        return table.index_select(0, ids)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (ids,) = ctx.saved_tensors
        return row_gradient(ids, gradient, ctx.shape), None


class _BagSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, tokens: BagTokens) -> Tensor:
        ctx.tokens, ctx.shape = tokens, table.shape
        return weighted_sums(table, tokens.ids, tokens.offsets, tokens.weights)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        features, offsets, bags, weights = ctx.tokens.by_feature()
        sums = weighted_sums(gradient.contiguous(), bags, offsets, weights)
        return row_gradient(features, sums, ctx.shape), None


class _Unit(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        units, norms = _units(x)
        ctx.save_for_backward(units, norms)
        return units

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        units: Tensor
        norms: Tensor
        units, norms = ctx.saved_tensors
        along = (gradient * units).sum(1, keepdim=True)
        return torch.addcmul(gradient, units, along, value=-1) / norms


def _units(x: Tensor) -> tuple[Tensor, Tensor]:
    norms: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    norms.masked_fill_(norms == 0, 1)
    return x / norms, norms


def unit(x: Tensor) -> Tensor:
    """Rows of unit length: x / |x|, and a zero row as it is.

    It is `torch.nn.functional.normalize` with a backward pass of three operations, and with the gradient of a zero row
    passed on as if its length were 1 (there it is divided by 1e-12, after which Adam cannot move the row again).

    Args:
        x: (B, D).

    Returns:
        (B, D).
    """
    if not torch.is_grad_enabled():  # a function with a gradient takes longer to enter than a short text to encode
        return _units(x)[0]
    return _Unit.apply(x)  # type: ignore[no-any-return, no-untyped-call]
