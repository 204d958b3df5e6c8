"""Train and eval mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """A module in eval mode within this context, and then as before.

    One in eval mode is not touched: several threads may ask it at once, and to say so to every part of it costs as much
    as a short text.
    """
    was_training = module.training
    if was_training:
        module.eval()
    try:
        yield
    finally:
        if was_training:
            module.train()
