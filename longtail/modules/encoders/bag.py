"""The bag encoder: an embedding of words, word pairs and character n-grams; it trains from nothing on a CPU."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from longtail.modules.encoders.base import Encoder, Features
from longtail.modules.encoders.static import start_from
from longtail.modules.table import Table, module_state, unit
from longtail.text.bag import BagTokenizer
from longtail.text.tokens import BagTokens, Tokens


class BagEncoder(Encoder):
    """x = normalise(sum over features f of weight(f) E[f]), with tf-idf weights from the tokeniser.

    The table starts from independent normal rows: the inner product of two texts is then an unbiased estimate of the
    cosine of their tf-idf vectors, so that the encoder is of use before its first step.

    Args:
        tokenizer: knows the V features.
        width: D, the width of a vector.
        generator: draws the start of the (V, D) table.
    """

    tokenizer: BagTokenizer

    def __init__(self, tokenizer: BagTokenizer, width: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.width = width
        self.table = Table(torch.randn(len(tokenizer), width, generator=generator) * width**-0.5)

    @classmethod
    def make(
        cls, *, corpus: Iterable[str], width: int, ends: bool, generator: torch.Generator, **_: object
    ) -> BagEncoder:
        """An encoder that knows the features of a corpus; see `longtail.modules.encoders.named.make_encoder`."""
        return cls(BagTokenizer.fit(corpus, ends=ends), width, generator=generator)

    def forward(self, text: Tokens) -> Tensor:
        """Encode B bags as (B, D) rows of unit length; a bag without a known feature becomes a zero row."""
        return unit(_sums(self.table, text))

    @property
    def features(self) -> Features:
        """The table, and sums of its rows."""
        return Features(self.table, _sums)

    def with_table(self, table: Table) -> BagEncoder:
        """The same features with the rows of another table, (V, D')."""
        encoder = type(self).__new__(type(self))
        Encoder.__init__(encoder)
        encoder.tokenizer, encoder.width, encoder.table = self.tokenizer, table.width, table
        return encoder

    def start_from(self, path: Path) -> tuple[int, int]:
        """Start the rows of known words from static vectors; see `longtail.modules.encoders.static.start_from`."""
        return start_from(self.table, self.tokenizer.features, path)

    def save(self, folder: Path) -> None:
        """Write ``bag.json`` and ``bag.safetensors``."""
        self.tokenizer.save(folder)
        save_file(module_state(self), folder / "bag.safetensors")

    @classmethod
    def load(cls, folder: Path) -> BagEncoder:
        """Read what `save` wrote."""
        table = Table(load_file(folder / "bag.safetensors")["table"])
        encoder = cls.__new__(cls)
        Encoder.__init__(encoder)
        encoder.tokenizer, encoder.width, encoder.table = BagTokenizer.load(folder), table.width, table
        return encoder


def _sums(table: Table, text: Tokens) -> Tensor:
    assert isinstance(text, BagTokens)
    return table.bag_sum(text)
