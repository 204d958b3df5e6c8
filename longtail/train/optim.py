"""One optimiser for dense parameters and for tables with row gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw

_ROWS_AT_ONCE = 1_024  # rows of a table updated together: few enough to stay in the cache between operations


class AdamW(torch.optim.Optimizer):
    """AdamW (Loshchilov and Hutter, 2019); a table with row gradients is updated at just those rows.

    A row that a batch did not read keeps its value and its moments, as in torch's SparseAdam; weight decay applies to a
    row when it is updated. Both kinds share the step count of the bias correction.

    Args:
        parameters: parameters, or groups of them with their own settings, as for any torch optimiser.
        learning_rate: the step size.
        betas: decay of the two moments.
        epsilon: added to the root of the second moment.
        weight_decay: decoupled from the gradient.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor] | Iterable[dict[str, Any]],
        learning_rate: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        defaults = {"lr": learning_rate, "betas": betas, "eps": epsilon, "weight_decay": weight_decay}
        super().__init__(parameters, defaults)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            given = [p for p in group["params"] if p.grad is not None]
            for parameter in given:
                if not self.state[parameter]:
                    self.state[parameter] = {
                        "step": torch.zeros(()),
                        "exp_avg": torch.zeros_like(parameter),
                        "exp_avg_sq": torch.zeros_like(parameter),
                    }
            self._step_dense([p for p in given if not p.grad.is_sparse], group)
            for parameter in given:
                if parameter.grad.is_sparse:
                    self._step_rows(parameter, group)

    def _step_dense(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        if parameters:
            states = [self.state[p] for p in parameters]
            adamw(
                parameters,
                [p.grad for p in parameters if p.grad is not None],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                [state["step"] for state in states],
                foreach=True,
                amsgrad=False,
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=False,
            )

    def _step_rows(self, table: Tensor, group: dict[str, Any]) -> None:
        assert table.grad is not None
        gradient = table.grad.coalesce()
        state = self.state[table]
        state["step"] += 1
        steps, (beta1, beta2) = float(state["step"]), group["betas"]
        size = group["lr"] / (1 - beta1**steps)
        scale = 1 / math.sqrt(1 - beta2**steps)
        rows, values = gradient.indices()[0], gradient.values()
        for ids, g in zip(torch.split(rows, _ROWS_AT_ONCE), torch.split(values, _ROWS_AT_ONCE), strict=True):
            first = state["exp_avg"].index_select(0, ids).lerp_(g, 1 - beta1)
            second = state["exp_avg_sq"].index_select(0, ids).mul_(beta2).addcmul_(g, g, value=1 - beta2)
            state["exp_avg"].index_copy_(0, ids, first)
            state["exp_avg_sq"].index_copy_(0, ids, second)
            value = table.index_select(0, ids)
            value.mul_(1 - group["lr"] * group["weight_decay"])
            value.addcdiv_(first, second.sqrt_().mul_(scale).add_(group["eps"]), value=-size)
            table.index_copy_(0, ids, value)
