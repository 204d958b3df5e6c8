"""The interface of text encoders, and the one loop that encodes many texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from longtail.errors import BadInput
from longtail.modules.modes import evaluating
from longtail.modules.table import Table
from longtail.shards.shard import everyones
from longtail.text.ragged import Ragged
from longtail.text.tokens import Tokenizer, Tokens
from longtail.topk import FloatArray

_TOKENS = 2**17  # at most, of the texts that are encoded at a time: 128 of each of 1,024


class Features(NamedTuple):
    """The table that an encoder consists of, and how it reads that: for who reads another one in the same way.

    Attributes:
        table: of features.
        sums: what is made of B texts by a table like that, (B, D), before their length is made 1.
    """

    table: Table
    sums: Callable[[Table, Tokens], Tensor]


class Encoder(nn.Module):
    """Text to unit rows: what every encoder is. Those that a recipe takes by name: `longtail.modules.encoders.named`.

    Attributes:
        width: D, the width of a vector.
        tokenizer: makes the tokens that the encoder reads of documents.
    """

    width: int
    tokenizer: Tokenizer
    __call__: Callable[..., Tensor]

    @property
    def core(self) -> Encoder:
        """The encoder itself; of one that mixes what another makes of fields, that other."""
        return self

    @property
    def learning_rate(self) -> float:
        """What suits it: a table that starts from nothing learns faster than a language model."""
        return 4e-3

    @property
    def features(self) -> Features | None:
        """What it consists of, where that is a table of features and nothing else."""
        return None

    @property
    def label_tokenizer(self) -> Tokenizer:
        """Makes the tokens of labels, where these are read otherwise than documents."""
        return self.tokenizer

    def forward(self, text: Tokens) -> Tensor:
        """Encode B texts as (B, D) float32 rows of unit length."""
        raise NotImplementedError

    def start_from(self, path: Path) -> tuple[int, int]:
        """Start the rows of known words from static vectors; see `longtail.modules.encoders.static.start_from`.

        Raises:
            BadInput: the encoder has no rows of words that could start from them.
        """
        problem = f"expected none for this encoder, which has no table of words, found {path}"
        raise BadInput("static_vectors", problem, remedy="leave them out, or choose bag, convolution or lstm")

    def save(self, folder: Path) -> None:
        """Write everything that encoding needs into an existing folder."""
        raise NotImplementedError


def encode_together(encoder: Encoder, documents: Tokens, *shared: Tokens) -> tuple[Tensor, ...]:
    """Encode documents, labels and whatever else a batch has in one pass.

    The gradient of a table is then made once, and not several times to be added up.

    Args:
        encoder: what encodes all of them.
        documents: B texts.
        shared: what the documents are compared with: in a part of a batch, each part encodes some of it for all.

    Returns:
        A tensor of rows of unit length for each of the texts, (n, D) float32, as from a call of the encoder for each.
    """
    vectors = encoder(documents.followed_by(*shared))
    return everyones(vectors, shared, private=len(documents))


def embed(encoder: Encoder, table: Ragged, *, device: torch.device, block: int = 1024) -> FloatArray:
    """Encode every row of a token table, without gradients.

    Args:
        encoder: left in the mode (train or eval) that it was in; several threads may ask one in eval mode.
        table: n rows of tokens.
        device: where the encoder is.
        block: texts encoded at a time, fewer where they are long. Rows are taken in order of length, so that a block
            wastes little padding.

    Returns:
        (n, D) float32, in the order of the table.
    """
    out = np.empty((len(table), encoder.width), np.float32)
    lengths = np.diff(table.offsets)
    by_length, start = np.argsort(lengths, kind="stable"), 0
    with evaluating(encoder), torch.inference_mode():
        while start < len(table):
            rows = by_length[start : start + block]
            rows = rows[: max(1, _TOKENS // int(lengths[rows[-1]] or 1))]
            start += len(rows)
            out[rows] = encoder(encoder.tokenizer.batch(table, rows).to(device)).cpu().numpy()
    return out
