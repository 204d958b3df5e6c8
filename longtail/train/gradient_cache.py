"""Encoding more texts than the memory of a backward pass has room for."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from longtail.text.tokens import Tokens


def encode_cached(encoder: nn.Module, chunks: Iterable[Tokens]) -> Tensor:
    """Encode texts in chunks that are encoded again, one by one, in the backward pass.

    The forward pass keeps the vectors and nothing else. In the backward pass a chunk is encoded once more, with the
    same random numbers (dropout is the same in both), and the gradient of its vectors goes through it. Value and
    gradients are those of one pass, for the memory of one chunk and a second forward pass.

    Source: gradient caching (Gao et al., 2021), which DEXML uses to encode all labels in each step.

    Args:
        encoder: text to (C, D) vectors; its parameters need not fit into one device with the activations of all chunks.
        chunks: the texts, C at a time.

    Returns:
        (sum of all C, D).
    """
    device = next(encoder.parameters())  # says whose random numbers are to be the same
    return torch.cat([checkpoint(_encode, device, encoder, tokens, use_reentrant=False) for tokens in chunks])


def _encode(_device: Tensor, encoder: nn.Module, tokens: Tokens) -> Tensor:
    vectors: Tensor = encoder(tokens)
    return vectors
