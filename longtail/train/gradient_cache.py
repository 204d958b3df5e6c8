"""Encoding more texts than the memory of a backward pass has room for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from longtail.modules.table import Table
from longtail.shards.shard import Part, as_here, here
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
        (sum of all C, D). In the steps of shards, the vectors of a part of the chunks: each shard encodes its own.
        Where these read tables, whose rows others own, they are encoded together, and nothing is encoded again.
    """
    shard = here()
    if shard is not None:
        chunks = [*_part(shard.part, [*chunks])]
        if any(isinstance(part, Table) and part.rows_here is not None for part in encoder.modules()):
            return _encode(None, encoder, chunks[0].followed_by(*chunks[1:]))
    device = next(encoder.parameters())  # says whose random numbers are to be the same
    encode = as_here(_encode)  # the second time, too: what a step draws for all shards is found by the shard
    return torch.cat([checkpoint(encode, device, encoder, tokens, use_reentrant=False) for tokens in chunks])


def _part(part: Part, chunks: Sequence[Tokens]) -> Iterator[Tokens]:
    """The chunks of a part of all texts, of which there is always one."""
    ends = list(accumulate(map(len, chunks), initial=0))
    own = part.of(ends[-1])
    for chunk, start in zip(chunks, ends, strict=False):
        some = slice(max(0, own.start - start), max(0, min(len(chunk), own.stop - start)))
        if some.start < some.stop or (start == 0 and own.start == own.stop):
            yield chunk.rows(some)


def _encode(_device: Tensor | None, encoder: nn.Module, tokens: Tokens) -> Tensor:
    vectors: Tensor = encoder(tokens)
    return vectors
