"""Pairs of texts for a cross-encoder: the tokens of a document and a label in one sequence."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from longtail.errors import BadInput
from longtail.text.huggingface import FastTokenizer, model_folder, positions
from longtail.text.ragged import Ragged
from longtail.text.tokens import blocks_of

_LENGTH = 64  # of a pair, if nothing else is asked for: of titles, few are cut
_PROBE = "a", "a"  # a pair, of which the special tokens around two texts are read


@dataclass(frozen=True, slots=True)
class PairTokens:
    """E pairs of a document and a label, each one sequence, padded on the right to the longest of them.

    Attributes:
        ids: (E, T) int64.
        mask: (E, T) bool, False on padding.
        types: (E, T) int64, 0 for what belongs to the document and 1 for the label, as the tokeniser has it.
    """

    ids: Tensor
    mask: Tensor
    types: Tensor

    def __len__(self) -> int:
        return int(self.ids.shape[0])

    def rows(self, some: Tensor, width: int) -> PairTokens:
        """Some of the pairs, cut to so many tokens."""
        return PairTokens(self.ids[some, :width], self.mask[some, :width], self.types[some, :width])

    def to(self, device: torch.device) -> PairTokens:
        """The same tokens on a device."""
        return PairTokens(self.ids.to(device), self.mask.to(device), self.types.to(device))


class PairTokenizer(FastTokenizer):
    """The fast tokeniser of a transformer, for pairs of texts.

    Each text is tokenised by itself, once, and `pairs` puts the special tokens around two of them, where the tokeniser
    puts them around the texts of a pair.

    Args:
        name: the transformer, as in `longtail.text.huggingface.model_folder`.
        max_length: tokens of a pair, special tokens included; None takes what the tokeniser says, and at most 64
            and the positions that the model has.

    Attributes:
        max_length: as above, settled.
        room: tokens that a document has at most; its label has one at least.

    Raises:
        BadInput: the folder holds no fast tokeniser of pairs, or the length is out of range.
    """

    def __init__(self, name: str | Path, max_length: int | None = None) -> None:
        folder = model_folder(name)
        super().__init__(folder)
        self._rules.no_truncation()
        self._around, self._types = self._specials(folder)
        special = sum(map(len, self._around))
        limit = int(min(self._pretrained.model_max_length, positions(folder), 2**20))
        self.max_length = min(_LENGTH, limit) if max_length is None else max_length
        if not special + 2 <= self.max_length <= limit:
            problem = f"expected a length in {special + 2} to {limit} tokens, found {self.max_length}"
            raise BadInput("max_length", problem, remedy="change it")
        self._pretrained.model_max_length = self.max_length
        self.room = self.max_length - special - 1

    def _specials(self, folder: Path) -> tuple[tuple[list[int], list[int], list[int]], tuple[list[int], ...]]:
        """The special tokens before, between and behind two texts, and the types of these and of the two."""
        probe = self._rules.encode(*_PROBE)
        of = [-1 if one is None else one for one in probe.sequence_ids]
        if 0 not in of or 1 not in of:
            problem = "expected a tokeniser of pairs, found one that gives no token for a text"
            raise BadInput(folder, problem, remedy="choose another model")
        ends = [of.index(0), len(of) - of[::-1].index(0), of.index(1), len(of) - of[::-1].index(1), len(of)]
        parts = [slice(start, end) for start, end in pairwise([0, *ends])]  # before, document, between, label, behind
        before, _, between, _, behind = (list(probe.ids[part]) for part in parts)
        types = [list(probe.type_ids[part]) for part in parts]
        return (before, between, behind), (types[0], types[1][:1], types[2], types[3][:1], types[4])

    @property
    def fingerprint(self) -> str:
        """A hash of everything that decides the tokens of a text."""
        return hashlib.sha256(f"{self._rules.to_str()} for pairs, {self.room}".encode()).hexdigest()

    def __call__(self, texts: Iterable[str]) -> Ragged:
        """The tokens of n texts, as many of each as a pair may have, without special tokens."""
        return Ragged.concatenated([self._table(block) for block in blocks_of(texts)])

    def _table(self, texts: list[str]) -> Ragged:
        found = self._rules.encode_batch_fast(texts, add_special_tokens=False)
        return Ragged.of([encoding.ids[: self.room] for encoding in found])

    def pairs(self, documents: Ragged, labels: Ragged) -> PairTokens:
        """E documents, each with the label beside it.

        Where both together are too long, the longer one is cut: a label to no less than half of the room, and the
        document to what is left.

        Args:
            documents: E rows of tokens.
            labels: E rows of tokens.
        """
        room = self.room + 1
        (before, between, behind), types = self._around, self._types
        ids, kinds = [], []
        for document, label in zip(_rows(documents), _rows(labels), strict=True):
            second = label[: max(room // 2, room - len(document))]
            first = document[: room - len(second)]
            ids.append([*before, *first, *between, *second, *behind])
            kinds.append([*types[0], *types[1] * len(first), *types[2], *types[3] * len(second), *types[4]])
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        mask = np.arange(lengths.max(initial=0)) < lengths[:, None]  # (E, T)
        filled = np.full(mask.shape, self.padding, np.int64), np.zeros(mask.shape, np.int64)
        for array, rows in zip(filled, (ids, kinds), strict=True):
            array[mask] = np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum()))
        return PairTokens(torch.from_numpy(filled[0]), torch.from_numpy(mask), torch.from_numpy(filled[1]))


def _rows(table: Ragged) -> list[list[int]]:
    ids = table.ids.tolist()
    return [ids[start:end] for start, end in pairwise(table.offsets.tolist())]
