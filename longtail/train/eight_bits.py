"""Moments of AdamW in 8 bits, by the package bitsandbytes."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from longtail.errors import MissingExtra

_BLOCK = 256  # numbers that share a scale


def must_be_installed() -> None:
    """Refuse moments in 8 bits where the package is not there.

    Raises:
        MissingExtra: bitsandbytes is not installed.
    """
    _functional()


def new_moments(parameter: Tensor) -> dict[str, Tensor]:
    """Two moments of a parameter, 0, each with a scale for a block of 256 numbers: 2.03 bytes a number in all."""
    blocks = -(-parameter.numel() // _BLOCK)
    return {
        "exp_avg": torch.zeros_like(parameter, dtype=torch.uint8),
        "exp_avg_sq": torch.zeros_like(parameter, dtype=torch.uint8),
        "scale": torch.zeros(blocks, device=parameter.device),
        "scale_sq": torch.zeros(blocks, device=parameter.device),
    }


def update(parameter: Tensor, gradient: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> None:
    """Update a float32 parameter and its moments in place, as AdamW does, but that moments are rounded to 8 bits.

    A moment is a place in a map of 256 values, dense near 0 and near 1, times the largest of its block. Source: 8-bit
    Optimizers via Block-wise Quantization (Dettmers et al., 2022), section 2.

    Args:
        parameter: of at least one dimension.
        gradient: of its shape.
        state: its moments, as `new_moments` makes them, and its ``step``.
        group: learning rate, betas, epsilon and weight decay.
    """
    signed, unsigned = _maps(parameter.device)
    beta1, beta2 = group["betas"]
    _functional().optimizer_update_8bit_blockwise(
        "adam",
        gradient.contiguous(),
        parameter,
        *(state["exp_avg"], state["exp_avg_sq"]),
        *(beta1, beta2, 0.0, 0.0),  # the last two are of other optimisers
        group["eps"],
        int(state["step"]),
        group["lr"],
        *(signed, unsigned, state["scale"], state["scale_sq"]),
        weight_decay=group["weight_decay"],
    )


@cache
def _maps(device: torch.device) -> tuple[Tensor, Tensor]:
    """The (256,) values of the first moment, which has a sign, and of the second."""
    made = _functional().create_dynamic_map
    return made(signed=True).to(device), made(signed=False).to(device)


def _functional() -> Any:
    try:
        return import_module("bitsandbytes.functional")
    except ModuleNotFoundError as error:
        raise MissingExtra("bitsandbytes", extra="eight-bit", purpose="an optimiser's moments in 8 bits") from error
