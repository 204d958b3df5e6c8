"""An encoder of several fields, which are read apart and mixed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from longtail.errors import BadInput
from longtail.files import read_json, write_json
from longtail.modules.encoders.base import Encoder, Features
from longtail.modules.encoders.mixing import Mix
from longtail.modules.table import Table, unit
from longtail.text.fields import FieldTokenizer
from longtail.text.huggingface import GET_AGAIN
from longtail.text.tokens import FieldTokens, Tokens

_CARD, _MIX = "fields.json", "fields.safetensors"


class FieldedEncoder(Encoder):
    """x = normalise(sum over fields f of w_f encoder(f)), with weights by what stands in the fields (`Mix`).

    All fields share the encoder. A field that a text lacks has no weight: a text of one field is encoded as by the
    encoder alone.

    Args:
        encoder: of one field.
        count: F, of the fields.
    """

    tokenizer: FieldTokenizer

    def __init__(self, encoder: Encoder, count: int) -> None:
        super().__init__()
        self.encoder, self.count, self.width = encoder, count, encoder.width
        self.tokenizer = FieldTokenizer(encoder.tokenizer, count)
        self.mix = Mix(count, encoder.width)

    @property
    def core(self) -> Encoder:
        """The encoder of a field."""
        return self.encoder

    @property
    def label_tokenizer(self) -> FieldTokenizer:
        """Makes the tokens of the fields of labels."""
        return FieldTokenizer(self.encoder.label_tokenizer, self.count)

    @property
    def features(self) -> Features | None:
        """The table of the encoder, and what is mixed of its sums."""
        own = self.encoder.features
        if own is None:
            return None

        def sums(table: Table, text: Tokens) -> Tensor:
            assert isinstance(text, FieldTokens)
            return self._mixed(unit(own.sums(table, text.parts)), text)

        return Features(own.table, sums)

    def forward(self, text: Tokens) -> Tensor:
        """Encode B texts as (B, D) float32 rows of unit length."""
        assert isinstance(text, FieldTokens)
        return unit(self._mixed(self.encoder(text.parts), text))

    def _mixed(self, vectors: Tensor, text: FieldTokens) -> Tensor:
        mixed: Tensor = self.mix(vectors, text.of, text.kind, len(text))
        return mixed

    def parameter_groups(self, rate: float) -> list[dict[str, Any]]:
        """Groups for an optimiser: those of the encoder, and one of the mix."""
        groups = getattr(self.encoder, "parameter_groups", None)
        own = [{"params": list(self.encoder.parameters()), "lr": rate}] if groups is None else groups(rate)
        return [*own, self.mix.group(rate)]

    def start_from(self, path: Path) -> tuple[int, int]:
        """Start the rows of known words from static vectors."""
        return self.encoder.start_from(path)

    def save(self, folder: Path) -> None:
        """Write the encoder of a field, and beside it ``fields.json`` and ``fields.safetensors``."""
        self.encoder.save(folder)
        write_json(folder / _CARD, {"fields": self.count})
        self.mix.save(folder / _MIX)


def with_fields(encoder: Encoder, folder: Path) -> Encoder:
    """An encoder as it was saved in a folder: one of several fields, if that says so.

    Raises:
        BadInput: it does not say how many, or lacks the weights of the mix.
    """
    if not (folder / _CARD).exists():
        return encoder
    count = read_json(folder / _CARD, remedy=GET_AGAIN).get("fields")
    if not isinstance(count, int) or count < 1:
        raise BadInput(folder / _CARD, f"expected a number of fields, found {count}", remedy=GET_AGAIN)
    fielded = FieldedEncoder(encoder, count)
    fielded.mix.read(folder / _MIX)
    return fielded
