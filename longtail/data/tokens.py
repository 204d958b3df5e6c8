"""Tokens of one batch: what an encoder reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class PaddedTokens:
    """B token sequences for a transformer, padded to the longest of them.

    Attributes:
        ids: (B, T) int64.
        mask: (B, T) bool, False on padding.
    """

    ids: Tensor
    mask: Tensor

    def __len__(self) -> int:
        return int(self.ids.shape[0])

    def to(self, device: torch.device) -> PaddedTokens:
        """The same tokens on a device."""
        return PaddedTokens(self.ids.to(device, non_blocking=True), self.mask.to(device, non_blocking=True))


@dataclass(frozen=True, slots=True)
class BagTokens:
    """B bags of weighted features out of V, in both directions, so that neither pass of a bag encoder has to sort.

    Attributes:
        ids: (F,) int64 feature ids, bag after bag.
        offsets: (B + 1,) int64; bag b holds ``ids[offsets[b]:offsets[b + 1]]``.
        weights: (F,) float32.
        features: (U,) int64, the distinct ids, ascending.
        feature_offsets: (U + 1,) int64; feature u is in ``feature_bags[feature_offsets[u]:feature_offsets[u + 1]]``.
        feature_bags: (F,) int64, the bags that hold each feature.
        feature_weights: (F,) float32, the weights in that order.
    """

    ids: Tensor
    offsets: Tensor
    weights: Tensor
    features: Tensor
    feature_offsets: Tensor
    feature_bags: Tensor
    feature_weights: Tensor

    def __len__(self) -> int:
        return int(self.offsets.shape[0]) - 1

    def to(self, device: torch.device) -> BagTokens:
        """The same bags on a device."""
        return BagTokens(*(getattr(self, name).to(device, non_blocking=True) for name in self.__slots__))


Tokens: TypeAlias = PaddedTokens | BagTokens
