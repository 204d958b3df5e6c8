"""What a shard has of a loss over all labels: every document of the batch, and the labels that it owns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor

from longtail.losses.full.labels import Encoded, LabelTable
from longtail.losses.full.targets import SparseTargets
from longtail.losses.pairs import Pairs
from longtail.shards.shard import Shard, added, everyones, here

Update: TypeAlias = Callable[[slice, Tensor, Tensor, Tensor], None]
"""Labels, their vectors (C, D) as they were used, slopes (C, B), documents (B, D): step the table at those labels.

The gradient of the labels' vectors is ``slopes @ documents``. The vectors are those of the table itself, or a wide copy
of narrower ones; nothing reads them afterwards. See `longtail.train.in_backward`.
"""


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a loss that is computed here: all of it, outside of the steps of shards.

    Attributes:
        x: (B, D) documents, of all shards.
        table: (L, D) vectors of the labels that are owned here.
        targets: of the B documents among these labels.
        shares: (E,) what each of these positives counts (`longtail.losses.pairs.Pairs.shares`).
        update: of the table.
        scale: what the part is to be multiplied by: a term counts by the share of the documents that are a shard's.
    """

    x: Tensor
    table: LabelTable
    targets: SparseTargets
    shares: Tensor
    update: Update | None
    scale: float = 1.0

    @classmethod
    def of(cls, x: Tensor, table: LabelTable, targets: SparseTargets, update: Update | None) -> Part:
        """The part that is computed here, of the shard's own documents and their targets."""
        shard = here()
        if shard is None:
            return cls(x, table, targets, _wide(targets.positives, x.dtype).shares(), update)
        (every,) = everyones(x)
        counts = shard.lengths(len(x))
        pairs, hidden = _of_all(shard, targets, counts)
        own, own_table, first = _owned(shard, table, stepped=update is not None)
        mine, hides = own(pairs.columns), own(hidden[1])
        kept, out = mine >= 0, hides >= 0
        positives = replace(pairs.take(kept), columns=mine[kept])
        shares = _wide(pairs, x.dtype).shares()[kept]
        step = None if update is None else _shifted(update, first)
        scale = sum(counts) / max(1, len(x))
        return cls(every, own_table, SparseTargets(positives, hidden[0][out], hides[out]), shares, step, scale)

    def summed(self, values: Tensor) -> Tensor:
        """The sum of what all parts have of (B,) values."""
        shard = here()
        return values if shard is None else added(shard.gather(values))

    def log_summed(self, tops: Tensor, sums: Tensor) -> Tensor:
        """(B,) log sum exp of all parts' scores, of which each has the largest and the sum of exp(score - largest)."""
        shard = here()
        if shard is None:
            return tops + sums.log()
        every = [both.view(2, -1) for both in shard.gather(torch.cat([tops, sums]))]
        top = torch.stack([both[0] for both in every]).amax(0)
        return top + added([both[1] * (both[0] - top).exp() for both in every]).log()


def _wide(pairs: Pairs, dtype: torch.dtype) -> Pairs:
    return replace(pairs, weights=pairs.weights.to(dtype))


def _of_all(shard: Shard, targets: SparseTargets, counts: list[int]) -> tuple[Pairs, tuple[Tensor, Tensor]]:
    """The positives of the documents of all shards, and the hidden pairs, by ascending label."""
    starts = [sum(counts[:index]) for index in range(shard.count)]
    pairs, sizes = targets.positives, shard.gather(targets.positives.weights)
    places = shard.gather(torch.stack([pairs.rows, pairs.columns], 1))
    hidden = shard.gather(torch.stack([targets.hidden_rows, targets.hidden_labels], 1))

    def together(parts: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        rows = torch.cat([part[:, 0] + start for part, start in zip(parts, starts, strict=True)])
        labels, order = torch.cat([part[:, 1] for part in parts]).sort(stable=True)
        return rows[order], labels, order

    rows, labels, order = together(places)
    hidden_rows, hidden_labels, _ = together(hidden)
    return Pairs(rows, labels, torch.cat(sizes)[order], sum(counts)), (hidden_rows, hidden_labels)


def _owned(shard: Shard, table: LabelTable, *, stepped: bool) -> tuple[Callable[[Tensor], Tensor], LabelTable, int]:
    """Where the labels of a shard are, -1 for others', their vectors, and the place of their first row in the table.

    A table that is stepped in the backward pass has no gradient, and other shards step it, too, before this one does.
    """
    cut = table.rows_here
    if cut is not None:
        part = cut.part(shard.index)

        def strided(labels: Tensor) -> Tensor:
            return torch.where(labels % shard.count == shard.index, labels // shard.count, -1)

        return strided, Encoded(table.weight.data[part] if stepped else table.weight[part]), part.start
    start = sum(shard.lengths(len(table))[: shard.index])

    def next_to_each_other(labels: Tensor) -> Tensor:
        return torch.where((labels >= start) & (labels < start + len(table)), labels - start, -1)

    return next_to_each_other, table, 0


def _shifted(update: Update, first: int) -> Update:
    def at(rows: slice, weights: Tensor, slopes: Tensor, documents: Tensor) -> None:
        update(slice(rows.start + first, rows.stop + first), weights, slopes, documents)

    return at
