"""Tokens: tables of them, keyed by content, and what an encoder reads of one batch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import dropout, pad

from longtail.data.sparse import gather
from longtail.data.texts import Texts
from longtail.files import kept
from longtail.text.ragged import Ragged
from longtail.topk import IntArray

Kind = TypeVar("Kind", "PaddedTokens", "BagTokens", "VectorTokens", "FieldTokens")
_BLOCK = 16_384  # texts that are tokenised at a time


@dataclass(frozen=True, slots=True)
class PaddedTokens:
    """B token sequences for a transformer or a convolution, padded to the longest of them.

    Attributes:
        ids: (B, T) int64.
        mask: (B, T) bool, False on padding.
    """

    ids: Tensor
    mask: Tensor

    @classmethod
    def of(cls, table: Ragged, rows: IntArray, padding: int = 0) -> PaddedTokens:
        """Some rows of a token table, with an id on the right of all that are shorter than the longest."""
        positions, counts = gather(table.offsets, rows)
        mask = np.arange(counts.max(initial=0)) < counts[:, None]  # (B, T)
        ids = np.full(mask.shape, padding, np.int64)
        ids[mask] = table.ids[positions]
        return cls(torch.from_numpy(ids), torch.from_numpy(mask))

    def __len__(self) -> int:
        return int(self.ids.shape[0])

    def rows(self, some: slice) -> PaddedTokens:
        """Some of the texts, next to each other."""
        return PaddedTokens(self.ids[some], self.mask[some])

    def to(self, device: torch.device) -> PaddedTokens:
        """The same tokens on a device."""
        return PaddedTokens(self.ids.to(device, non_blocking=True), self.mask.to(device, non_blocking=True))

    def followed_by(self, *others: Tokens) -> PaddedTokens:
        """The texts of all, one after the other."""
        every = _of_one_kind(self, others)
        width = max(tokens.ids.shape[1] for tokens in every)
        ids, mask = (
            torch.cat([pad(side, (0, width - side.shape[1])) for side in sides])
            for sides in ([tokens.ids for tokens in every], [tokens.mask for tokens in every])
        )
        return PaddedTokens(ids, mask)

    def windows(self, length: int) -> tuple[PaddedTokens, Tensor]:
        """The parts of so many tokens that texts were cut into, as S texts of their own, and whose each is, (S,)."""
        count = -(-self.ids.shape[1] // length)
        if count <= 1:
            return self, torch.arange(len(self), device=self.ids.device)
        ids, mask = (pad(side, (0, count * length - side.shape[1])).view(-1, length) for side in (self.ids, self.mask))
        there = mask.any(1).nonzero()[:, 0]
        return PaddedTokens(ids[there], mask[there]), there // count

    def without(self, share: float) -> PaddedTokens:
        """The texts without a share of their tokens, in [0, 1), drawn at random; the first of each stays."""
        if not share:
            return self
        kept = self.mask & (torch.rand(self.mask.shape, device=self.mask.device) >= share)
        kept[:, :1] = self.mask[:, :1]
        order = kept.int().argsort(dim=1, descending=True, stable=True)
        return PaddedTokens(self.ids.gather(1, order), kept.gather(1, order))


@dataclass(frozen=True, slots=True)
class BagTokens:
    """B bags of weighted features out of V.

    Attributes:
        ids: (F,) int64 feature ids, bag after bag.
        offsets: (B + 1,) int64; bag b holds ``ids[offsets[b]:offsets[b + 1]]``.
        weights: (F,) float32.
    """

    ids: Tensor
    offsets: Tensor
    weights: Tensor

    def __len__(self) -> int:
        return int(self.offsets.shape[0]) - 1

    def rows(self, some: slice) -> BagTokens:
        """Some of the bags, next to each other."""
        first, last, _ = some.indices(len(self))
        offsets = self.offsets[first : last + 1]
        of = slice(int(offsets[0]), int(offsets[-1]))
        return BagTokens(self.ids[of], offsets - offsets[0], self.weights[of])

    def to(self, device: torch.device) -> BagTokens:
        """The same bags on a device."""
        return BagTokens(*(getattr(self, name).to(device, non_blocking=True) for name in self.__slots__))

    def followed_by(self, *others: Tokens) -> BagTokens:
        """The bags of all, one after the other."""
        every = _of_one_kind(self, others)
        sizes = torch.cat([tokens.offsets.diff() for tokens in every])
        return BagTokens(
            torch.cat([tokens.ids for tokens in every]),
            pad(sizes.cumsum(0), (1, 0)),
            torch.cat([tokens.weights for tokens in every]),
        )

    def without(self, share: float) -> BagTokens:
        """The bags without a share of their features, in [0, 1), drawn at random: these have the weight 0."""
        return replace(self, weights=dropout(self.weights, share)) if share else self

    def by_feature(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The same the other way round, which bags hold each feature: what the backward pass of a bag encoder reads.

        Returns:
            features: (U,) int64, the distinct ids, ascending.
            offsets: (U + 1,) int64; feature u is in ``bags[offsets[u]:offsets[u + 1]]``.
            bags: (F,) int64, ascending for each feature.
            weights: (F,) float32, in that order.
        """
        ids, order = self.ids.sort(stable=True)
        features, counts = torch.unique_consecutive(ids, return_counts=True)
        bags = torch.arange(len(self), device=ids.device).repeat_interleave(self.offsets.diff())
        return features, pad(counts.cumsum(0), (1, 0)), bags[order], self.weights[order]


@dataclass(frozen=True, slots=True)
class VectorTokens:
    """B texts that were encoded before: what a classifier on a frozen encoder reads.

    Attributes:
        values: (B, D) float32.
    """

    values: Tensor

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def rows(self, some: slice) -> VectorTokens:
        """Some of the vectors, next to each other."""
        return VectorTokens(self.values[some])

    def to(self, device: torch.device) -> VectorTokens:
        """The same vectors on a device."""
        return VectorTokens(self.values.to(device, non_blocking=True))

    def followed_by(self, *others: Tokens) -> VectorTokens:
        """The vectors of all, one after the other."""
        return VectorTokens(torch.cat([tokens.values for tokens in _of_one_kind(self, others)]))

    def without(self, share: float) -> VectorTokens:
        """The vectors without a share of their numbers, in [0, 1), drawn at random: these are 0."""
        return VectorTokens(dropout(self.values, share)) if share else self


@dataclass(frozen=True, slots=True)
class FieldTokens:
    """B texts of several fields, each field that is there a text of its own.

    Attributes:
        parts: the tokens of the S fields of all texts.
        of: (S,) int64 ascending, whose each is.
        kind: (S,) int64, which field each is, counted from 0.
        count: B.
    """

    parts: Tokens
    of: Tensor
    kind: Tensor
    count: int

    def __len__(self) -> int:
        return self.count

    def rows(self, some: slice) -> FieldTokens:
        """Some of the texts, next to each other."""
        first, last, _ = some.indices(len(self))
        within = slice(int((self.of < first).sum()), int((self.of < last).sum()))
        return FieldTokens(self.parts.rows(within), self.of[within] - first, self.kind[within], max(0, last - first))

    def to(self, device: torch.device) -> FieldTokens:
        """The same tokens on a device."""
        return replace(self, parts=self.parts.to(device), of=self.of.to(device), kind=self.kind.to(device))

    def followed_by(self, *others: Tokens) -> FieldTokens:
        """The texts of all, one after the other."""
        every = _of_one_kind(self, others)
        starts = accumulate((len(tokens) for tokens in every), initial=0)
        return FieldTokens(
            self.parts.followed_by(*(tokens.parts for tokens in every[1:])),
            torch.cat([tokens.of + start for tokens, start in zip(every, starts, strict=False)]),
            torch.cat([tokens.kind for tokens in every]),
            sum(len(tokens) for tokens in every),
        )

    def without(self, share: float) -> FieldTokens:
        """The texts without a share of the tokens of each field, in [0, 1), drawn at random."""
        return replace(self, parts=self.parts.without(share))


def _of_one_kind(first: Kind, others: Sequence[Tokens]) -> list[Kind]:
    every = [first]
    for other in others:
        assert isinstance(other, type(first))
        every.append(other)
    return every


Tokens: TypeAlias = PaddedTokens | BagTokens | VectorTokens | FieldTokens


class Tokenizer(Protocol):
    """Turns texts into token tables, and rows of a table into tokens of a batch.

    One that reads fields apart says what is to stand ``between`` them (`longtail.text.fields.FieldTokenizer`).
    """

    @property
    def fingerprint(self) -> str:
        """A hash of everything that decides the output."""

    def __call__(self, texts: Iterable[str]) -> Ragged:
        """Tokenise n texts into a table of n rows."""

    def batch(self, table: Ragged, rows: IntArray) -> Tokens:
        """The tokens of B rows of a table."""


def blocks_of(texts: Iterable[str]) -> Iterator[list[str]]:
    """The texts, as many at a time as a tokeniser works on."""
    iterator = iter(texts)
    while block := list(islice(iterator, _BLOCK)):
        yield block


def token_table(texts: Texts, fields: Sequence[str], tokenizer: Tokenizer, cache: Path | None = None) -> Ragged:
    """The token table of all texts.

    Args:
        texts: n texts.
        fields: which of their fields the encoder reads, joined by a space, or apart where the tokeniser reads them so.
        tokenizer: makes the tokens.
        cache: a folder that keeps tables, keyed by the hash of content, fields and tokeniser: a table is made once,
            or again where it is not whole, and memory-mapped from then on. None keeps it in memory.
    """
    between = getattr(tokenizer, "between", None)

    def made() -> Ragged:
        return tokenizer(texts.joined(fields) if between is None else texts.in_places(fields, between))

    if cache is None:
        return made()
    key = hashlib.sha256(f"{texts.digest()} {','.join(fields)} {tokenizer.fingerprint}".encode()).hexdigest()
    folder = cache / f"tokens-{key[:32]}"
    return kept(folder, lambda: made().save(folder), Ragged.load)
