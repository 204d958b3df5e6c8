"""What a loss is, and what a row of the table of losses says of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

Loss: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Scores (B, P), targets (B, P) float32 in [0, 1], mask (B, P) bool -> (), a mean over rows.

A masked pair (False) has no influence on the value and gets a gradient of exactly zero. Where a loss is defined by
the positives of a row, a row without any is left out of the mean. Scores are never edited in place, and half
precision is widened to float32. Options are keywords; `functools.partial` binds them.
"""


@dataclass(frozen=True, slots=True)
class LossKind:
    """A row of `longtail.losses.LOSSES`.

    Attributes:
        function: a `Loss`; it has at least the option ``temperature``.
        about: one line of help.
        over_all_labels: its twin over every label, a function of (B, D) documents, the (L, D) table of all labels and
            `longtail.losses.full.targets.SparseTargets` (see `longtail.losses.full.chunked`); None if there is none.
        one_versus_all: whether each pair is a question of its own, so that the level of a score counts and not only its
            rank: classifiers then start from biases.
        learnable: whether its temperature can be learned, outside of it: a softmax, in which scores count as divided by
            the temperature and in no other way, and their level does not.
    """

    function: Callable[..., Tensor]
    about: str
    over_all_labels: Callable[..., Tensor] | None = None
    one_versus_all: bool = False
    learnable: bool = False
