"""What labels attend to: the states of a text at its words, as columns of its vector."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from longtail.errors import BadInput
from longtail.modules.encoders.base import Encoder
from longtail.modules.encoders.recurrent import RecurrentEncoder
from longtail.modules.table import module_state, unit
from longtail.text.tokens import PaddedTokens, Tokens

_FILE = "attended.safetensors"


class Attended(Encoder):
    """A text as its vector and, side by side, a key and a value of each of its words: (E) + T (E + V) numbers.

    Source: AttentionXML (You et al., 2019). How labels score that: `longtail.search.attention.Attention`, and
    `attended` in training.

    Args:
        encoder: of states, E wide.
        values: V, the width of the fully connected layer, an even number.
        dropout: share of the numbers of states that are dropped in a step.
        generator: draws the start of the layer.

    Attributes:
        text: the encoder.

    Raises:
        BadInput: the width is odd.
    """

    def __init__(
        self, encoder: RecurrentEncoder, values: int, *, dropout: float = 0.0, generator: torch.Generator
    ) -> None:
        super().__init__()
        if values % 2:
            problem = f"expected an even number, half of which count against a label, found {values}"
            raise BadInput("hidden", problem, remedy="change it")
        self.text, self.values, self.dropout = encoder, values, dropout
        self.tokenizer = encoder.tokenizer
        self.layer = nn.Linear(encoder.width, values)
        nn.init.xavier_uniform_(self.layer.weight, generator=generator)
        nn.init.zeros_(self.layer.bias)
        self.width = encoder.width + encoder.tokenizer.max_length * (encoder.width + values)

    def states(self, text: Tokens) -> tuple[Tensor, Tensor]:
        """Keys (B, T, E) and values (B, T, V) of B texts, zeros on padding; T is that of the longest, 1 at least."""
        assert isinstance(text, PaddedTokens)
        states = self.text.states(text)
        mask = F.pad(text.mask, (0, states.shape[1] - text.mask.shape[1]))[:, :, None]
        keys = F.dropout(states, self.dropout, self.training)
        return keys, self.layer(keys) * mask

    def forward(self, text: Tokens) -> Tensor:
        """Encode B texts as (B, E + T (E + V)) float32 rows."""
        keys, values = self.states(text)  # (B, t, E), (B, t, V)
        states = torch.cat([keys, values], 2)
        most = self.text.tokenizer.max_length
        return torch.cat([unit(keys.sum(1)), F.pad(states, (0, 0, 0, most - states.shape[1])).flatten(1)], 1)

    def settings(self) -> dict[str, Any]:
        """What `load` is to know."""
        return {"values": self.values}

    def save(self, folder: Path) -> None:
        """Write the layer into an existing folder; the encoder is saved by itself."""
        save_file(module_state(self.layer), folder / _FILE)

    @classmethod
    def load(cls, folder: Path, encoder: Encoder, settings: Mapping[str, Any]) -> Attended:
        """Put the layer that `save` wrote onto the encoder of the model, in eval mode."""
        assert isinstance(encoder, RecurrentEncoder)
        attended = cls(encoder, settings["values"], generator=torch.Generator())
        attended.layer.load_state_dict(load_file(folder / _FILE))
        return attended.eval()


def attended(keys: Tensor, values: Tensor, w: Tensor, places: Tensor | None) -> Tensor:
    """Scores of B texts and U labels, as `longtail.search.attention.Attention` defines them.

    Args:
        keys: (B, T, E), zeros where a text has no state.
        values: (B, T, V).
        w: (U, E + 1) vectors of labels, a bias at the end.
        places: (B, C) int64 in [-1, U), the labels of each text, -1 for none; None for all.

    Returns:
        (B, U), or (B, C) with some number where there is no label.
    """
    there = keys.abs().sum(2) > 0  # (B, T)
    if places is None:
        logits = keys @ w[:, :-1].T  # (B, T, U)
        bias = w[:, -1].expand(len(keys), -1)
    else:
        own = F.embedding(places.clamp_min(0), w)  # (B, C, E + 1); its gradient is the same for any order of threads
        logits, bias = keys @ own[:, :, :-1].mT, own[:, :, -1]  # (B, T, C)
    weights = logits.masked_fill(~there[:, :, None], torch.finfo(logits.dtype).min).softmax(1)
    m = (weights.mT @ values).relu()  # (B, C, V)
    half = values.shape[2] // 2
    return m[:, :, :half].sum(2) - m[:, :, half:].sum(2) + bias
