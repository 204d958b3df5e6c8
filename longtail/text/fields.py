"""Fields of a text that are read apart, each as a text of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch

from longtail.data.sparse import gather, offsets_of
from longtail.text.ragged import Ragged
from longtail.text.tokens import FieldTokens, Tokenizer
from longtail.topk import IntArray

_END = -1  # in a row of a token table, the end of each field but the last


class FieldTokenizer:
    """Tokens of the fields of a text, each by the same tokeniser.

    A text is its fields with a NUL between them, which no text can hold (`longtail.data.texts.Texts.in_places`); those
    that it lacks at its end may be left out. A field that is empty has no tokens, and is none of a batch's parts; a
    text of empty fields alone is one empty part, of the first field.

    Args:
        tokenizer: of one field.
        count: F fields that a text has at most.
    """

    between = "\0"

    def __init__(self, tokenizer: Tokenizer, count: int) -> None:
        self.tokenizer, self.count = tokenizer, count

    @property
    def fingerprint(self) -> str:
        """A hash of everything that decides the output."""
        return f"{self.tokenizer.fingerprint} {self.count} apart"

    def __call__(self, texts: Iterable[str]) -> Ragged:
        """Tokenise n texts into a table of n rows: the tokens of each field, with a mark where one ends."""
        there: list[bool] = []

        def fields() -> Iterator[str]:
            for text in texts:
                parts = text.split(self.between)
                parts += [""] * (self.count - len(parts))
                found = [bool(part) for part in parts]
                there.extend([True, *found[1:]] if not any(found) else found)
                yield from parts

        table = self.tokenizer(fields())
        lengths = np.diff(table.offsets) * np.asarray(there, bool)  # (n F,)
        kept, _ = gather(table.offsets, np.flatnonzero(lengths))
        marks = np.arange(len(lengths)) % self.count < self.count - 1
        ends = offsets_of(lengths + marks)
        places = np.ones(ends[-1], bool)
        places[ends[1:][marks] - 1] = False
        ids = np.full(ends[-1], _END, np.int32)
        ids[places] = table.ids[kept]
        weights = np.zeros(ends[-1] if len(table.weights) else 0, np.float32)
        if len(weights):
            weights[places] = table.weights[kept]
        return Ragged(ids, ends[:: self.count], weights)

    def batch(self, table: Ragged, rows: IntArray) -> FieldTokens:
        """The tokens of B rows of a table, field by field."""
        some = table.take(rows)
        field = some.ids != _END
        parts = offsets_of(~field)  # the field that comes with each place
        row = np.repeat(np.arange(len(rows)), np.diff(some.offsets))
        lengths = np.bincount((parts[:-1] + row)[field], minlength=len(rows) * self.count)
        offsets = offsets_of(lengths)
        apart = Ragged(some.ids[field], offsets, some.weights[field] if len(some.weights) else some.weights)
        there = lengths.reshape(-1, self.count) > 0  # (B, F)
        there[:, 0] |= ~there.any(1)
        of, kind = there.nonzero()
        tokens = self.tokenizer.batch(apart, of * self.count + kind)
        return FieldTokens(tokens, torch.from_numpy(of), torch.from_numpy(kind), len(rows))
