"""What a transformer keeps of a batch for its backward pass, by what a few texts are seen to keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from longtail.modules.encoders.sub_batches import by_length
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.text.tokens import PaddedTokens

Called: TypeAlias = Callable[[Tensor, Tensor], object]
_TEXTS = 2  # that are read, and as many more


def activation_bytes(module: nn.Module, tokens: PaddedTokens) -> int:
    """The bytes of a transformer's activations in training; 0 where there is none.

    Two texts of the mean length are read, and four: what the latter keep more is what they cost, of the numbers and
    kernels that the device has. So adapters, gated layers and narrow keys count as they are.

    Args:
        module: may be, or have, a `TransformerEncoder`.
        tokens: of a batch.
    """
    encoder = next((part for part in module.modules() if isinstance(part, TransformerEncoder)), None)
    if encoder is None:
        return 0
    at_once, width, layers = encoder.texts_at_once, encoder.backbone.config.hidden_size, encoder.depth
    mask = tokens.windows(encoder.tokenizer.max_length)[0].mask
    _, lengths, ends = by_length(mask)
    texts, widest = np.diff(ends), lengths[ends[1:] - 1]  # of each part that is padded by itself
    held = int((texts * widest).sum()) if at_once is None else min(at_once, len(mask)) * int(widest.max())
    words = 0 if at_once is None else 2 * 4 * width * mask.numel()  # which stay, with their gradients

    def called(ids: Tensor, mask: Tensor) -> None:
        encoder.pooled_states(encoder.backbone.get_input_embeddings()(ids), mask)

    with _all_kept(encoder) as again:
        kept = held * bytes_a_token(encoder, called, float(np.mean(lengths)))
    if again:  # what goes into each layer, and one of them at a time
        kept = 4 * layers * width * held + kept / layers
    return words + int(kept)


def bytes_a_token(module: nn.Module, called: Called, length: float) -> float:
    """The bytes that a pass through a module keeps for its gradients, of each token of texts of this length.

    Args:
        module: left as it was.
        called: passes (n, T) ids and a mask of them, False on padding, through the module.
        length: T, rounded up to 2 at least.
    """
    parameters, modes = list(module.parameters()), [(part, part.training) for part in module.modules()]
    own, device = {parameter.untyped_storage().data_ptr() for parameter in parameters}, parameters[0].device
    columns, found = max(2, round(length)), []
    module.train()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        for texts in (_TEXTS, 2 * _TEXTS):
            kept: dict[int, int] = {}

            def keep(tensor: Tensor, kept: dict[int, int] = kept) -> Tensor:
                storage = tensor.untyped_storage()
                kept[storage.data_ptr()] = storage.nbytes()
                return tensor

            mask = torch.ones(texts, columns, dtype=torch.bool, device=device)
            mask[0, -1] = False  # without padding, other kernels would run
            with saved_tensors_hooks(keep, lambda tensor: tensor):
                called(torch.zeros(mask.shape, dtype=torch.int64, device=device), mask)
            found.append(sum(size for place, size in kept.items() if place not in own))
    for part, mode in modes:
        part.training = mode
    return (found[1] - found[0]) / (_TEXTS * columns)


@contextmanager
def _all_kept(module: nn.Module) -> Iterator[bool]:
    """Nothing is computed again meanwhile; whether something is otherwise."""
    again = [part for part in module.modules() if getattr(part, "gradient_checkpointing", False)]
    for part in again:
        part.gradient_checkpointing = False  # type: ignore[assignment]
    try:
        yield bool(again)
    finally:
        for part in again:
            part.gradient_checkpointing = True  # type: ignore[assignment]
