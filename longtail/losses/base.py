"""What a loss is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from torch import Tensor

Loss: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Scores (B, P), targets (B, P) float32 in [0, 1], mask (B, P) bool -> (), a mean over rows.

A masked pair (False) has no influence on the value and gets a gradient of exactly zero. Where a loss is defined by
the positives of a row, a row without any is left out of the mean. Scores are never edited in place, and half
precision is widened to float32. Options are keywords; `functools.partial` binds them.
"""
