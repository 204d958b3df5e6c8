"""An optimiser in the backward pass, for a table that is too large to have a gradient: it steps block by block."""

from __future__ import annotations

import torch
from torch import Tensor

from longtail.modules.table import Table


class SGDInBackward:
    """SGD, with momentum or none, of a table whose loss goes over all of its rows (`longtail.losses.full.chunked`).

    It is called by the backward pass of such a loss, once a chunk of rows, and so after `fit` has seen that every loss
    term is finite. Settings and momentum are those of a parameter group of an ordinary optimiser, which never sees a
    gradient of the table and leaves it alone: schedules and checkpoints know of nothing new.

    Weights of less than 32 bits are widened, stepped, and rounded stochastically: up or down by chance, right on
    average, so that steps smaller than the gap between two numbers add up (Gupta et al., 2015; ELMO does the same).
    The bits come from torch's generator, which `fit` seeds at each step.

    Args:
        optimizer: gets a group for the table.
        table: (V, D).
        learning_rate: the step size.
        momentum: share of the last step that is taken again, in [0, 1); 0 keeps no buffer.
        weight_decay: as in torch's SGD, but decoupled from momentum: rows shrink by the learning rate times this.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        table: Table,
        learning_rate: float,
        *,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
    ) -> None:
        settings = {"lr": learning_rate, "momentum": momentum, "weight_decay": weight_decay}
        optimizer.add_param_group({"params": [table.weight], **settings})
        self._optimizer, self._table = optimizer, table.weight
        self._group = len(optimizer.param_groups) - 1  # the groups themselves are others after a checkpoint

    @torch.no_grad()
    def __call__(self, rows: slice, weights: Tensor, slopes: Tensor, documents: Tensor) -> None:
        """Step some rows by the gradient ``slopes @ documents``.

        Args:
            rows: which.
            weights: (C, D) those rows, or a wide copy of them; changed.
            slopes: (C, B).
            documents: (B, D).
        """
        group, state = self._optimizer.param_groups[self._group], self._optimizer.state[self._table]
        rate, momentum = group["lr"], group["momentum"]
        keep = 1 - rate * group["weight_decay"]
        if momentum:
            if not state:
                state["momentum"] = torch.zeros_like(self._table)
            moving = state["momentum"][rows].to(weights.dtype)
            moving.addmm_(slopes, documents, beta=momentum)
            weights.mul_(keep).add_(moving, alpha=-rate)
            _write(moving, state["momentum"][rows])
        else:
            weights.addmm_(slopes, documents, beta=keep, alpha=-rate)
        _write(weights, self._table[rows])


def _write(wide: Tensor, rows: Tensor) -> None:
    """Put values into rows of the same or of a narrower type; nothing to do where they are the rows."""
    if wide.data_ptr() != rows.data_ptr():
        rows.copy_(stochastically_rounded(wide))


def stochastically_rounded(x: Tensor) -> Tensor:
    """float32 as bfloat16, up with a probability of how far up it is from the number below, and else down.

    Args:
        x: float32 (or wider: it is narrowed first), finite.

    Returns:
        bfloat16 of the same shape; a number that bfloat16 can hold stays as it is.
    """
    noise = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device).random_(-(2**63), None)
    bits = noise.view(torch.int16)[: x.numel()].view(x.shape).to(torch.int32).bitwise_and_(0xFFFF)
    bits += x.float().view(torch.int32)  # a carry out of the lower half is a step up in size
    return bits.bitwise_and_(-0x10000).view(torch.float32).to(torch.bfloat16)
