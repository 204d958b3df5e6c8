"""One optimiser for dense parameters and for tables with row gradients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import unwrap
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from longtail.threads import side_by_side
from longtail.train import eight_bits

_ROWS_AT_ONCE = 512  # rows of a table updated together on a CPU: few enough to stay in its cache between operations
# Numbers that a CPU updates at once: those left over differ in the last bit, and rows must not by their place.
_LANES = 16
_NUMBERS_AT_ONCE = 2**22  # of a bfloat16 parameter, which are float32 while they are updated


class AdamW(torch.optim.Optimizer):
    """AdamW (Loshchilov and Hutter, 2019); a table with row gradients is updated at just those rows.

    A row that a batch did not read keeps its value and its moments, as in torch's SparseAdam; weight decay applies to a
    row when it is updated. Both kinds share the step count of the bias correction.

    A bfloat16 parameter is updated in float32, and what its 8 bits cannot hold of the result is kept beside it, in as
    many numbers of bfloat16: an update that is too small to change it adds up with those that follow, down to some
    2^-17 of it. So is its second moment kept; the first is bfloat16 alone. That is 8 bytes a number beside the
    parameter's 2. Source: Revisiting BFloat16 Training (Zamirai et al., 2020), where it is Kahan's summation.

    A group with ``eight_bits`` has moments of 8 bits (`longtail.train.eight_bits`), 2 bytes a number in place of 8; its
    parameters are float32 and have dense gradients.

    Args:
        parameters: parameters, or groups of them with their own settings, as for any torch optimiser.
        learning_rate: the step size.
        betas: decay of the two moments.
        epsilon: added to the root of the second moment.
        weight_decay: decoupled from the gradient.
        row_wise: keep one second moment a row of a table with row gradients (the mean over the row), and not one a
            number: a third less memory for the table and its moments. A group may set it for itself.
    """

    # Torch wraps these to keep its compiler out of them, and imports the compiler to do so, which takes two seconds.
    add_param_group = unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = unwrap(torch.optim.Optimizer.zero_grad)
    state_dict = unwrap(torch.optim.Optimizer.state_dict)
    _load_state_dict = unwrap(torch.optim.Optimizer.load_state_dict)

    def __init__(
        self,
        parameters: Iterable[Tensor] | Iterable[dict[str, Any]],
        learning_rate: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        row_wise: bool = False,
    ) -> None:
        defaults = {"lr": learning_rate, "betas": betas, "eps": epsilon, "weight_decay": weight_decay, "fused": True}
        defaults |= {"row_wise": row_wise, "eight_bits": False}
        super().__init__(parameters, defaults)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state back; torch makes all of it floating point, as the parameters are."""
        self._load_state_dict(state_dict)
        for group in self.param_groups:
            for state in (self.state[parameter] for parameter in group["params"] if group["eight_bits"]):
                state |= {name: state[name].to(torch.uint8) for name in ("exp_avg", "exp_avg_sq") if name in state}

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            dense: list[tuple[Tensor, ...]] = []
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                in_two = parameter.dtype == torch.bfloat16 and not parameter.grad.is_sparse
                if not state:
                    state["step"] = torch.zeros((), device=parameter.device)
                    row_wise = group["row_wise"] and parameter.grad.is_sparse
                    state |= eight_bits.new_moments(parameter) if group["eight_bits"] else _moments(parameter, row_wise)
                    if in_two:
                        state |= {name: torch.zeros_like(parameter) for name in ("below", "below_sq")}
                state["step"] += 1
                if in_two:
                    _update_in_two(parameter, parameter.grad, state, group)
                    continue
                if group["eight_bits"]:
                    eight_bits.update(parameter, parameter.grad, state, group)
                    continue
                tensors = (parameter, parameter.grad, state["exp_avg"], state["exp_avg_sq"], state["step"])
                if parameter.grad.is_sparse:
                    _update_rows(*tensors, group)
                else:
                    dense.append(tensors)
            if dense:
                _update(dense, group)


def adamw(*rates: tuple[torch.nn.Module | Iterable[Tensor], float], more: Sequence[dict[str, Any]] = ()) -> AdamW:
    """AdamW over modules, or lists of parameters, each with a learning rate; those without parameters are left out.

    A module that has ``parameter_groups`` says itself which of its parameters learn how fast.

    Args:
        rates: the modules, or lists, each with its learning rate.
        more: groups with settings of their own, as `AdamW` takes them.
    """
    groups = [group for part, rate in rates for group in _groups(part, rate)]
    return AdamW([*(group for group in groups if group["params"]), *more], rates[0][1])


def _groups(part: Any, rate: float) -> list[dict[str, Any]]:
    """The groups of a module, or of a list of parameters."""
    if hasattr(part, "parameter_groups"):
        groups: list[dict[str, Any]] = part.parameter_groups(rate)
        return groups
    return [{"params": list(part.parameters() if isinstance(part, torch.nn.Module) else part), "lr": rate}]


def _moments(parameter: Tensor, row_wise: bool) -> dict[str, Tensor]:  # noqa: FBT001
    """Two moments of a parameter, 0."""
    rows = parameter[:, :1] if row_wise else parameter
    return {"exp_avg": torch.zeros_like(parameter), "exp_avg_sq": torch.zeros_like(rows)}


def _update(tensors: list[tuple[Tensor, ...]], group: dict[str, Any]) -> None:
    """Update parameters and their moments in place, in one pass over (parameter, gradient, moments, step) of each."""
    parameters, gradients, firsts, seconds, steps = (list(column) for column in zip(*tensors, strict=True))
    torch._fused_adamw_(  # what torch.optim.AdamW(fused=True) calls; the checks around it take longer than 512 rows
        parameters,
        gradients,
        firsts,
        seconds,
        [],
        steps,
        lr=group["lr"],
        beta1=group["betas"][0],
        beta2=group["betas"][1],
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        amsgrad=False,
        maximize=False,
    )


def _update_in_two(parameter: Tensor, gradient: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> None:
    """Update a bfloat16 parameter in place; it, and its second moment, is the sum of two numbers of bfloat16."""
    beta1, beta2 = group["betas"]
    moved, seen = (1 - beta ** state["step"] for beta in (beta1, beta2))  # the bias corrections
    tensors = (parameter, state["below"], state["exp_avg"], state["exp_avg_sq"], state["below_sq"])
    flat = (*(tensor.view(-1) for tensor in tensors), gradient.reshape(-1))
    parts = (torch.split(tensor, _NUMBERS_AT_ONCE) for tensor in flat)
    for high, low, first, square, below, slope in zip(*parts, strict=True):
        mean = first.float().lerp_(slope.float(), 1 - beta1)
        squares = (square.float() + below).lerp_(slope.float().square(), 1 - beta2)
        weights = (high.float() + low).mul_(1 - group["lr"] * group["weight_decay"])
        weights.addcdiv_(mean / moved, (squares / seen).sqrt_().add_(group["eps"]), value=-group["lr"])
        first.copy_(mean)
        for wide, upper, lower in ((weights, high, low), (squares, square, below)):
            upper.copy_(wide)
            lower.copy_(wide - upper)


def _update_rows(
    table: Tensor, gradient: Tensor, first: Tensor, second: Tensor, step: Tensor, group: dict[str, Any]
) -> None:
    """Update the rows of a table and of its moments that a sparse gradient holds."""
    rows = gradient._indices()[0]  # noqa: SLF001  (the public one asks for a coalesced gradient)
    if bool((rows.diff() > 0).all()):
        gradient._coalesced_(True)  # noqa: FBT003  (it is, but autograd forgets so on the way)
    gradient = gradient.coalesce()
    some = _ROWS_AT_ONCE if table.device.type == "cpu" else len(table)
    parts = zip(torch.split(gradient.indices()[0], some), torch.split(gradient.values(), some), strict=True)

    width = table.shape[1]
    spare = -width % _LANES

    @torch.no_grad()
    def update(part: tuple[Tensor, Tensor]) -> None:
        ids, values = part
        parameter, *moments = (tensor.index_select(0, ids) for tensor in (table, first, second))
        if second.shape == table.shape:
            if spare:
                values, parameter, *moments = (F.pad(rows, (0, spare)) for rows in (values, parameter, *moments))
            _update([(parameter, values.contiguous(), *moments, step)], group)
            parameter, *moments = (rows[:, :width] for rows in (parameter, *moments))
        else:
            _update_row_wise(parameter, values, moments[0], moments[1], float(step), group)
        for tensor, updated in zip((table, first, second), (parameter, *moments), strict=True):
            tensor.index_copy_(0, ids, updated)

    side_by_side(update, list(parts), table.device)


def _update_row_wise(
    rows: Tensor, gradient: Tensor, first: Tensor, second: Tensor, step: float, group: dict[str, Any]
) -> None:
    """Update rows (U, D) and their moments, (U, D) and (U, 1), in place: AdamW with g^2 replaced by its row's mean."""
    beta1, beta2 = group["betas"]
    rows.mul_(1 - group["lr"] * group["weight_decay"])
    first.lerp_(gradient, 1 - beta1)
    second.lerp_(gradient.square().mean(1, keepdim=True), 1 - beta2)
    roots = second.div(1 - beta2**step).sqrt_().add_(group["eps"])  # (U, 1)
    rows.addcdiv_(first, roots.expand_as(first), value=-group["lr"] / (1 - beta1**step))
