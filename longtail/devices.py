"""Where tensors are."""

from __future__ import annotations

import torch

from longtail.errors import BadInput


def choose_device(name: str) -> torch.device:
    """The torch device of a name; ``auto`` is a GPU where there is one, else the CPU."""
    try:
        device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)
    except RuntimeError:
        raise BadInput("device", f"expected cpu, cuda or auto, found {name}", remedy="give one of those") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise BadInput("device", f"expected a GPU for {name}, found none", remedy="give cpu")
    return device


def seed(device: torch.device, number: int) -> None:
    """Let the random numbers of the CPU, and of the device that is worked on, begin anew.

    `torch.manual_seed` seeds every kind of device that there could be, and where there is none it keeps the call for
    later, with its stack: some milliseconds a step, and memory that grows.
    """
    torch.default_generator.manual_seed(number)
    if device.type == "cuda":
        torch.cuda.manual_seed(number)
