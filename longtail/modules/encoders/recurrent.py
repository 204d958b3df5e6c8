"""The recurrent encoder of AttentionXML: words in order, read from both sides."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from longtail.errors import BadInput
from longtail.modules.encoders.base import Encoder
from longtail.modules.encoders.static import start_from
from longtail.modules.table import Table, load_module_state, module_state, unit
from longtail.text.tokens import PaddedTokens, Tokens
from longtail.text.words import WordTokenizer

_FILE = "recurrent.safetensors"


class RecurrentEncoder(Encoder):
    """x = normalise(mean(h_1 .. h_T)), with h_t the states of a bidirectional LSTM at each word.

    Source of the states: AttentionXML (You et al., 2019), whose labels weigh them by themselves. The mean is for
    recipes that have one vector a text.

    Args:
        tokenizer: knows the V words, and T.
        embedding: E, the width of a word's vector, an even number; a state is as wide, half of it from each side.
        dropout: share of the numbers of word vectors that are dropped in a step.
        generator: draws the start of everything.

    Raises:
        BadInput: the width is odd.
    """

    tokenizer: WordTokenizer

    def __init__(
        self, tokenizer: WordTokenizer, embedding: int, *, dropout: float = 0.2, generator: torch.Generator
    ) -> None:
        super().__init__()
        if embedding % 2:
            problem = f"expected an even number, half of which is read from each side, found {embedding}"
            raise BadInput("width", problem, remedy="change the width of the word vectors")
        self.tokenizer, self.dropout, self.width = tokenizer, dropout, embedding
        self.table = Table(torch.randn(len(tokenizer), embedding, generator=generator) * embedding**-0.5)
        self.lstm = nn.LSTM(embedding, embedding // 2, batch_first=True, bidirectional=True)
        for name, parameter in self.lstm.named_parameters():
            if name.startswith("weight"):
                nn.init.xavier_uniform_(parameter, generator=generator)
            else:
                nn.init.zeros_(parameter)

    @classmethod
    def make(
        cls, *, corpus: Iterable[str], width: int, max_length: int, generator: torch.Generator, **_: object
    ) -> RecurrentEncoder:
        """An encoder that knows the words of a corpus; see `longtail.modules.encoders.named.make_encoder`."""
        return cls(WordTokenizer.fit(corpus, max_length=max_length), width, generator=generator)

    def states(self, text: PaddedTokens) -> Tensor:
        """The states of B texts at their words, (B, T, E), zeros on padding; T is that of the longest, 1 at least."""
        spread = self.table.sequences(text) * float(self.width**0.5)  # entries of about 1, as gates expect them
        words = F.dropout(spread, self.dropout, self.training)
        lengths = text.mask.sum(1)
        if not words.shape[1]:
            return words.new_zeros(len(text), 1, self.width)
        packed = pack_padded_sequence(words, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return states * text.mask[:, :, None]

    def forward(self, text: Tokens) -> Tensor:
        """Encode B texts as (B, E) float32 rows of unit length; those without a known word are zeros."""
        assert isinstance(text, PaddedTokens)
        return unit(self.states(text).sum(1))

    def start_from(self, path: Path) -> tuple[int, int]:
        """Start the rows of known words from static vectors; see `longtail.modules.encoders.static.start_from`."""
        return start_from(self.table, self.tokenizer.words, path)

    def save(self, folder: Path) -> None:
        """Write ``words.json`` and ``recurrent.safetensors``."""
        self.tokenizer.save(folder)
        save_file(module_state(self), folder / _FILE)

    @classmethod
    def load(cls, folder: Path) -> RecurrentEncoder:
        """Read what `save` wrote."""
        state = load_file(folder / _FILE)
        encoder = cls(WordTokenizer.load(folder), state["table"].shape[1], generator=torch.Generator())
        load_module_state(encoder, state)
        return encoder
